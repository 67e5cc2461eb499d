"""The client that other programs import, against a real hub."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.processes import Hub, Place

from kho.client import HubError, HubTimeout, HubUnreachable, Kho, NotFound, RpcError, ToolError


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home: Path = tmp_path_factory.mktemp("hub") / "home"
    offline = {"KHO_TOOLBOX__SEARCH_PROXY": "http://127.0.0.1:9", "KHO_TOOLBOX__SEARCH_TIMEOUT": "6"}
    with Hub(Place(home), **offline) as hub:
        yield f"http://127.0.0.1:{hub.ready().port}"


async def test_a_conversation(hub: str) -> None:
    async with Kho(hub) as kho:
        chat = await kho.memory.get_or_create()
        await kho.memory.add_message(chat, "user", "Xin chào, tôi là An.", message_id="m1", metadata={"via": "zalo"})
        await kho.memory.add_message(chat, "user", "Xin chào, tôi là An.", message_id="m1")
        await kho.memory.add_message(chat, "assistant", "Chào anh An!")
        first, second = await kho.memory.get_context(chat, details=True)
        assert (str(first), first.id, first.metadata) == ("user: Xin chào, tôi là An.", "m1", {"via": "zalo"})
        assert second.role == "assistant"
        assert await kho.memory.get_all_messages(chat) == [first, second]
        assert await kho.memory.get_old_messages(chat) == []
        assert await kho.memory.get_summary(chat) == ""
        await kho.memory.set_summary(chat, "An chào.")
        assert await kho.memory.get_or_create_summary(chat, [first], "vi") == "An chào."
        found, *_ = await kho.memory.search("xin chao", chat)
        assert (found.conversation_id, found.message_id) == (chat, "m1")
        assert chat in [one["conversation_id"] async for one in kho.memory.conversations()]
        await kho.memory.clear(chat)
        assert await kho.memory.get_all_messages(chat) == []
        await kho.memory.delete(chat)
        with pytest.raises(NotFound) as unknown:
            await kho.memory.get_context(chat)
        assert unknown.value.code == -32001


async def test_what_is_remembered_is_found_again(hub: str) -> None:
    async with Kho(hub) as kho:
        done = await kho.remember("Lan prefers pnpm over npm.", about="Lan", tags=["tools"])
        [found] = await kho.search("pnpm", kinds=["fact"], about="lan", tags=["tools"], limit=3)
        assert (found.id, found.kind, found.text) == (f"fact:{done.id}", "fact", "Lan prefers pnpm over npm.")
        assert 0 < found.score <= 1
        assert found.label
        item = await kho.fetch(found.id)
        assert (item.text, item.url, item.metadata["about"]) == (found.text, found.url, "Lan")
        [latest] = await kho.recent(kinds=["fact"], limit=1)
        assert (latest.id, latest.when) == (found.id, found.when)
        await kho.forget(found.id, "no longer true")
        assert await kho.search("pnpm", kinds=["fact"]) == []
        with pytest.raises(NotFound):
            await kho.fetch(found.id)


async def test_resources_and_a_round_trip(hub: str) -> None:
    async with Kho(hub) as kho:
        chat = await kho.memory.get_or_create("there_and_back")
        await kho.memory.add_message(chat, "user", "Xin chào!")
        uri = f"memory://conversation/{chat}"
        assert uri in [one["uri"] async for one in kho.memory.resources()]
        held = await kho.memory.read_resource(uri)
        assert [message["content"] for message in held["messages"]] == ["Xin chào!"]
        assert held["summary"]["folded"] == []
        lines = [line async for line in kho.memory.export(chat)]
        assert [line["type"] for line in lines] == ["conversation", "message"]
        assert await kho.memory.import_lines(lines) == 0
        await kho.memory.delete(chat)
        assert await kho.memory.import_lines(lines) == 1
        assert await kho.memory.read_resource(uri) == held


async def test_facts(hub: str) -> None:
    async with Kho(hub) as kho:
        old = await kho.remember("Lan thích uống trà xanh.", about="Lan", tags=["đồ uống"], source="chat")
        assert (old.status, old.similar) == ("remembered", [])
        new = await kho.remember("Lan thích uống trà sen.", about="Lan", expires_at="2999-01-01T00:00:00Z")
        assert [(one.id, one.text, one.about) for one in new.similar] == [(old.id, "Lan thích uống trà xanh.", "Lan")]
        assert "replaces" in new.message
        assert (await kho.remember("Lan thích uống trà sen.", about="Lan", replaces=old.id)).status == "replaced"
        await kho.forget(new.id, "a mistake")
        with pytest.raises(NotFound):
            await kho.forget("no-such-fact")
        with pytest.raises(RpcError) as refused:
            await kho.remember(" ")
        assert refused.value.code == -32602


async def test_servers_and_tools(hub: str) -> None:
    async with Kho(hub) as kho:
        assert (await kho.health())["status"] == "healthy"
        assert [one["name"] for one in await kho.servers()][:2] == ["memory-server", "tool-server"]
        assert (await kho.capabilities("tool-server"))["tools"][0]["name"] == "duckduckgo_search"
        assert [tool["name"] for tool in await kho.tools.list()] == ["duckduckgo_search", "fetch_url"]
        with pytest.raises(ToolError):
            await kho.tools.call("fetch_url", url="http://127.0.0.1/")
        with pytest.raises(RpcError) as wrong:
            await kho.call("memory-server/memory/add_message", conversation_id="c", role="cat", content="x")
        assert wrong.value.code == -32602
        with pytest.raises(HubError):
            await kho.capabilities("nobody")


@pytest.mark.requirement("002.run.client")
async def test_the_address_comes_from_the_environment(hub: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_SERVER_URL", hub + "/")
    async with Kho() as kho:
        assert (await kho.health())["status"] == "healthy"
    monkeypatch.delenv("MCP_SERVER_URL")
    assert Kho().url == "http://localhost:8001"


async def test_nobody_there_and_nobody_in_time(hub: str) -> None:
    async with Kho("http://127.0.0.1:9") as kho:
        with pytest.raises(HubUnreachable, match="kho serve"):
            await kho.health()
    async with Kho(hub, timeout=1e-6) as kho:
        with pytest.raises(HubTimeout):
            await kho.health()
