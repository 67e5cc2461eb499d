"""Stores of earlier versions are brought up to date by real processes: under load, with kills, and only when asked."""

import contextlib
import http.client
import os
import random
import signal
import subprocess
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest
from tests.acceptance.processes import KHO, Client, Hub, Place, until
from tests.engines import schema
from tests.stores.kept import EMBEDDER, Json, Kept, all_kept, replay
from tests.timeouts import PATIENCE

from kho.app import migrations
from kho.kernel.ports import Database, Tx
from kho.lib.tenancy import in_all_tenants
from kho.settings import Settings
from kho.storage import migrate, tables
from kho.storage.postgres.database import Postgres
from kho.storage.sqlite.database import Sqlite

ANY = pytest.mark.parametrize("kept", all_kept(), ids=str)
OLDEST = [next(one for one in all_kept() if one.database == database) for database in ("sqlite", "postgres")]
EACH = pytest.mark.parametrize("kept", OLDEST, ids=str)
KILLS = int(os.environ.get("KHO_KILLS", "3"))
MODEL = {f"KHO_SEARCH__EMBEDDER__{name.upper()}": str(value) for name, value in EMBEDDER.items()}
LASTING = {
    "audit", "document_bodies", "document_revisions", "documents", "experience_feedback", "experience_revisions",
    "fact_revisions", "facts", "folded_summaries", "messages", "research_collections", "research_documents",
    "research_feedback", "research_projects", "research_project_collections", "research_texts",
}  # fmt: skip
"""Tables whose rows stay as they are while a hub runs."""
ASKED = b"".join(
    orjson.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + b"\n"
    for number, (method, params) in enumerate(
        {
            "initialize": {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"},
            },
            "tools/list": {},
        }.items()
    )
)
"""From a client on stdio; the hub is opened at its first question."""
Unpack = Callable[[Kept], "Store"]
Row = tuple[object, ...]


@dataclass(frozen=True)
class Rows:
    columns: tuple[str, ...]
    rows: list[Row]


Content = dict[str, Rows]
"""Of each table."""


class Store:
    """A kept store, unpacked, and the processes that open it."""

    def __init__(self, settings: Settings, recorded: Json) -> None:
        self.settings, self.recorded = settings, recorded
        self.place = Place(settings.home, settings.database_url)

    def run(
        self, *arguments: str, program: Sequence[str] = KHO, **environment: str
    ) -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(
            [*program, *arguments],
            input=ASKED if "stdio" in arguments else b"",
            capture_output=True,
            env=self.place.environment(**MODEL, **environment),
            timeout=PATIENCE,
            check=False,
        )

    @asynccontextmanager
    async def database(self) -> AsyncGenerator[Database]:
        url = self.settings.database_url
        db = Sqlite.open(self.settings.home / "kho.db") if url is None else Postgres.open(url)
        try:
            yield db
        finally:
            await db.aclose()

    async def content(self) -> Content:
        """All that is stored, and which migrations brought it there."""
        async with self.database() as db:
            with in_all_tenants():
                return await db.read(content)


def content(tx: Tx) -> Content:
    applied = [(*key, sha) for key, sha in migrate.history(tx)[0].items()]
    found = {tables.HISTORY: Rows(("slice", "number", "sha256"), sorted(applied))}
    for table in tables.stored(tx):
        rows = tx.all(f"SELECT {', '.join(table.columns)} FROM {table.name}")
        found[table.name] = Rows(table.columns, sorted(rows, key=repr))
    return found


@pytest.fixture
def unpack(tmp_path: Path, request: pytest.FixtureRequest) -> Unpack:
    def unpacked(kept: Kept, name: str = "home") -> Store:
        url = None if kept.database == "sqlite" else request.getfixturevalue("postgres_schema_url")
        settings = kept.unpack(tmp_path / name, url)
        settings.home.mkdir(exist_ok=True)
        return Store(settings, kept.recorded())

    return unpacked


# -- under load --------------------------------------------------------------------------------------------------------


class Load:
    """Clients that write facts for a tenant of their own, over HTTP and by commands, and try again when refused."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.over = threading.Event()
        self.key = ""
        self.acknowledged: set[str] = set()
        self.wrong: list[object] = []
        self.ports: list[int] = []

    def call(self, number: int, hub: int) -> None:
        count = 0
        while not self.over.is_set():
            if len(self.ports) <= hub or not self.key:
                self.over.wait(0.01)
                continue
            with contextlib.suppress(OSError, http.client.HTTPException), Client(self.ports[hub]) as client:
                while not self.over.is_set():
                    text = f"Fact {number} of hub {hub}: {count}."
                    body = orjson.dumps({"action": "remember", "payload": {"text": text}})
                    status, answer = client.post("/actions", body, authorization=f"Bearer {self.key}")
                    if status == 200:
                        self.acknowledged.add(text)
                        count += 1
                    elif status != 503:
                        self.wrong.append((status, answer))
                        return

    def type(self, number: int) -> None:
        count = 0
        while not self.over.is_set():
            text = f"Fact {number}, typed: {count}."
            done = self.store.run("remember", text, KHO_MIGRATE="auto", KHO_LOCAL__TENANT="load")
            if done.returncode == 0:
                self.acknowledged.add(text)
                count += 1
            elif b"Traceback" in done.stderr:
                self.wrong.append(done.stderr)

    def make_key(self) -> None:
        done = self.store.run("keys", "create", "load", "--tenant", "load", "--json", KHO_MIGRATE="auto")
        if done.returncode:
            self.wrong.append(done.stderr)
        else:
            self.key = orjson.loads(done.stdout)["key"]


@ANY
async def test_two_hubs_bring_it_up_to_date_while_clients_write(kept: Kept, unpack: Unpack) -> None:
    store = unpack(kept)
    before = await store.content()
    load = Load(store)
    work = [threading.Thread(target=load.make_key), threading.Thread(target=load.type, args=(0,))]
    work += [threading.Thread(target=load.call, args=(number, number % 2)) for number in range(4)]
    more = {**MODEL, "KHO_MIGRATE": "auto"}
    with Hub(store.place, **more) as first, Hub(store.place, **more) as second:
        for thread in work:
            thread.start()
        try:
            load.ports += [hub.ready().port for hub in (first, second)]
            until(lambda: load.key or load.wrong, "a key", first.process, second.process)
            wanted = [f"of hub {number}" for number in (0, 1)] + ["typed"]
            until(
                lambda: load.wrong or all(sum(one in text for text in [*load.acknowledged]) > 2 for one in wanted),
                "facts by every way",
                first.process,
                second.process,
            )
        finally:
            load.over.set()
            for thread in work:
                thread.join()
        assert load.wrong == []
        assert {first.terminate(), second.terminate()} == {-signal.SIGTERM}
        assert "Traceback" not in first.log + second.log
    after = await store.content()
    place = after["facts"].columns.index("text")
    assert load.acknowledged <= {row[place] for row in after["facts"].rows}
    for name in LASTING & before.keys():
        assert missing(before[name], after[name]) == [], name
    names = [(slice, number) for slice, number, _ in after["migrations"].rows]
    assert names == sorted((one.slice, one.number) for one in migrate.load(migrations(), kept.database))


def missing(before: Rows, after: Rows) -> list[Row]:
    """Rows that are not there any more, by the columns that they had."""
    places = [after.columns.index(column) for column in before.columns]
    there = {tuple(row[place] for place in places) for row in after.rows}
    return [row for row in before.rows if row not in there]


# -- kills -------------------------------------------------------------------------------------------------------------


@EACH
async def test_a_kill_leaves_it_whole_before_or_after(
    kept: Kept, unpack: Unpack, tmp_path: Path, postgres_url: str
) -> None:
    @contextlib.contextmanager
    def fresh(number: int) -> Generator[Store]:
        home = tmp_path / f"try {number}"
        if kept.database == "sqlite":
            yield Store(kept.unpack(home), {})
        else:
            home.mkdir()
            with schema(postgres_url) as url:
                yield Store(kept.unpack(home, url), {})

    with fresh(-1) as store:
        before = await store.content()
        ended, seconds = apply(store, None)
        assert ended == 0
        after = await store.content()
        assert after["migrations"] != before["migrations"]
    found = {"before": 0, "after": 0}
    for number in range(KILLS * 2):
        with fresh(number) as store:
            apply(store, seconds * random.random() ** 3)  # the end is the interpreter's
            left = await store.content()
            whole = "after" if left == after else "before"
            found[whole] += 1
            assert left == (after if whole == "after" else before), (number, found)
            done = store.run("migrate", "--apply", "--yes")
            assert done.returncode == 0, done.stderr
            assert await store.content() == after
            if number == 0:
                assert await replay(store.settings.model_copy(), kept.recorded(), "exchanges") == []
    print(kept, found)  # noqa: T201 - shown with -s: where the kills fell


def apply(store: Store, kill_after: float | None) -> tuple[int, float]:
    """Start to bring it up to date, and kill the process so many seconds after its first line. Return its status, and
    how long it took from there."""
    process = subprocess.Popen(
        [*KHO, "migrate", "--apply", "--yes"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=store.place.environment(**MODEL),
    )
    assert process.stderr is not None
    with process.stderr as lines:
        line = lines.readline()
        assert b"Migrations" in line, line
        begun = os.times().elapsed
        try:
            process.wait(PATIENCE if kill_after is None else kill_after)
        except subprocess.TimeoutExpired:
            process.kill()
        return process.wait(PATIENCE), os.times().elapsed - begun


# -- only when asked, and never by an older program --------------------------------------------------------------------


def one_sentence(done: "subprocess.CompletedProcess[bytes]", *words: str) -> None:
    said = done.stderr.decode().strip()
    assert done.returncode == 1, done
    assert "Traceback" not in said
    assert [line for line in said.splitlines() if line.startswith("error: ")] == said.splitlines(), said
    assert len(said.splitlines()) == 1
    assert all(word in said for word in words), said


COMMANDS = (
    ["remember", "The kettle is blue."],
    ["search", "kettle"],
    ["docs", "list"],
    ["devices", "list"],
    ["keys", "list"],
    ["facts", "export"],
    ["serve", "--port", "0"],
)


@pytest.mark.parametrize("kept", OLDEST[1:], ids=str)
async def test_postgres_with_data_is_left_alone_until_asked(kept: Kept, unpack: Unpack) -> None:
    store = unpack(kept)
    before = await store.content()
    for command in COMMANDS:
        one_sentence(store.run(*command), "kho backup FILE", "kho migrate --apply")
    doctor = store.run("doctor")
    assert (doctor.returncode, b"kho migrate --apply" in doctor.stdout) == (1, True)
    stdio = store.run("stdio")
    assert (stdio.returncode, b"kho migrate --apply" in stdio.stderr) == (1, True)
    assert b"kho migrate --apply" in stdio.stdout  # what the client is told
    check = store.run("migrate", "--check", "--json")
    found = orjson.loads(check.stdout)
    assert (check.returncode, found["state"]) == (1, "pending")
    assert found["pending"]
    assert found["bytes"] > 0
    said = store.run("migrate").stdout.decode()
    assert found["pending"][0] in said
    assert "kho backup FILE" in said
    one_sentence(store.run("migrate", "--apply"), "--yes")
    assert await store.content() == before
    done = store.run("migrate", "--apply", "--yes", "--json")
    assert done.returncode == 0, done.stderr
    assert orjson.loads(done.stdout)["applied"] == found["pending"]
    assert store.run("migrate").returncode == 0
    assert store.run("remember", "The kettle is blue.").returncode == 0


@pytest.mark.parametrize("kept", OLDEST[:1], ids=str)
async def test_sqlite_is_copied_and_brought_up_to_date_by_itself(kept: Kept, unpack: Unpack) -> None:
    store = unpack(kept)
    check = store.run("migrate", "--check", "--json")
    found = orjson.loads(check.stdout)
    assert (check.returncode, found["state"]) == (1, "pending")
    assert found["free"] > found["bytes"] == (store.settings.home / "kho.db").stat().st_size
    one_sentence(store.run("remember", "x", KHO_MIGRATE="ask"), "kho migrate --apply")
    assert store.run("remember", "The kettle is blue.").returncode == 0
    assert [*store.settings.home.glob("kho.db.before-*")] != []
    assert orjson.loads(store.run("migrate", "--json").stdout)["state"] == "current"


@pytest.mark.parametrize("newer", ["migration", "slice"])
@pytest.mark.parametrize("where", ["sqlite", "postgres"])
async def test_a_newer_store_is_refused_in_one_sentence(
    where: str, newer: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = None if where == "sqlite" else request.getfixturevalue("postgres_schema_url")
    (tmp_path / "home").mkdir()
    store = Store(Settings(home=tmp_path / "home", database_url=url), {})
    assert store.run("remember", "The kettle is blue.").returncode == 0
    new = ("facts", 99) if newer == "migration" else ("calendar", 1)

    def renew(tx: Tx) -> None:
        tx.run("INSERT INTO migrations (slice, number, name, sha256, applied_at) VALUES ($1, $2, 'x', 'x', 1)", *new)
        tx.run("UPDATE migrations SET name = '9.9 ' || $1 || ' facts' WHERE slice = 'kho'", new[0])

    async with store.database() as db:
        await db.write(renew)
    before = await store.content()
    for command in COMMANDS:
        one_sentence(store.run(*command), "newer than this program", "Kho 9.9")
    stdio = store.run("stdio")
    assert (stdio.returncode, b"newer than this program" in stdio.stderr) == (1, True)
    assert b"Traceback" not in stdio.stderr
    doctor = store.run("doctor")
    assert (doctor.returncode, doctor.stderr, b"newer than this program" in doctor.stdout) == (1, b"", True)
    agent = str(Path(KHO[0]).with_name("research-agent"))
    one_sentence(store.run("history", program=[agent]), "newer than this program")
    for option in ("--check", "--apply"):
        done = store.run("migrate", option)
        assert (done.returncode, b"newer than this program" in done.stdout) == (2, True)
    assert await store.content() == before
