"""An id of another tenant is answered byte for byte as one that nobody has, at every operation that takes ids.

The operations, and the parameters that take ids, are read from the registry. Each is asked twice, with an id that does
not exist and with one of another tenant, of the same form and length; the asked id is then replaced in the answers.
"""

import re
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

import orjson
import pytest
from tests.recall.conftest import Desk, settings_of

from kho.app import open_database, open_hub
from kho.devices import store
from kho.kernel import Tx
from kho.kernel.call import Call, Principal
from kho.kernel.hub import Hub
from kho.kernel.limits.settings import LimitSettings
from kho.kernel.operation import Operation
from kho.lib.tenancy import in_tenant
from kho.research.ingest import job_store
from kho.settings import local_principal
from kho.slices import kinds

TEXT = "The kestrel nests on the old water tower."
SCOPES = frozenset({"*", "admin"})
LABELS = {"user_id", "agent_id"}
"""Ids of other systems, which only filter."""
NAMES = {
    "id", "ids", "uri", "replaces", "device", "document", "documents", "collection", "collections", "collection_name",
    "target_collection", "project", "project_name", "subject", "about", "code", "cursor", "slice",
}  # fmt: skip
"""Parameters that take ids or names of things, besides those whose name ends in `_id` or `_ids`."""
NO_IDS = {"toolbox"}
ASKS_UNKNOWN, ASKS_FOREIGN = "acme", "acne"
"""Two tenants with the same rows, who are asked the same: what one call makes, the other has made as well."""
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)?")


class Answer(NamedTuple):
    refused: bool
    text: str


@dataclass
class House:
    hub: Hub
    theirs: dict[str, str]
    """What the other tenant has, by kind."""

    def operations(self) -> Iterator[tuple[Operation, str, bool]]:
        """Each with a parameter that takes ids, and whether it takes a list of them."""
        for capability in self.hub.registry.capabilities:
            for operation in capability.operations if capability.name not in NO_IDS else ():
                for name, schema in operation.input_schema.get("properties", {}).items():
                    if (name in NAMES or re.search(r"_ids?$", name)) and name not in LABELS:
                        yield operation, name, "'array'" in str(schema) and "'string'" in str(schema)

    async def ask(self, tenant: str, operation: Operation, arguments: Mapping[str, Any], id: str) -> Answer:
        """The answer, without the id, and without what chance gives to things of one's own."""
        call = Call(Principal("lan", tenant, SCOPES, "key"), request_id="the-request")
        outcome = await self.hub.registry.call(operation, dict(arguments), call)
        told = orjson.dumps([outcome.value, outcome.error.as_dict() if outcome.error else None], default=str)
        text = TIME.sub("<time>", UUID.sub("<uuid>", without(id, told.decode()).replace(tenant, "<tenant>")))
        return Answer(outcome.error is not None, text)


@pytest.fixture(params=["sqlite", "postgres"])
async def house(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[House]:
    url = None if request.param == "sqlite" else request.getfixturevalue("postgres_schema_url")
    settings = settings_of(tmp_path / "home", url)
    settings.limits = LimitSettings(requests=0, writes=0)  # it asks more in a minute than a key may
    async with open_hub(settings) as hub:
        for tenant in (ASKS_UNKNOWN, ASKS_FOREIGN):
            await Desk(hub, tenant, SCOPES).fill("Something else.")
        theirs = Desk(hub, "globex", SCOPES)
        filled = {kind: id.partition(":")[2] for kind, id in (await theirs.fill(TEXT)).items()}
        await theirs.do("memory_add_message", conversation_id="globex-chat", role="user", content=TEXT)
        await theirs.do("create_document", document_id="globex-doc-1", content={"body": TEXT})
        await theirs.do("manage_collections", action="create", collection_name="globex-notes")
        await theirs.do("manage_projects", action="create", project_name="globex-plan")
        hook = await _do(hub, theirs.call, "add_webhook", {"url": "https://hooks.example.com/kho"})
        admin = Call(local_principal(settings, admin=True))
        key = await _do(hub, admin, "create_key", {"name": "bot", "tenant": "globex", "confirm": True})
        db, _ = open_database(settings)
        with in_tenant("globex"):
            await db.write(_board_and_job)
        await db.aclose()
        kept = {
            "chat": "globex-chat",
            "message": "globex-chat/1",
            "document": "globex-doc-1",
            "collection": "globex-notes",
            "project": "globex-plan",
        }
        made = {"webhook": hook["webhook_id"], "key": key["id"], "board": BOARD, "job": JOB}
        yield House(hub, {**filled, **kept, **made})


BOARD, JOB = "02:aa:00:00:00:77", "5d8e6a0e-2f1b-4c69-9d0a-3b5f1c7e9a10"


def _board_and_job(tx: Tx) -> None:
    store.add(tx, "globex", BOARD, "client-1", {}, 1)
    store.approve(tx, "globex", BOARD, "lan", 1)
    job_store.create(tx, job_store.Job("globex", JOB, "ingest", "done", {}, None, "lan", 1, 1, finished_at=1))


async def _do(hub: Hub, call: Call, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    operation = next(
        one
        for capability in hub.registry.capabilities
        for one in capability.operations
        if one.name.endswith(f".{name}")
    )
    outcome = await hub.registry.call(operation, dict(arguments), call)
    assert outcome.error is None, outcome.error.as_dict()
    return cast(dict[str, Any], outcome.value)


def forms(house: House) -> Iterator[tuple[str, str]]:
    """Every id of the other tenant, as it may be written, with one of the same form that nobody has."""
    prefixes = {kind.prefix for kind in kinds()}
    for id in dict.fromkeys(house.theirs.values()):
        other = unknown(id)
        yield id, other
        if UUID.fullmatch(id):
            yield id[:8], other[:8]  # the beginning of an id is enough where only one begins so
    for prefix, id in zip(("fact", "doc", "kb", "exp", "msg"), _of_each_kind(house), strict=True):
        assert prefix in prefixes
        yield f"{prefix}:{id}", f"{prefix}:{unknown(id)}"
    for template in ("memory://conversation/{}", "facts://{}", "docs://{}"):
        yield template.format(house.theirs["chat"]), template.format(unknown(house.theirs["chat"]))


def _of_each_kind(house: House) -> list[str]:
    return [house.theirs[kind] for kind in ("fact", "document", "research", "experience", "message")]


def manners(operation: Operation) -> list[dict[str, str]]:
    """What an operation does is said by its `action`, where it does several things."""
    schema = str(operation.input_schema.get("properties", {}).get("action", {}).get("enum", ""))
    return [{"action": action} for action in re.findall(r"'(\w+)'", schema)] or [{}]


def unknown(id: str) -> str:
    """An id of the same length and alphabet, which differs at its beginning."""
    swapped = {"0": "1", "9": "8", "a": "b", "f": "e", "g": "h", "z": "y"}
    first = id[0]
    return (swapped.get(first) or chr(ord(first) + 1)) + id[1:]


def without(id: str, answer: str) -> str:
    """The answer without the id, and without the bare one in a global id or address."""
    bare = re.split(r"^[a-z]+:(?://(?:conversation/)?)?", id)[-1]
    for one in (id, bare, bare.partition("/")[0]):
        answer = re.sub(re.escape(one), "<the id>", answer, flags=re.IGNORECASE) if len(one) > 5 else answer
    return answer


async def test_unknown_and_foreign_ids_are_answered_alike(house: House) -> None:
    asked, refused = 0, set[str]()
    walk = [(one, more, name, several) for one, name, several in house.operations() for more in manners(one)]
    for operation, more, name, several in walk:
        for foreign, nobodys in forms(house):
            answers = [
                await house.ask(tenant, operation, {**operation.example, **more, name: [id] if several else id}, id)
                for tenant, id in ((ASKS_UNKNOWN, nobodys), (ASKS_FOREIGN, foreign))
            ]
            if any(answer.refused for answer in answers):
                assert answers[0] == answers[1], (operation.name, more, name, foreign, nobodys)
                refused.add(operation.name)
            else:  # it made something of that name, or found nothing: of its own tenant alone
                assert TEXT not in answers[1].text, (operation.name, more, name, foreign)
            asked += 1
    slices = {name.partition(".")[0] for name in refused}
    assert slices == {one.name for one in house.hub.registry.capabilities} - NO_IDS
    assert {"facts.get", "documents.get_document", "research.job_status", "administration.revoke_key"} <= refused
    assert asked > 1000


async def test_resources_of_another_tenant_are_read_as_those_of_nobody(house: House) -> None:
    call = Call(Principal("lan", "acme", SCOPES, "key"))
    read = 0
    for capability in house.hub.registry.checkpoint.visible(call.principal):
        for template in capability.resources.templates if capability.resources else ():
            assert capability.resources is not None
            for foreign, nobodys in forms(house):
                found = [
                    await capability.resources.read(call, re.sub(r"\{\w+\}", id, template.uri))
                    for id in (nobodys, foreign)
                ]
                assert found == [None, None], (template.uri, foreign)
                read += 1
            [name] = re.findall(r"\{(\w+)\}", template.uri)
            offered = await capability.resources.complete(call, template.uri, name, "")
            assert not {*offered} & {*house.theirs.values()}
    assert read > 20


async def test_what_the_other_tenant_has_is_still_there(house: House) -> None:
    """The walk has asked to delete it in every way there is."""
    await test_unknown_and_foreign_ids_are_answered_alike(house)
    theirs = Desk(house.hub, "globex", SCOPES)
    for prefix, id in zip(("fact", "doc", "kb", "exp", "msg"), _of_each_kind(house), strict=True):
        assert TEXT in orjson.dumps(await theirs.do("fetch", id=f"{prefix}:{id}")).decode()
    keys = await _do(house.hub, theirs.call, "list_keys", {})
    assert [key["id"] for key in keys["keys"] if "revoked_at" not in key] == [house.theirs["key"]]
