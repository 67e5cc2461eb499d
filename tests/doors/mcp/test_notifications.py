"""Clients are told that conversations come and go: in both eras, over HTTP and stdio, and only their own tenant's."""

import asyncio
import gc
import itertools
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.session import IncomingMessage
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ResourcesListChanged, ResourceUpdated, ToolsListChanged
from tests.doors.doors import HANDSHAKE, KHO, MODERN, PLAIN, Boards, Served, bearer, new_key, served, talking
from tests.doors.mcp.test_server import next_event
from tests.doors.streams import streamed
from tests.stores.fill import until
from tests.timeouts import PATIENCE

from kho.doors.mcp.notifications import Audience, Notices
from kho.kernel import capability
from kho.kernel.background import Background
from kho.kernel.call import Principal
from kho.kernel.capability import Capability
from kho.kernel.checkpoint import Checkpoint
from kho.kernel.limits.limiter import Limiter
from kho.kernel.limits.settings import LimitSettings
from kho.kernel.toolset import ALL, Selection
from kho.settings import Settings

URI = "memory://conversation/chat_1"


class Changes:
    """The handshake era's notifications that the list of resources changed."""

    def __init__(self) -> None:
        self._seen: asyncio.Queue[None] = asyncio.Queue()

    async def __call__(self, message: IncomingMessage) -> None:
        if isinstance(message, types.ResourceListChangedNotification):
            self._seen.put_nowait(None)

    async def next(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self._seen.get()


async def uris(client: Client) -> list[str]:
    listed = await client.list_resources(cache_mode="bypass")
    return [str(one.uri) for one in listed.resources if str(one.uri).startswith("memory:")]


async def rpc(hub: Served, method: str, params: dict[str, Any], **headers: str) -> Any:
    body = {"jsonrpc": "2.0", "id": 1, "method": f"memory-server/{method}", "params": params}
    return (await hub.post("/jsonrpc", body, **headers)).json()["result"]


async def come_and_go(client: Client, changes: Changes) -> None:
    capabilities = client.server_capabilities
    assert capabilities.resources is not None
    assert capabilities.resources.list_changed is True
    await client.call_tool("memory_get_or_create", {"conversation_id": "chat_1"})
    await changes.next()
    assert await uris(client) == [URI]
    await client.call_tool("memory_delete", {"conversation_id": "chat_1"})
    await changes.next()
    assert await uris(client) == []


async def test_a_handshake_client_is_told_over_stdio(home: Path) -> None:
    changes = Changes()
    async with talking(home, "legacy", KHO, "stdio", message_handler=changes) as client:
        await come_and_go(client, changes)
    assert "Traceback" not in home.with_name("stderr.txt").read_text(encoding="utf-8")


async def test_a_modern_client_is_told_over_stdio(home: Path) -> None:
    async with (
        talking(home, MODERN, KHO, "stdio") as client,
        client.listen(resources_list_changed=True) as subscription,
        asyncio.timeout(PATIENCE),
    ):
        await client.call_tool("memory_get_or_create", {"conversation_id": "chat_1"})
        assert isinstance(await anext(aiter(subscription)), ResourcesListChanged)
        assert await uris(client) == [URI]


async def test_a_handshake_client_is_told_over_http(hub: Served) -> None:
    changes = Changes()
    async with Client(f"{hub.url}/mcp", mode="legacy", message_handler=changes) as client:
        told = asyncio.ensure_future(changes.next())
        number = 0
        while not told.done():  # the client opens its stream some time after the handshake
            number += 1
            await rpc(hub, "memory/get_or_create", {"conversation_id": f"chat_{number}"})
        await told
        assert URI in await uris(client)


async def test_a_modern_client_is_told_over_http_whoever_wrote(hub: Served) -> None:
    async with (
        Client(f"{hub.url}/mcp", mode=MODERN) as client,
        client.listen(resources_list_changed=True) as subscription,
        asyncio.timeout(PATIENCE),
    ):
        events = aiter(subscription)
        line = {"type": "message", "conversation_id": "chat_2", "id": "m", "role": "user", "content": "x"}
        for method, params, left in (
            ("memory/get_or_create", {"conversation_id": "chat_1"}, [URI]),
            ("memory/import", {"lines": [{**line, "created_at": "2026-07-28"}]}, [URI, "memory://conversation/chat_2"]),
            ("memory/delete", {"conversation_id": "chat_2"}, [URI]),
        ):
            await rpc(hub, method, params)
            assert isinstance(await anext(events), ResourcesListChanged)
            assert await uris(client) == left


async def test_a_modern_client_is_told_what_a_conversation_gained(hub: Served) -> None:
    for id in ("chat_1", "other"):
        await rpc(hub, "memory/get_or_create", {"conversation_id": id})
    async with (
        Client(f"{hub.url}/mcp", mode=MODERN) as client,
        client.listen(resource_subscriptions=[URI]) as subscription,
        asyncio.timeout(PATIENCE),
    ):
        for id in ("other", "chat_1"):
            await rpc(hub, "memory/add_message", {"conversation_id": id, "role": "user", "content": "xin chào"})
        assert await anext(aiter(subscription)) == ResourceUpdated(URI)


async def test_nobody_hears_of_another_tenants_conversations(settings: Settings) -> None:
    acme, globex = await new_key(settings, "acme"), await new_key(settings, "globex")
    async with (
        served(settings) as hub,
        httpx2.AsyncClient(headers=bearer(acme), verify=PLAIN, trust_env=False) as http,
        Client(streamable_http_client(f"{hub.url}/mcp", http_client=http), mode=MODERN) as client,
        client.listen(resources_list_changed=True, resource_subscriptions=[URI]) as subscription,
        hub.http.stream(
            "GET", "/mcp", headers={"accept": "text/event-stream", "mcp-protocol-version": HANDSHAKE, **bearer(acme)}
        ) as stream,
        asyncio.timeout(PATIENCE),
    ):
        lines = stream.aiter_lines()
        assert await anext(lines) == ": listening"
        for id in ("chat_1", "chat_2"):
            await rpc(hub, "memory/get_or_create", {"conversation_id": id}, **bearer(globex))
        said = {"conversation_id": "chat_1", "role": "user", "content": "theirs"}
        await rpc(hub, "memory/add_message", said, **bearer(globex))
        await rpc(hub, "memory/get_or_create", {"conversation_id": "ours"}, **bearer(acme))
        assert await anext(aiter(subscription)) == ResourcesListChanged()
        assert (await next_event(lines))["method"] == "notifications/resources/list_changed"
        assert await uris(client) == ["memory://conversation/ours"]


async def test_many_changes_at_once_are_few_notices() -> None:
    background, changes = Background(), capability.Changes(scope="memory:read")
    checkpoint = Checkpoint([Capability("memory", "memory-server", (), resource_changes=changes)])
    notices = Notices(checkpoint, nobody, nobody, background, Limiter(LimitSettings()))
    lists: asyncio.Queue[object] = asyncio.Queue()
    updates: asyncio.Queue[object] = asyncio.Queue()
    reader = Principal("bot", "acme", frozenset({"memory:read"}))
    with notices.audience(reader, Selection()) as audience:
        audience.subscribe(lambda event: (updates if isinstance(event, ResourceUpdated) else lists).put_nowait(event))
        for _ in range(2):
            for _ in range(1_000):
                changes.tell("acme")
                changes.tell("acme", URI)
                changes.tell("globex")
            async with asyncio.timeout(PATIENCE):
                assert await lists.get() == ResourcesListChanged()
                assert await updates.get() == ResourceUpdated(URI)
    assert lists.empty()
    assert updates.empty()
    await background.drain()


async def test_a_flood_of_tools_that_come_and_go_is_few_notices() -> None:
    background, boards = Background(), Boards()
    checkpoint = Checkpoint([boards.capability])
    notices = Notices(checkpoint, nobody, nobody, background, Limiter(LimitSettings()))
    told: asyncio.Queue[object] = asyncio.Queue()
    caller = Principal("bot", "acme", frozenset({"boards"}))
    with notices.audience(caller, ALL) as audience:
        audience.subscribe(told.put_nowait)
        for _ in range(2):
            for _ in range(500):
                boards.plug("lamp")
                boards.unplug("lamp")
            async with asyncio.timeout(PATIENCE):
                assert await told.get() == ToolsListChanged()
    assert told.empty()
    await background.drain()


@pytest.mark.parametrize("era", ["handshake", MODERN])
async def test_a_choice_of_tools_is_forgotten_with_its_last_stream(settings: Settings, era: str) -> None:
    """An address may choose any of a million sets of tools, and each has an audience of its own."""
    key = await new_key(settings)

    def audiences() -> list[Audience]:
        gc.collect()
        return [one for one in gc.get_objects() if isinstance(one, Audience)]

    before = {id(one): one for one in audiences()}  # of hubs that other tests have closed
    async with served(settings) as hub:
        for names in itertools.combinations(("search", "fetch", "recent", "remember"), 2):
            path = f"/mcp?tools={','.join(names)}"
            async with streamed(hub, "listen" if era == MODERN else path, path=path, **bearer(key)) as (status, _):
                assert status == 200
                async with streamed(hub, "listen" if era == MODERN else path, path=path, **bearer(key)) as (status, _):
                    assert any(id(one) not in before for one in audiences())

        async def are_forgotten() -> bool:
            return all(id(one) in before for one in audiences())

        await until(are_forgotten)


@pytest.mark.parametrize("verb", ["tell", "publish"])
async def test_nothing_is_told_where_nobody_listens(verb: str) -> None:
    changes = capability.Changes(scope="memory:read")
    checkpoint = Checkpoint([Capability("memory", "memory-server", (), resource_changes=changes)])
    notices = Notices(checkpoint, nobody, nobody, Background(), Limiter(LimitSettings()))
    if verb == "publish":
        await notices.publish(ResourcesListChanged())
    else:
        changes.tell("acme")


def nobody(ctx: Any) -> Any:
    raise AssertionError("no client asks here")


@pytest.mark.requirement("004.resources.collections")
async def test_a_client_is_told_of_collections_that_come_and_go(hub: Served) -> None:
    async with (
        Client(f"{hub.url}/mcp?tools=all", mode=MODERN) as client,
        client.listen(resources_list_changed=True) as subscription,
        asyncio.timeout(PATIENCE),
    ):
        events = aiter(subscription)
        added = {"content": "BM25 ranks by rarity.", "source": "x", "collection": "notes", "create": True}
        for tool, arguments, listed in (
            ("manage_collections", {"action": "create", "collection_name": "papers"}, {"papers"}),
            ("augment_knowledge", added, {"papers", "notes"}),
            ("manage_collections", {"action": "rename", "collection_name": "papers", "new_name": "p"}, {"p", "notes"}),
            ("manage_collections", {"action": "delete", "collection_name": "p"}, {"notes"}),
        ):
            await client.call_tool(tool, arguments)
            assert isinstance(await anext(events), ResourcesListChanged)
            found = await client.list_resources(cache_mode="bypass")
            names = {str(one.uri).rpartition("/collections/")[2] for one in found.resources}
            assert {name for name in names if "/" not in name} == listed
