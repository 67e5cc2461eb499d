"""Tenants do not interfere: nothing that one is answered depends on what another has, or tells it.

One tenant walks over every operation of the registry, and over all that is served beside them, twice: on a hub of its
own, and on one that another tenant has filled. Wherever a text goes in, it puts in what names something of the other's.
Both walks must be answered alike, byte for byte but for times and new ids, so that also a count, an order, a score, an
error or a cursor that knew of the other would be seen. An operation that is added is walked by itself, with the
arguments of its example; if these do not work, the test fails until `SPECIAL` says which do.
"""

import asyncio
import os
import re
import socket
import uuid
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.doors.doors import Served, add_key, bearer, listening
from tests.doors.streams import hearing
from tests.security.tenants import (
    BOARD,
    EXAMPLE,
    MORE,
    PREFIX,
    THEIR_BOARD,
    WORD,
    Mark,
    Tenant,
    Walk,
    global_ids,
    in_order,
    normal,
    opened,
    probes,
    resource_uris,
    working,
)
from tests.timeouts import PATIENCE

from kho.app import open_database, open_hub
from kho.doors.http.app import Application
from kho.experiences import service as experiences
from kho.kernel.access import METRICS, Open, names
from kho.kernel.call import Call, Principal
from kho.kernel.hub import Hub
from kho.kernel.operation import Operation
from kho.kernel.ports import Tx
from kho.kernel.registry import Outcome
from kho.kernel.web import Stream
from kho.settings import Settings
from kho.toolbox import duckduckgo

OURS, THEIRS = "acme", "globex"
LOOPBACK = ("127.0.0.1", "localhost", "::1")

NEVER_DONE = {
    "toolbox.duckduckgo_search": "nobody answers in a test",
    "toolbox.fetch_url": "nobody answers in a test",
    "toolbox.call": "nobody answers in a test",
    "documents.export": "only the command line has it",
    "documents.import": "only the command line has it",
    "experiences.approve": "nothing waits here: tests/experiences/test_review.py has another tenant ask",
    "experiences.reject": "nothing waits here: tests/experiences/test_review.py has another tenant ask",
    "administration.turn_off_keys": "only the command line may",
    "administration.list_settings": "only the hub's own tenant may",
}
"""Operations that no call of a tenant's key succeeds at, and why."""

NOT_COMPARED: dict[str, str] = {
    "audit.verify_audit": "how much is sealed by now, and digests that chance salts",
    "audit.export_audit": "the same, and the numbers of rows, which count for the whole hub",
    "audit.erase_audit": "how much is sealed by now",
}
"""Operations that must show what all tenants share, such as a number that counts for the whole hub, and why. Their
answers are looked through all the same."""


@pytest.fixture(autouse=True)
def loopback_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The resolver knows this machine alone: some operations would look up names of others."""
    real = socket.getaddrinfo

    def resolve(host: Any, *more: Any, **named: Any) -> Any:
        if host not in (None, *LOOPBACK):
            raise socket.gaierror(socket.EAI_NONAME, "the tests know no such name")
        return real(host, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)


@pytest.fixture
def the_same_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hubs that are asked the same answer the same: new ids sort as they were made, and uses of records are counted
    when the hub stops, not some time after the answer."""
    numbers = count(0x20000000 << 96, 1 << 80)
    monkeypatch.setattr(experiences, "COUNT_INTERVAL", 3_600)  # uses that are counted meanwhile would move the rank
    monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=next(numbers), version=4))


@pytest.fixture(autouse=True)
def nobody_waits_for_the_web(monkeypatch: pytest.MonkeyPatch) -> None:
    """The web search is at a closed port here, and asked for dozens of times."""
    monkeypatch.setattr(duckduckgo, "PAUSE", 0)


@dataclass
class World:
    hub: Hub
    served: Served
    settings: Settings
    ours: Tenant
    theirs: Tenant
    done: set[str]
    """Operations that succeeded for us."""


@asynccontextmanager
async def world(settings: Settings, ours: Mark, them: Mark, folder: Path) -> AsyncGenerator[World]:
    """A hub with two tenants, neither of which has data."""
    hubs: list[Hub] = []

    @asynccontextmanager
    async def opened() -> AsyncGenerator[Hub]:
        async with open_hub(settings, serving=True) as hub:
            hubs.append(hub)
            yield hub

    app = Application(opened, settings.http, settings.mcp)
    async with listening(app) as (url, http):
        [hub], served = hubs, Served(url, app, http)
        done: set[str] = set()

        def observe(operation: Operation, call: Call, outcome: Outcome, seconds: float) -> None:
            if outcome.error is None and call.tenant == OURS:
                done.add(operation.name)

        hub.registry.observers.append(observe)
        await add_key(hub, "local", sub="operator")
        first = Tenant(OURS, served, await add_key(hub, OURS, "*", "admin", sub="ours"), ours, folder)
        second = Tenant(THEIRS, served, await add_key(hub, THEIRS, "*", "admin", sub="theirs"), them, folder)
        yield World(hub, served, settings, first, second, done)


def settings_for(base: Settings, folder: Path) -> Settings:
    """The folder that may be read from is the same for both."""
    folder.mkdir()
    note = folder / "note.md"
    note.write_text("# Notes\n\nEvery kettle boils.\n")
    os.utime(note, (1_700_000_000, 1_700_000_000))  # the time of a file that was written just now is not believed
    given: dict[str, Any] = {
        "research": {"roots": [str(folder)], "shared_roots": [str(folder)]},
        "mcp": {"tools": ["all"]},
    }
    if "limits" in Settings.model_fields:  # a walk asks more in a minute than a key may
        given["limits"] = {"requests": 0, "writes": 0}
    return Settings.model_validate({"home": base.home, "database_url": base.database_url, **given})


def principal(key: str, *scopes: str) -> Principal:
    return Principal("ours", OURS, frozenset(scopes or ("*", "admin")), "key", key=key)


async def walked(world: World, them: Tenant) -> Walk:
    """Everything, asked for by our key; `them` says what the other tenant has, or would have."""
    hub, ours = world.hub, world.ours
    walk = Walk(hub, world.served, ours.key, principal(ours.key))
    capabilities = hub.registry.capabilities
    uris, ids = resource_uris(ours.ids, them.ids), global_ids(ours.ids, them.ids)
    await walk.surface(capabilities, uris, ids)
    every_cursor = sorted({cursor for cursors in them.cursors.values() for cursor in cursors})
    for capability, operation in in_order(capabilities):
        walk.compares = operation.name not in NOT_COMPARED
        cursors = them.cursors.get(operation.name) or every_cursor[:4]
        base = working(operation, ours.ids)
        await walk.calls(capability.server, operation, probes(operation, ours.ids, them.ids, cursors))
        await walk.calls(capability.server, operation, [*MORE.get(operation.name, []), base])
        if operation.rpc is not None:
            await walk.elsewhere(operation, base)
        await walk.pages(capability.server, operation, base)
    walk.compares = True
    for stated in ({"tenant_id": THEIRS}, {"sub": "theirs"}, {"tenant_id": THEIRS, "roles": ["admin"]}):
        body = {"action": "list_facts", "payload": {}, "principal": stated}
        answer = await world.served.post("/actions", body, **bearer(ours.key))
        walk.note(f"as {stated}", f"{answer.status_code} {answer.text}")
    kept = {"action": "remember", "request_id": "request-1", "payload": {"text": f"The {WORD} sings."}}
    answer = await world.served.post("/actions", kept, **bearer(ours.key))
    walk.note("their request id", f"{answer.status_code} {answer.text}")
    await walk.surface(capabilities, uris, ids)
    return walk


async def looked_through(world: World, tenant: Tenant) -> None:
    """Have the tenant page through all that it has, and keep the cursors."""
    walk = Walk(world.hub, world.served, tenant.key, principal(tenant.key))
    for capability, operation in in_order(world.hub.registry.capabilities):
        if operation.effect == "read":
            arguments = {name: one for name, one in working(operation, tenant.ids).items() if name != "about"}
            tenant.cursors[operation.name] = (await walk.pages(capability.server, operation, arguments))[:3]


SEALED_LATER = {"audit_links", "audit_unsealed"}
"""The sealer links rows of the trail when it comes to them."""


async def dump(settings: Settings, tenant: str) -> dict[str, list[str]]:
    """Every row of the tenant, but for when its keys were used and what is done in the background."""
    database, _ = open_database(settings)

    def read(tx: Tx) -> dict[str, list[str]]:
        if database.engine == "sqlite":
            sql = "SELECT m.name, p.name FROM sqlite_master m, pragma_table_info(m.name) p WHERE m.type = 'table'"
        else:
            sql = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = current_schema()"
        columns: dict[str, list[str]] = {}
        for table, column in tx.all(sql):
            columns.setdefault(table, []).append(column)
        rows: dict[str, list[str]] = {}
        for table, known in sorted(columns.items()):
            if "tenant" in known and table not in SEALED_LATER:
                kept = ", ".join(sorted({*known} - {"last_used_at"}))
                rows[table] = sorted(map(str, tx.all(f"SELECT {kept} FROM {table} WHERE tenant = $1", tenant)))
        return rows

    try:
        return await database.read(read)
    finally:
        await database.aclose()


def decoded(text: str) -> str:
    """The text, and whatever in it is Base64."""
    return "\n".join([text, *map(opened, {*re.findall(r"[A-Za-z0-9_-]{16,}", text)})])


@pytest.mark.usefixtures("the_same_each_time")
async def test_nothing_that_a_tenant_is_answered_depends_on_another(
    request: pytest.FixtureRequest, tmp_path: Path, both_settings: Settings
) -> None:
    ours, them = Mark.new("own"), Mark.new("zq")
    folder = tmp_path / "notes"
    settings = settings_for(both_settings, folder)
    async with world(settings, ours, them, folder) as filled, AsyncExitStack() as stack:
        other = filled.theirs
        await other.fill("", PREFIX)
        headers = await other.approve(THEIR_BOARD)
        await stack.enter_async_context(other.board(THEIR_BOARD, headers))
        await other.waiting(THEIR_BOARD)  # it asks again, with new firmware
        await looked_through(filled, other)
        await furnish(filled, stack)
        before = await dump(settings, THEIRS)
        assert sum(map(len, before.values())) > 40
        walk = await walked(filled, other)
        after = await dump(settings, THEIRS)
        monitor = await add_key(filled.hub, OURS, METRICS, sub="monitor")  # its figures are of the whole hub, by design
        metrics = (await filled.served.get("/metrics", **bearer(monitor))).text
        boards = await other.do("devices-server/devices_list", {})
        assert [one.get("shows_code") for one in boards["devices"] if one["device"] == THEIR_BOARD] == [True]
        forgotten = {operation.name for _, operation in in_order(filled.hub.registry.capabilities)} - filled.done
        seen = Walk(filled.hub, filled.served, other.key, principal(other.key))
        await seen.surface(filled.hub.registry.capabilities, resource_uris(other.ids, {}), global_ids(other.ids, {}))
    assert forgotten == NEVER_DONE.keys(), "these need arguments that work: SPECIAL"
    assert {table: rows for table, rows in after.items() if rows != before[table]} == {}, "something of theirs changed"
    assert them.secret not in decoded(walk.text), leak(walk, them.secret)
    assert "kho_calls" in metrics
    assert [word for word in (them.secret, THEIRS, THEIR_BOARD) if word in metrics] == []
    assert ours.secret in walk.text
    assert ours.secret not in decoded(seen.text), leak(seen, ours.secret)
    assert them.secret in seen.text

    url = None if settings.database_url is None else request.getfixturevalue("another_schema_url")
    alone = settings.model_copy(update={"home": tmp_path / "alone", "database_url": url})
    async with world(alone, ours, them, folder) as empty, AsyncExitStack() as stack:
        await furnish(empty, stack)
        ghost = Tenant(THEIRS, empty.served, "", them, folder, other.ids, other.cursors)
        quiet = await walked(empty, ghost)
    compare(walk, quiet)


async def furnish(world: World, stack: AsyncExitStack) -> None:
    ours = world.ours
    await ours.fill("")
    await stack.enter_async_context(ours.board(BOARD, await ours.approve(BOARD)))
    await ours.waiting("aa:aa:aa:aa:aa:01")
    async with asyncio.timeout(PATIENCE):
        while True:  # the board's tools are listed a moment after it has joined
            look = Walk(world.hub, world.served, ours.key, principal(ours.key))
            await look.mcp("tools/list")
            if "described by the board itself" in look.text:
                break
            await asyncio.sleep(0.02)


def leak(walk: Walk, secret: str) -> str:
    return next((f"{asked}: {answer}" for asked, answer in walk.answers if secret in decoded(answer)), "")[:4000]


def compare(filled: Walk, empty: Walk) -> None:
    # When a board's tools come into the list is a matter of moments; that no foreign one does is asserted elsewhere.
    one, two = (
        [pair for pair in normal(walk.compared) if not pair[0].startswith("tools/list")] for walk in (filled, empty)
    )
    assert [asked for asked, _ in one] == [asked for asked, _ in two]
    differing = [(asked, parted(a, b)) for (asked, a), (_, b) in zip(one, two, strict=True) if a != b]
    assert [asked for asked, _ in differing] == [], (
        f"{len(differing)} answers know of the other tenant: {differing[:3]}"
    )


def parted(one: str, two: str) -> tuple[str, str]:
    """Where two answers part, beside each other."""
    same = next((at for at, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))
    start = max(0, same - 60)
    return one[start : start + 300], two[start : start + 300]


# -- what is told ------------------------------------------------------------------------------------------------------


async def test_nobody_hears_what_another_tenant_does(tmp_path: Path, both_settings: Settings) -> None:
    ours, them = Mark.new("own"), Mark.new("zq")
    folder = tmp_path / "notes"
    async with world(settings_for(both_settings, folder), ours, them, folder) as here, AsyncExitStack() as stack:
        streams = [one.path for c in here.hub.registry.capabilities for one in c.web if isinstance(one, Stream)]
        uris = [*resource_uris({}, {}), *(uri for uri in resource_uris({EXAMPLE: f"{PREFIX}{EXAMPLE}"}, {}))]
        heard = {
            (caller.name, stream): await stack.enter_async_context(
                hearing(here.served, stream, uris, **bearer(caller.key))
            )
            for caller in (here.ours, here.theirs)
            for stream in ("/mcp", "listen", *streams)
        }
        assert {one.status for one in heard.values()} == {200}
        await here.theirs.fill("", PREFIX)
        await stack.enter_async_context(here.theirs.board(THEIR_BOARD, await here.theirs.approve(THEIR_BOARD)))
        told = "resources/list_changed", "tools/list_changed"
        await heard[THEIRS, "/mcp"].until(*told, them.secret)
        await heard[THEIRS, "listen"].until(*told, "resources/updated")
        for stream in streams:
            await heard[THEIRS, stream].until(them.secret)
        # What is heard of ours comes after whatever was told of theirs.
        await stack.enter_async_context(here.ours.board(BOARD, await here.ours.approve(BOARD)))
        await here.ours.do("facts-server/remember", {"text": ours.text("facts")})
        await heard[OURS, "/mcp"].until(*told, ours.secret)
        await heard[OURS, "listen"].until(*told)
        for stream in streams:
            await heard[OURS, stream].until(ours.secret)
        for (name, stream), one in heard.items():
            if name == OURS:
                assert them.secret not in one.text, stream
                assert THEIR_BOARD not in one.text, stream
        assert heard[OURS, "listen"].text.count("resources/list_changed") == 1
        assert "resources/updated" not in heard[OURS, "listen"].text, "the names are theirs, too"


# -- scopes of a tenant's own keys -------------------------------------------------------------------------------------

TRAIL = "audit"
"""Shows an admin the rows of every slice."""


async def test_a_key_gets_nothing_of_a_slice_whose_scope_it_lacks(tmp_path: Path, both_settings: Settings) -> None:
    ours = Mark.new("own")
    folder = tmp_path / "notes"
    async with world(settings_for(both_settings, folder), ours, ours, folder) as here, AsyncExitStack() as stack:
        await furnish(here, stack)
        capabilities = here.hub.registry.capabilities
        opens: dict[str, set[str]] = {}
        for capability in capabilities:
            declared = [one.scope for one in (*capability.operations, *capability.prompts, *capability.web)]
            opens[capability.name] = {s for one in declared if not isinstance(one, Open) for s in names(one)}
        every = {METRICS}.union(*opens.values())
        shown: set[str] = set()
        for scope in sorted(every, key=lambda one: (one == "admin", one.endswith("write"), one)):
            key = await add_key(here.hub, OURS, scope, sub=f"only {scope}")
            walk = Walk(here.hub, here.served, key, principal(key, scope))
            await walk.surface(capabilities, resource_uris(here.ours.ids, {}), global_ids(here.ours.ids, {}))
            for capability, operation in in_order(capabilities):
                if not (scope == "admin" and capability.name == TRAIL):
                    await walk.calls(capability.server, operation, [working(operation, here.ours.ids)])
            for name, scopes in opens.items():
                if ours.of(name) in walk.text:
                    shown.add(name)
                    assert scope in scopes, (scope, leak(walk, ours.of(name)))
        assert shown == {"memory", "facts", "experiences", "research", "documents", "devices", "administration"}
