"""Contract 002's memory for MCP clients: the same conversations as tools and resources, on each transport and era."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import orjson
import pytest
from mcp import Client, MCPError
from tests.doors.doors import ERAS, KHO, served, talking

from kho.settings import Settings

URI = "memory://conversation/chat_1"


@asynccontextmanager
async def client_of(home: Path, transport: str, era: str) -> AsyncGenerator[Client]:
    if transport == "stdio":
        async with talking(home, era, KHO, "stdio", "--tools", "all") as client:
            yield client
    else:
        settings = Settings(home=home, database_url=None)
        async with served(settings) as hub, Client(f"{hub.url}/mcp?tools=all", mode=era) as client:
            yield client


async def told(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(f"memory_{tool}", arguments)
    assert not result.is_error, result
    return result.structured_content


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_conversation_as_tools_and_as_a_resource(tmp_path: Path, transport: str, era: str) -> None:
    async with client_of(tmp_path / "home", transport, era) as client:
        assert await told(client, "get_or_create", conversation_id="chat_1") == {"conversation_id": "chat_1"}
        for role, content in (("user", "Tôi bị đau răng hàm."), ("assistant", "Răng nào ạ?")):
            done = await told(client, "add_message", conversation_id="chat_1", role=role, content=content)
            assert done == {"status": "success", "conversation_id": "chat_1"}
        context = await told(client, "get_context", conversation_id="chat_1", max_messages=1)
        assert [message["content"] for message in context["messages"]] == ["Răng nào ạ?"]
        found = await told(client, "search", query="đau răng hàm")
        assert (found["results"][0]["conversation_id"], found["results"][0]["role"]) == ("chat_1", "user")
        await told(client, "set_summary", conversation_id="chat_1", summary="Đau răng.")
        assert await told(client, "get_summary", conversation_id="chat_1") == {"summary": "Đau răng."}
        [listed] = (await told(client, "list"))["conversations"]
        assert (listed["message_count"], listed["has_summary"]) == (2, True)
        await read_as_a_resource(client)
        await told(client, "delete", conversation_id="chat_1")
        with pytest.raises(MCPError) as gone:
            await client.read_resource(URI, cache_mode="bypass")
        assert gone.value.error.code == types.INVALID_PARAMS
        refused = await client.call_tool("memory_get_context", {"conversation_id": "chat_1"})
        assert refused.is_error
        assert refused.structured_content is not None
        assert refused.structured_content["error"]["code"] == "CONVERSATION_NOT_FOUND"


async def read_as_a_resource(client: Client) -> None:
    listed = [one for one in (await client.list_resources()).resources if str(one.uri) == URI]
    assert [(one.name, one.description, one.mime_type) for one in listed] == [
        ("Conversation chat_1", "Conversation history for chat_1", "application/json")
    ]
    templates = [one.uri_template for one in (await client.list_resource_templates()).resource_templates]
    assert "memory://conversation/{id}" in templates
    reference = types.ResourceTemplateReference(uri="memory://conversation/{id}")
    completed = await client.complete(reference, {"name": "id", "value": "ch"})
    assert completed.completion.values == ["chat_1"]
    [content] = (await client.read_resource(URI)).contents
    assert isinstance(content, types.TextResourceContents)
    held = orjson.loads(content.text)
    assert [message["role"] for message in held["messages"]] == ["user", "assistant"]
    assert (held["summary"]["text"], held["summary"]["by"]) == ("Đau răng.", "client")
