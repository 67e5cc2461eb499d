"""Contract 002, example by example, through a real server."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.acceptance.processes import Client, Hub, Place

SEARCH = {
    "name": "duckduckgo_search",
    "description": "Search using DuckDuckGo (free, unlimited, privacy-focused). Returns up to 5 relevant search results "
    "with titles, content snippets, and links.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "query": {
                "type": "string",
                "description": "Search query - should be specific and descriptive for best results",
            }
        },
        "required": ["query"],
    },
}


class Rpc:
    """The contract's endpoint, as its curl commands use it."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def raw(self, body: Any) -> tuple[int, Any]:
        status, answer = self.client.post("/jsonrpc", body if isinstance(body, bytes) else orjson.dumps(body))
        return status, orjson.loads(answer) if answer else None

    def __call__(self, method: str, /, **params: Any) -> Any:
        status, answer = self.raw({"jsonrpc": "2.0", "method": method, "params": params, "id": 7})
        assert (status, answer["jsonrpc"], answer["id"]) == (200, "2.0", 7)
        return answer["result"]

    def error(self, method: str, /, **params: Any) -> dict[str, Any]:
        _, answer = self.raw({"jsonrpc": "2.0", "method": method, "params": params, "id": "e"})
        assert answer["id"] == "e"
        return answer["error"]

    def said(self, id: str, *contents: str) -> None:
        for number, content in enumerate(contents):
            role = "user" if number % 2 == 0 else "assistant"
            self("memory-server/memory/add_message", conversation_id=id, role=role, content=content)


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def hub(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    home: Path = tmp_path_factory.mktemp("hub") / "home"
    url: str | None = None
    if request.param == "postgres":
        url = request.getfixturevalue("module_schema_url")
    # A proxy at which nobody listens: the search must not leave this machine.
    offline = {"KHO_TOOLBOX__SEARCH_PROXY": "http://127.0.0.1:9", "KHO_TOOLBOX__SEARCH_TIMEOUT": "6"}
    with Hub(Place(home, url), **offline) as hub:
        yield hub.ready()


@pytest.fixture
def rpc(hub: Hub) -> Iterator[Rpc]:
    with Client(hub.port) as client:
        yield Rpc(client)


@pytest.fixture
def chat(rpc: Rpc) -> str:
    return rpc("memory-server/memory/get_or_create")["conversation_id"]


@pytest.mark.requirement("002.http.health")
def test_health(rpc: Rpc) -> None:
    health = rpc.client.get("/health")
    assert set(health) == {"status", "servers"}
    assert health["status"] == "healthy"
    assert health["servers"][:2] == ["memory-server", "tool-server"]


@pytest.mark.requirement("002.http.servers")
def test_servers(rpc: Rpc, chat: str) -> None:
    listed = {one["name"]: one for one in rpc.client.get("/servers")["servers"]}
    for server in listed.values():
        assert set(server) == {"name", "capabilities"}
        assert set(server["capabilities"]) == {"tools", "resources", "prompts"}
    memory, tools = listed["memory-server"]["capabilities"], listed["tool-server"]["capabilities"]
    assert memory["tools"] == memory["prompts"] == []
    assert 1 <= len(memory["resources"]) <= 100
    assert all(one.keys() == {"uri", "name", "description", "mimeType"} for one in memory["resources"])
    assert SEARCH in tools["tools"]
    assert tools["resources"] == tools["prompts"] == []


@pytest.mark.requirement("002.http.capabilities")
def test_capabilities(rpc: Rpc, chat: str) -> None:
    found = rpc.client.get("/servers/memory-server/capabilities")
    assert set(found) == {"server_name", "capabilities"}
    assert found["server_name"] == "memory-server"
    assert found["capabilities"]["resources"]
    missing = rpc.client.get("/servers/nothing/capabilities")
    assert missing["error"]["code"] == "NOT_FOUND"


@pytest.mark.requirement("002.memory.get-or-create")
def test_get_or_create(rpc: Rpc) -> None:
    minted = rpc("memory-server/memory/get_or_create")
    assert set(minted) == {"conversation_id"}
    assert rpc("memory-server/memory/get_or_create", conversation_id="chat_xxx") == {"conversation_id": "chat_xxx"}
    assert rpc("memory-server/memory/get_or_create", conversation_id="chat_xxx") == {"conversation_id": "chat_xxx"}
    assert rpc("memory-server/memory/get_or_create", conversation_id=None) != minted


@pytest.mark.requirement("002.memory.add-message")
@pytest.mark.requirement("002.memory.get-context")
@pytest.mark.requirement("002.memory.get-all-messages")
@pytest.mark.requirement("002.memory.get-old-messages")
def test_messages(rpc: Rpc, chat: str) -> None:
    added = rpc("memory-server/memory/add_message", conversation_id=chat, role="user", content="tin 0")
    assert added == {"status": "success", "conversation_id": chat}
    rpc.said(chat, *(f"tin {n}" for n in range(1, 10)))
    rpc("memory-server/memory/add_message", conversation_id=chat, role="system", content="tin 10")

    def contents(method: str, **more: Any) -> list[str]:
        found = rpc(f"memory-server/memory/{method}", conversation_id=chat, **more)
        assert all({"role", "content"} <= set(message) for message in found["messages"])
        return [message["content"] for message in found["messages"]]

    every = [f"tin {n}" for n in range(11)]
    assert contents("get_context") == every[-6:]
    assert contents("get_context", max_messages=20) == every
    assert contents("get_context", max_messages=2) == every[-2:]
    assert contents("get_all_messages") == every
    assert contents("get_old_messages") == every[:-6]
    old = rpc("memory-server/memory/get_old_messages", conversation_id=chat)
    assert set(old) == {"messages", "total_count"}
    assert old["total_count"] == 5
    found = rpc("memory-server/memory/get_context", conversation_id=chat)
    assert set(found) == {"messages"}
    assert all(set(message) == {"role", "content"} for message in found["messages"])
    more = rpc("memory-server/memory/get_context", conversation_id=chat, details=True)["messages"]
    assert all({"role", "content", "id", "created_at"} <= set(message) for message in more)


@pytest.mark.requirement("002.memory.summary-arguments")
@pytest.mark.requirement("002.memory.get-or-create-summary")
@pytest.mark.requirement("002.memory.set-summary")
@pytest.mark.requirement("002.memory.get-summary")
def test_the_clients_summary(rpc: Rpc, chat: str) -> None:
    asked = {"conversation_id": chat, "old_messages": [{"role": "user", "content": "x"}], "language": "vi"}
    assert rpc("memory-server/memory/get_or_create_summary", **asked) == {"summary": ""}
    assert rpc("memory-server/memory/get_summary", conversation_id=chat) == {"summary": ""}
    text = "Tóm tắt câu trả lời 1\n\nTóm tắt câu trả lời 2"
    done = rpc("memory-server/memory/set_summary", conversation_id=chat, summary=text, compress=False)
    assert done == {"status": "success", "conversation_id": chat}
    assert rpc("memory-server/memory/get_summary", conversation_id=chat) == {"summary": text}
    assert rpc("memory-server/memory/get_or_create_summary", **asked) == {"summary": text}


@pytest.mark.requirement("002.summary.rolling")
def test_kho_summarises_by_itself(rpc: Rpc, chat: str) -> None:
    from tests.acceptance.processes import until

    rpc.said(chat, "Tôi tên là Lê Văn Tám, số hồ sơ 88123.", *(f"Câu hỏi thứ {n} về răng hàm." for n in range(1, 14)))

    def summary() -> str:
        return rpc("memory-server/memory/get_summary", conversation_id=chat)["summary"]

    until(summary, "a summary")
    assert "88123" in summary()
    assert len(rpc("memory-server/memory/get_all_messages", conversation_id=chat)["messages"]) == 14


@pytest.mark.requirement("002.memory.clear")
@pytest.mark.requirement("002.memory.delete")
def test_clear_and_delete(rpc: Rpc, chat: str) -> None:
    rpc.said(chat, "a", "b")
    assert rpc("memory-server/memory/clear", conversation_id=chat) == {"status": "cleared", "conversation_id": chat}
    assert rpc("memory-server/memory/get_all_messages", conversation_id=chat) == {"messages": []}
    assert rpc("memory-server/memory/delete", conversation_id=chat) == {"status": "deleted", "conversation_id": chat}
    assert rpc.error("memory-server/memory/get_context", conversation_id=chat)["code"] == -32001


@pytest.mark.requirement("002.resources.list")
@pytest.mark.requirement("002.resources.read")
def test_resources(rpc: Rpc) -> None:
    rpc("memory-server/memory/get_or_create", conversation_id="a_chat")
    rpc.said("a_chat", "xin chào")
    listed = rpc("memory-server/resources/list")
    assert set(listed) <= {"resources", "nextCursor"}
    assert {
        "uri": "memory://conversation/a_chat",
        "name": "Conversation a_chat",
        "description": "Conversation history for a_chat",
        "mimeType": "application/json",
    } in listed["resources"]
    [content] = rpc("memory-server/resources/read", uri="memory://conversation/a_chat")["contents"]
    assert (content["uri"], content["mimeType"]) == ("memory://conversation/a_chat", "application/json")
    held = orjson.loads(content["text"])
    assert set(held) == {"messages", "summary"}
    assert held["messages"][0]["content"] == "xin chào"
    assert rpc.error("memory-server/resources/read", uri="memory://conversation/nobody")["code"] == -32001
    assert rpc.error("memory-server/resources/read", uri="file:///etc/passwd")["code"] == -32001


@pytest.mark.requirement("002.tools.list")
def test_tools_list(rpc: Rpc) -> None:
    tools = rpc("tool-server/tools/list")["tools"]
    assert tools[0] == SEARCH
    assert [tool["name"] for tool in tools] == ["duckduckgo_search", "fetch_url"]


@pytest.mark.requirement("002.tools.call")
def test_a_tool_that_fails_says_so(rpc: Rpc) -> None:
    error = rpc.error("tool-server/tools/call", name="duckduckgo_search", arguments={"query": "sâu răng nguyên nhân"})
    assert error["code"] == -32002
    assert error["message"]
    assert error["data"]["guidance"]
    refused = rpc.error("tool-server/tools/call", name="fetch_url", arguments={"url": "http://127.0.0.1:8001/"})
    assert refused["code"] == -32002
    assert "open internet" in refused["message"] or "Port" in refused["message"]


@pytest.mark.requirement("002.jsonrpc.errors")
@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", -32700),
        (b"[" * 100_000, -32700),
        (b'{"jsonrpc": "2.0", "id": 1}', -32600),
        (b"[]", -32600),
        (b'"text"', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "memory-server/nothing"}', -32601),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "get_or_create"}', -32601),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "nobody/memory/clear"}', -32601),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "memory-server/memory/clear"}', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "memory-server/memory/clear", "params": ["x"]}', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "memory-server/memory/clear", "params": {"x": 1}}', -32602),
    ],
)
def test_protocol_errors(rpc: Rpc, body: bytes, code: int) -> None:
    _, answer = rpc.raw(body)
    assert answer["error"]["code"] == code
    assert answer["error"]["message"]
    assert answer["error"]["data"]  # what to do about it


@pytest.mark.requirement("002.jsonrpc.params")
@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"role": "robot"}, "role"),
        ({"content": ""}, "content"),
        ({"content": "x" * 1_000_000}, "content"),
        ({"content": None}, "content"),
        ({"conversation_id": 5}, "conversation_id"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_a_wrong_parameter_is_named_and_changes_nothing(rpc: Rpc, chat: str, wrong: dict[str, Any], field: str) -> None:
    right: dict[str, Any] = {"conversation_id": chat, "role": "user", "content": "hello"}
    error = rpc.error("memory-server/memory/add_message", **{**right, **wrong})
    assert error["code"] == -32602
    assert field in orjson.dumps(error).decode()
    assert rpc("memory-server/memory/get_all_messages", conversation_id=chat) == {"messages": []}


@pytest.mark.requirement("002.jsonrpc.unknown")
@pytest.mark.parametrize(
    "method", ["get_context", "get_all_messages", "get_old_messages", "get_summary", "clear", "delete"]
)
def test_an_unknown_conversation(rpc: Rpc, method: str) -> None:
    error = rpc.error(f"memory-server/memory/{method}", conversation_id="chat_nobody")
    assert error["code"] == -32001
    assert "get_or_create" in error["data"]["guidance"]
    assert (error["data"]["code"], error["data"]["conversation_id"]) == ("CONVERSATION_NOT_FOUND", "chat_nobody")
    assert "memory/list" in error["data"]["guidance"]


@pytest.mark.requirement("002.jsonrpc.full")
def test_batches_notifications_and_ids(rpc: Rpc, chat: str) -> None:
    add = "memory-server/memory/add_message"
    spoken = {"conversation_id": chat, "role": "user", "content": "a notification"}
    status, answer = rpc.raw({"jsonrpc": "2.0", "method": add, "params": spoken})
    assert (status, answer) == (204, None)
    every = {"jsonrpc": "2.0", "method": "memory-server/memory/get_all_messages", "params": {"conversation_id": chat}}
    _, answers = rpc.raw(
        [
            {"jsonrpc": "2.0", "method": add, "params": {**spoken, "content": "second"}, "id": "text"},
            {"jsonrpc": "2.0", "method": add, "params": {**spoken, "content": "third"}},
            {**every, "id": 1.5},
            {**every, "id": None},
            5,
        ]
    )
    assert [one.get("id") for one in answers] == ["text", 1.5, None, None]
    assert [m["content"] for m in answers[1]["result"]["messages"]] == ["a notification", "second", "third"]
    assert answers[3]["error"]["code"] == -32600
    _, refused = rpc.raw([{**every, "id": n} for n in range(1_000)])
    assert refused["error"]["code"] == -32600
