"""One story at every door: submit, query, rate, query again, and everything that can be wrong with them.

A door may carry an answer as it likes (isError, an HTTP status, an exit status: decision D2), and each driver below
checks that it does. What is carried must be the same everywhere: the story's transcript is compared with the one
that the registry gives without any door.
"""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_types import TextContent
from tests.doors.doors import KHO, MODERN, Json, Served, kho, served, talking
from tests.timeouts import PATIENCE

from kho.app import open_hub
from kho.doors.mcp.server import McpDoor
from kho.kernel.background import Background
from kho.kernel.call import Call
from kho.kernel.toolset import ALL
from kho.settings import Settings

Ask = Callable[[str, Json], Awaitable[Json]]
Door = Callable[[Settings], AbstractAsyncContextManager[Ask]]

RECORD = {
    "title": "React useState not updating state",
    "problem_description": "State variable not updating after setState call in React 18",
    "root_cause": "React 18's strict mode causes double rendering, and direct state updates may be batched incorrectly",
    "solution": "Use functional update form: setState(prev => prev + 1) instead of setState(count + 1)",
    "context": "React 18+ with strict mode enabled\n\nLỗi: trạng thái không cập nhật 状态不更新",
    "keywords": [" React ", "hooks", "state"],
}
QUERY = {"keywords": "React useState hook not updating", "limit": 10, "offset": 0}
SECRET = "ghp_" + "Zk3vQ9xR7tLm2WpYs8Nd4HcB6fJg1KaTeUoX"
UNKNOWN = "00000000-0000-4000-8000-000000000000"

WRONG: list[tuple[str, str, Json]] = [
    ("INVALID_KEYWORDS", "query_experiences", {"keywords": ""}),
    ("INVALID_KEYWORDS", "query_experiences", {}),
    ("INVALID_LIMIT", "query_experiences", {"keywords": "react", "limit": 51}),
    ("MISSING_REQUIRED_FIELDS", "submit_experience", {"title": "only a title"}),
    ("INVALID_TITLE", "submit_experience", {**RECORD, "title": "x" * 501}),
    ("VALIDATION_ERROR", "submit_experience", {**RECORD, "root_cause": ""}),
    ("CONTEXT_NOT_SANITIZED", "submit_experience", {**RECORD, "context": f"token = '{SECRET}'"}),
    ("NOT_FOUND", "rate_experience", {"id": UNKNOWN, "helpful": True}),
]
STATUS = {"NOT_FOUND": 404, "CONFLICT": 409}
"""At /actions; every other failure of this contract here is a 400."""


async def story(ask: Ask) -> list[Json]:
    submitted = await ask("submit_experience", RECORD)
    id: str = submitted["data"]["id"]
    told = [submitted, await ask("query_experiences", QUERY)]
    async with asyncio.timeout(PATIENCE):  # the count follows the answer, within a second
        while (await ask("get_experience", {"id": id}))["data"]["query_count"] == 0:
            pass
    told.append(await ask("rate_experience", {"id": id, "helpful": True}))
    told.append(await ask("query_experiences", QUERY))
    stale = {"id": id, "expected_revision": 7, "title": "too late"}
    wrong = [(operation, arguments) for _, operation, arguments in WRONG] + [("update_experience", stale)]
    told += await asyncio.gather(*(ask(operation, arguments) for operation, arguments in wrong))
    return plain(told, id)


def plain(told: list[Json], id: str) -> Any:
    """Without what differs from run to run: ids and times."""
    text = json.dumps(told).replace(id, "(id)")
    return json.loads(re.sub(r'"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"', '"(time)"', text))


# -- the drivers -------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def no_door(settings: Settings) -> AsyncGenerator[Ask, None]:
    async with open_hub(settings) as hub:

        async def ask(operation: str, arguments: Json) -> Json:
            found = hub.registry.tool(operation)
            assert found is not None
            return (await hub.registry.call(found, arguments, Call(hub.local))).value

        yield ask


def over_mcp(client: Client) -> Ask:
    async def ask(operation: str, arguments: Json) -> Json:
        result = await client.call_tool(operation, arguments)
        envelope: Any = result.structured_content
        assert result.is_error is not envelope["success"]
        [content] = result.content
        assert isinstance(content, TextContent)
        assert json.loads(content.text) == envelope
        return envelope

    return ask


def in_memory(era: str) -> Door:
    @asynccontextmanager
    async def door(settings: Settings) -> AsyncGenerator[Ask, None]:
        async with open_hub(settings) as hub:
            background = Background()
            server = McpDoor(hub, background, lambda ctx: hub.local, ALL, 200).server
            async with Client(server, mode=era) as client:
                yield over_mcp(client)
            await background.drain()

    return door


def stdio(era: str) -> Door:
    @asynccontextmanager
    async def door(settings: Settings) -> AsyncGenerator[Ask, None]:
        async with talking(settings.home, era, KHO, "stdio", "--tools", "all") as client:
            assert client.protocol_version >= MODERN if era == MODERN else client.protocol_version < MODERN
            yield over_mcp(client)

    return door


def streamable_http(era: str) -> Door:
    @asynccontextmanager
    async def door(settings: Settings) -> AsyncGenerator[Ask, None]:
        async with served(settings) as hub, Client(f"{hub.url}/mcp?tools=all", mode=era) as client:
            yield over_mcp(client)

    return door


@asynccontextmanager
async def jsonrpc(settings: Settings) -> AsyncGenerator[Ask, None]:
    async with served(settings) as hub:

        async def ask(operation: str, arguments: Json) -> Json:
            body = {"jsonrpc": "2.0", "id": "q-1", "method": f"experiences-server/{operation}", "params": arguments}
            response = await hub.post("/jsonrpc", body)
            assert response.status_code == 200
            answer: Json = response.json()
            assert answer == {"jsonrpc": "2.0", "result": answer["result"], "id": "q-1"}
            return answer["result"]

        yield ask


@asynccontextmanager
async def actions(settings: Settings) -> AsyncGenerator[Ask, None]:
    async with served(settings) as hub:

        async def ask(operation: str, arguments: Json) -> Json:
            return await _act(hub, operation, arguments)

        yield ask


async def _act(hub: Served, action: str, payload: Json) -> Json:
    response = await hub.act(action, payload)
    answer: Json = response.json()
    envelope: Json = answer["result"]
    status = "ok" if envelope["success"] else "error"
    assert answer == {"request_id": answer["request_id"], "action": action, "status": status, "result": envelope}
    expected = 200 if envelope["success"] else STATUS.get(envelope["error"]["code"], 400)
    assert response.status_code == expected
    return envelope


@asynccontextmanager
async def command_line(settings: Settings) -> AsyncGenerator[Ask, None]:
    async def ask(operation: str, arguments: Json) -> Json:
        verb = operation.removesuffix("s").removesuffix("_experience")
        done = await kho(
            settings.home, "experiences", verb, "--json", "--params", "-", stdin=json.dumps(arguments).encode()
        )
        envelope = json.loads(done.out)
        assert (done.status, done.err) == (0 if envelope["success"] else 1, "")
        return envelope

    yield ask


DOORS: dict[str, Door] = {
    "memory-handshake": in_memory("legacy"),
    "memory-modern": in_memory(MODERN),
    "stdio-handshake": stdio("legacy"),
    "stdio-modern": stdio(MODERN),
    "http-handshake": streamable_http("legacy"),
    "http-modern": streamable_http(MODERN),
    "jsonrpc": jsonrpc,
    "actions": actions,
    "cli": command_line,
}
ON_POSTGRES = ("http-handshake", "http-modern", "jsonrpc", "actions")


# -- the test ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
async def expected(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[list[Json]]:
    async with no_door(Settings(home=tmp_path_factory.mktemp("no-door"), database_url=None)) as ask:
        yield await story(ask)


@pytest.mark.requirement("003.query.tool", "003.submit.tool", "003.errors.envelope", "003.access.anonymous")
@pytest.mark.parametrize(
    ("name", "database"),
    [(name, "sqlite") for name in DOORS] + [(name, "postgres") for name in ON_POSTGRES],
)
async def test_every_door_tells_the_same_story(
    name: str, database: str, expected: list[Json], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue("postgres_schema_url") if database == "postgres" else None
    async with DOORS[name](Settings(home=tmp_path / "home", database_url=url)) as ask:
        assert await story(ask) == expected


async def test_the_story_is_the_one_that_is_meant(expected: list[Json]) -> None:
    submitted, first, rated, second, *wrong = expected
    assert submitted["data"] == {
        "id": "(id)",
        "status": "published",
        "message": "Experience record created and published successfully",
    }
    [before], [after] = first["data"]["experiences"], second["data"]["experiences"]
    assert (before["query_count"], before["helpful"], before["keywords"]) == (0, 0, ["react", "hooks", "state"])
    assert (rated["data"]["helpful"], rated["data"]["unhelpful"]) == (1, 0)
    assert after == {**before, "query_count": 1, "helpful": 1}
    assert [envelope["error"]["code"] for envelope in wrong] == [*(code for code, *_ in WRONG), "CONFLICT"]
    assert wrong[-1]["error"]["details"] == {"expected_revision": 7, "actual_revision": 1}
    assert SECRET[4:] not in json.dumps(wrong)
