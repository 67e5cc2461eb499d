"""An upgrade: what a released Kho left is filed anew in the background, once, and nothing comes back from the dead."""

import asyncio
import shutil
from pathlib import Path

import orjson
import pytest
from tests.search.conftest import Ticking, doc

from kho.app import open_hub
from kho.experiences import capability as experiences
from kho.kernel.background import Background
from kho.kernel.call import Call
from kho.kernel.hub import Hub
from kho.kernel.ports import Database, SearchFilter, Tx, Words
from kho.search.indexing import passages
from kho.search.indexing.index import FORM, Document, Index
from kho.search.indexing.reindex import PAGE, form_row, reindex
from kho.search.query.searcher import Searcher
from kho.settings import Settings
from kho.storage.migrate import OWN, migrate


async def as_released(db: Database, folder: Path, count: int) -> None:
    """The tables of the first release, with records; the word index of that time is of no use now."""
    for name, source, later in ((*OWN, "00[!12]_*"), ("experiences", experiences.MIGRATIONS, "00[!1]_*")):
        first = shutil.ignore_patterns(later, "01*", "*.py", "__pycache__")
        await asyncio.to_thread(shutil.copytree, source, folder / name, ignore=first)
    await migrate(db, [(name, folder / name) for name in (OWN[0], "experiences")])

    def fill(tx: Tx) -> None:
        for n in range(count):
            deleted = 5 if n % 10 == 9 else None
            tx.run(
                "INSERT INTO experiences (tenant, id, title, problem_description, root_cause, solution, context, keywords, "
                "revision, created_by, deleted_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 1, 'me', $9)",
                "local",
                f"id-{n:04}",
                f"Lỗi number{n}",
                "The service stops.",
                None,
                "Start it again.",
                None,
                orjson.dumps(["crash"]).decode(),
                deleted,
            )
            tx.run(
                "INSERT INTO experience_uses (tenant, id, query_count, helpful, unhelpful, created_at, updated_at) "
                "VALUES ($1, $2, 0, 0, 0, $3, $3)",
                "local",
                f"id-{n:04}",
                1_000_000 * n,
            )

    await db.write(fill)


async def found(hub: Hub, keywords: str) -> list[str]:
    operation = hub.registry.methods["experiences-server/query_experiences"]
    answer = await hub.registry.call(operation, {"keywords": keywords}, Call(hub.local))
    return [one["id"] for one in answer.value["data"]["experiences"]]


async def test_records_of_a_released_kho_are_found_after_an_upgrade(
    blank: Database, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    count = 2 * PAGE + 30
    await as_released(blank, tmp_path / "first-release", count)
    if blank.engine == "sqlite":
        settings = Settings(home=request.getfixturevalue("sqlite_path").parent)
    else:
        url = request.getfixturevalue("postgres_schema_url")
        settings = Settings(home=tmp_path, database_url=url, migrate="auto")

    async def filed() -> bool:
        return await blank.read(lambda tx: passages.state(tx, form_row("experiences"))) is not None

    async with open_hub(settings) as hub:
        while not await filed():
            pass
        assert await found(hub, "number17") == ["id-0017"]
        assert await found(hub, "loi number203") == ["id-0203"]
        assert "id-0019" not in await found(hub, "number19")  # it was deleted; others are alike
    rows = await blank.read(lambda tx: tx.all("SELECT seq, key, created_at FROM passages ORDER BY key"))
    assert [(key, at) for _, key, at in rows] == [(f"id-{n:04}", 1_000_000 * n) for n in range(count) if n % 10 != 9]
    async with open_hub(settings) as hub:  # the second time there is nothing to do
        assert await found(hub, "number17") == ["id-0017"]
    assert await blank.read(lambda tx: tx.all("SELECT seq, key, created_at FROM passages ORDER BY key")) == rows


class Rows:
    """A slice with rows of its own: a table of texts."""

    def __init__(self, db: Database, words: Words) -> None:
        self.db = db
        self.index = Index(words, None, "", Ticking())
        self.searcher = Searcher(db, words)
        self.background = Background()
        self.pages = 0

    async def make(self, count: int) -> None:
        await self.db.write(lambda tx: tx.script("CREATE TABLE texts (id TEXT PRIMARY KEY, text TEXT NOT NULL)"))
        rows = [(f"r{n:04}", f"The row word{n}.") for n in range(count)]
        await self.db.write(lambda tx: tx.many("INSERT INTO texts (id, text) VALUES ($1, $2)", rows))

    def documents(self, tx: Tx, after: str, limit: int) -> tuple[list[Document], str | None]:
        self.pages += 1
        rows = tx.all("SELECT id, text FROM texts WHERE id > $1 ORDER BY id LIMIT $2", after, limit)
        return [doc(id, text) for id, text in rows], rows[-1][0] if len(rows) == limit else None

    async def reindex(self, form: int = 1) -> int:
        self.pages = 0
        await reindex(self.db, self.index, self.background, "s", form, self.documents)
        return self.pages

    async def keys(self, text: str) -> list[str]:
        return [hit.passage.key for hit in (await self.searcher.search(SearchFilter("s", "t"), text)).hits]


@pytest.fixture
def rows(db: Database, words: Words) -> Rows:
    return Rows(db, words)


async def test_once_in_each_form(rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    await rows.make(PAGE + 1)
    assert await rows.reindex() == 2
    assert await rows.keys("word7") == ["r0007"]
    assert await rows.reindex() == 0
    assert await rows.reindex(form=2) == 2
    assert await rows.reindex(form=2) == 0
    monkeypatch.setattr("kho.search.indexing.reindex.FORM", FORM + 1)  # folding changed
    assert await rows.reindex(form=2) == 2


async def test_words_that_were_folded_in_another_way_are_filed_anew(rows: Rows) -> None:
    await rows.make(3)
    await rows.reindex()
    seqs = await rows.db.read(lambda tx: [row[0] for row in tx.all("SELECT seq FROM passages ORDER BY seq")])
    await rows.db.write(lambda tx: tx.run("DELETE FROM words_entries"))
    if rows.db.engine == "sqlite":
        await rows.db.write(lambda tx: tx.run("DELETE FROM words_index"))
    assert await rows.keys("word1") == []
    await rows.reindex(form=2)
    assert (await rows.keys("word1"))[0] == "r0001"
    assert await rows.db.read(lambda tx: [row[0] for row in tx.all("SELECT seq FROM passages ORDER BY seq")]) == seqs


async def test_an_empty_slice_and_a_full_last_page(rows: Rows) -> None:
    await rows.make(0)
    assert await rows.reindex() == 1
    assert await rows.reindex() == 0
    await rows.db.write(
        lambda tx: tx.many("INSERT INTO texts (id, text) VALUES ($1, 'text')", [(f"x{n}",) for n in range(PAGE)])
    )
    assert await rows.reindex(form=2) == 2


async def test_what_is_deleted_meanwhile_stays_away(rows: Rows) -> None:
    """Between two pages, rows of the next page and of the last one are deleted."""
    await rows.make(2 * PAGE)
    read = rows.documents

    def deleting(tx: Tx, after: str, limit: int) -> tuple[list[Document], str | None]:
        if after:
            tx.run("DELETE FROM texts WHERE id IN ('r0003', 'r0150')")
            rows.index.drop(tx, "s", "t", ["r0003", "r0150"])
        return read(tx, after, limit)

    await reindex(rows.db, rows.index, rows.background, "s", 1, deleting)
    assert await rows.keys("word3") == await rows.keys("word150") == []
    assert await rows.keys("word4") == ["r0004"]
    assert await rows.db.read(lambda tx: tx.one("SELECT count(*) FROM passages")) == (2 * PAGE - 2,)


async def test_a_stop_in_the_middle_is_taken_up_again(rows: Rows) -> None:
    await rows.make(3 * PAGE)
    loop, first, read = asyncio.get_running_loop(), rows.background, rows.documents

    def stopping(tx: Tx, after: str, limit: int) -> tuple[list[Document], str | None]:
        asyncio.run_coroutine_threadsafe(first.drain(), loop).result()  # the hub begins to stop while a page is filed
        return read(tx, after, limit)

    await reindex(rows.db, rows.index, first, "s", 1, stopping)
    assert rows.pages == 1
    assert await rows.keys("word99") == ["r0099"]
    assert await rows.keys("word299") == []
    rows.background = Background()
    assert await rows.reindex() == 4
    assert await rows.keys("word299") == ["r0299"]
