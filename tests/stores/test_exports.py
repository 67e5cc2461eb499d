"""What is exported, imported into an empty store and exported again is the same, on both databases and across them."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.doors.command_line import program_of, run_in_process
from tests.stores.kept import Json, all_kept, settings_of

from kho.app import open_hub
from kho.kernel import Capability, Hub, Principal, Transfer
from kho.kernel.call import Call
from kho.settings import Settings

SLICES = ("facts", "memory", "experiences", "research", "documents", "devices")
TENANTS = ("local", "acme")
SCOPES = frozenset({"*", "admin"})
KINDS = {
    "facts": {"", "revision"},
    "memory": {"conversation", "message"},
    "experiences": {"", "revision", "feedback", "submission"},
    "research": {"collection", "document", "feedback", "project"},
    "documents": {"document", "revision", "deletion", "webhook"},
    "devices": {"toolset", "device"},
}
EXTRA: dict[str, Json] = {"documents": {"with_secrets": True}}
SUBMISSION: Json = {
    "kind": "submission",
    "id": "waiting-1",
    "fields": {"title": "Đang chờ", "problem_description": "p", "solution": "s", "keywords": ["a"]},
    "submitted_by": "bot",
    "submitted_at": "2026-11-19T01:02:03.000004Z",
}
Databases = Callable[[str], Settings]


class Desk:
    """An admin of a tenant, who exports and imports."""

    def __init__(self, hub: Hub, tenant: str, scopes: frozenset[str] = SCOPES) -> None:
        self.hub = hub
        self.call = Call(Principal("ada", tenant, scopes))

    async def ask(self, capability: Capability, method: str, **params: Any) -> Json:
        outcome = await self.hub.registry.call(
            self.hub.registry.methods[f"{capability.server}/{method}"], params, self.call
        )
        if outcome.error is not None:
            raise outcome.error
        value: Json = orjson.loads(orjson.dumps(outcome.value))
        return value.get("data", value)

    def of(self, slice: str) -> tuple[Capability, Transfer]:
        [capability] = [one for one in self.hub.registry.capabilities if one.name == slice]
        return capability, capability.transfers[0]

    async def exported(self, slice: str, limit: Callable[[], int] = lambda: 100, **more: Any) -> list[Json]:
        capability, transfer = self.of(slice)
        lines, cursor = list[Json](), dict[str, str]()
        while True:
            asked = {**transfer.complete, **more, **cursor, "limit": limit()}
            page = await self.ask(capability, transfer.export, **asked)
            assert len(page[transfer.items]) > 0 or not cursor
            lines += page[transfer.items]
            if not page.get("next_cursor"):
                return lines
            cursor = {"cursor": page["next_cursor"]}

    async def imported(self, slice: str, lines: list[Json]) -> list[Json]:
        capability, transfer = self.of(slice)
        return [
            await self.ask(capability, transfer.import_, **{transfer.items: lines[start : start + 7]})
            for start in range(0, len(lines), 7)
        ]


@pytest.fixture
def databases(tmp_path: Path, request: pytest.FixtureRequest) -> Databases:
    """The newest kept store, which has something of everything, or an empty one."""

    def settings(which: str) -> Settings:
        full, _, engine = which.partition(" ")
        schema = "postgres_schema_url" if full == "full" else "another_schema_url"
        url = None if engine == "sqlite" else request.getfixturevalue(schema)
        if full == "full":
            return [one for one in all_kept() if one.database == engine][-1].unpack(tmp_path / "full", url)
        return settings_of(tmp_path / "empty", url)

    return settings


@pytest.mark.parametrize("to", ["sqlite", "postgres"])
@pytest.mark.parametrize("source", ["sqlite", "postgres"])
async def test_an_export_that_is_imported_is_exported_the_same(
    source: str, to: str, databases: Databases, tmp_path: Path
) -> None:
    async with open_hub(databases(f"full {source}")) as full, open_hub(databases(f"empty {to}")) as empty:
        for tenant in TENANTS:
            here, there = Desk(full, tenant), Desk(empty, tenant)
            if tenant == "local":
                await here.imported("experiences", [SUBMISSION])
            for slice in SLICES:
                lines = await here.exported(slice, **EXTRA.get(slice, {}))
                if tenant == "local":
                    assert {line.get("kind", line.get("type", "")) for line in lines} == KINDS[slice], slice
                # Pages of any size are the same lines.
                sizes = random.Random(slice)
                assert await here.exported(slice, lambda s=sizes: s.randint(1, 9), **EXTRA.get(slice, {})) == lines
                await there.imported(slice, lines)
                back = await there.exported(slice, **EXTRA.get(slice, {}))
                assert b"\n".join(map(orjson.dumps, back)) == b"\n".join(map(orjson.dumps, lines)), slice
                again = await there.imported(slice, lines)
                _, transfer = there.of(slice)
                said = [key for key in transfer.told if key not in ("unchanged", "skipped")]
                assert {answer[key] for answer in again for key in said} <= {0}, (slice, again)
                assert await there.exported(slice, **EXTRA.get(slice, {})) == lines


async def test_what_was_moved_can_be_used(databases: Databases) -> None:
    async with open_hub(databases("full sqlite")) as full, open_hub(databases("empty postgres")) as empty:
        here, there = Desk(full, "local"), Desk(empty, "local")
        for slice in SLICES:
            await there.imported(slice, await here.exported(slice, **EXTRA.get(slice, {})))
        asked: list[tuple[str, str, Json]] = [
            ("documents", "get_document", {"document_id": "kettle"}),
            ("documents", "document_history", {"document_id": "kettle"}),
            ("documents", "get_document", {"document_id": "kettle", "revision": 1}),
            ("documents", "list_documents", {"parent_id": "handbook", "include_deleted": True}),
            ("devices", "device_tools", {"device": "bếp"}),
            ("research", "manage_projects", {"action": "info", "project_name": "Kiln"}),
            ("research", "feedback_analytics", {}),
            ("memory", "memory/get_summary", {"conversation_id": "move"}),
            ("memory", "memory/list", {}),
            ("facts", "list_facts", {"about": "Lan", "include_forgotten": True}),
        ]
        for slice, method, params in asked:
            answers = [await one.ask(one.of(slice)[0], method, **params) for one in (here, there)]
            assert answers[0] == answers[1], method
        found = await there.ask(there.of("documents")[0], "query_knowledge", query="limescale citric acid")
        assert "kettle" in str(found)
        await there.ask(there.of("documents")[0], "restore_document", document_id="old")
        await there.ask(there.of("documents")[0], "restore_revision", document_id="kettle", revision=2)


async def test_webhooks_get_new_secrets_unless_theirs_are_in_the_file(databases: Databases) -> None:
    async with open_hub(databases("full sqlite")) as full, open_hub(databases("empty postgres")) as empty:
        here, there = Desk(full, "local"), Desk(empty, "local")
        lines = await here.exported("documents")
        hooks = [line for line in lines if line["kind"] == "webhook"]
        assert len(hooks) > 1
        assert not any("secret" in line for line in hooks)
        notes = [note for answer in await there.imported("documents", lines) for note in answer.get("notes", ())]
        assert await there.exported("documents") == lines
        known = {line["secret"] for line in await there.exported("documents", with_secrets=True) if "secret" in line}
        assert len(known) == len(hooks)
        assert all(any(secret in note for note in notes) for secret in known)


async def test_names_are_for_admins(databases: Databases) -> None:
    async with open_hub(databases("full sqlite")) as full:
        for slice in ("facts", "experiences", "research"):
            user, admin = Desk(full, "local", frozenset({"*"})), Desk(full, "local")
            capability, transfer = user.of(slice)
            more = [line for line in await admin.exported(slice) if line.get("kind") in ("revision", "feedback")][:1]
            assert more
            for work in (
                user.ask(capability, transfer.export, everything=True),
                user.ask(capability, transfer.import_, **{transfer.items: more}),
            ):
                with pytest.raises(Exception, match="This needs the scope 'admin'"):
                    await work
            plain = await user.ask(capability, transfer.export)
            assert plain[transfer.items]
            assert not any("created_by" in line for line in plain[transfer.items])


async def test_lines_of_earlier_versions_are_taken(databases: Databases) -> None:
    new = {"memory": {"title"}, "research": {"updated_at"}}
    async with open_hub(databases("full sqlite")) as full, open_hub(databases("empty postgres")) as empty:
        here, there = Desk(full, "local"), Desk(empty, "local")
        for slice in ("facts", "memory", "experiences", "research"):
            capability, transfer = here.of(slice)
            lines = (await here.ask(capability, transfer.export))[transfer.items]
            left_out = new.get(slice, set())
            # Documents have always had the time of their last change; collections have it now.
            old = [
                line if "text" in line else {name: value for name, value in line.items() if name not in left_out}
                for line in lines
            ]
            await there.imported(slice, old)
            taken = (await there.ask(capability, transfer.export))[transfer.items]
            assert [one.get("id") for one in taken] == [one.get("id") for one in lines]
            if slice == "memory":
                assert taken == lines


@pytest.mark.parametrize("slice", SLICES)
async def test_a_line_that_only_a_newer_version_knows_is_named(slice: str, databases: Databases) -> None:
    async with open_hub(databases("empty sqlite")) as hub:
        by = "type" if slice == "memory" else "kind"
        with pytest.raises(Exception, match=r"1: '(kind|type)' must be .*Kho \d.*, which this is, knows no others"):
            await Desk(hub, "local").imported(slice, [{by: "thought", "id": "x"}])


def test_commands_move_boards_and_documents(databases: Databases, tmp_path: Path) -> None:
    full, empty = program_of(databases("full sqlite")), program_of(databases("empty sqlite"))
    for group, out, back in (("devices", "export", "import"), ("docs", "save", "load")):
        first, second = tmp_path / f"{group}.jsonl", tmp_path / f"{group}-2.jsonl"
        done = run_in_process(full, group, out, str(first))
        assert done.status == 0, done
        done = run_in_process(empty, group, back, str(first), "--no-wait")
        assert (done.status, ", 0 existed already." in done.out) == (0, True), done
        assert ("has a new secret" in done.out) == (group == "docs")
        done = run_in_process(empty, group, back, str(first), "--no-wait")
        assert done.out.startswith("0 imported, ")
        assert run_in_process(empty, group, out, str(second)).status == 0
        assert first.read_bytes() == second.read_bytes()
