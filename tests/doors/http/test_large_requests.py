"""Bodies that are small to send and long to read are refused at every door; large ones that are meant are read off the
event loop, and answered."""

import threading
from typing import Any

import orjson
import pytest
from mcp import Client, MCPError
from tests.doors.doors import ERAS, HANDSHAKE, KHO, MODERN, Served, served, talking

from kho.kernel import validation
from kho.lib import jsonrpc
from kho.settings import Settings

HELD = {
    "4 million zeros": b"[" + b"0," * 3_990_000 + b"0]",
    "600,000 keys": b"{" + b",".join(b'"k%d":0' % n for n in range(600_000)) + b"}",
    "99,000 lists": b"[" + b"[]," * 99_000 + b"0]",
}
CLEAR = "more than 100,000 values (commas and opening brackets outside of texts). Send fewer at a time, in several req"
TEXT = 'Commas, brackets [{ and "quotes", '
LARGE = {"document_id": "large", "content": {"body": TEXT * 12_000}, "metadata": {"title": "Large"}}


def holding(body: Any, held: bytes) -> bytes:
    """The body with that in the place of "?"."""
    return orjson.dumps(body).replace(b'"?"', held)


def document() -> dict[str, Any]:
    return {"document_id": "hostile", "content": {"body": "x"}, "metadata": {"title": "t", "x": "?"}}


def rpc(method: str, params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def mcp_headers(version: str, tool: str) -> dict[str, str]:
    headers = {"accept": "application/json, text/event-stream", "mcp_protocol_version": version}
    return headers | ({"mcp_method": "tools/call", "mcp_name": tool} if version == MODERN else {})


async def missing(hub: Served, id: str) -> bool:
    answer = (await hub.post("/jsonrpc", rpc("documents-server/get_documents", {"document_ids": [id]}))).json()
    return answer["result"]["missing"] == [id]


@pytest.mark.parametrize("held", HELD.values(), ids=HELD)
async def test_too_many_values_are_refused_over_http(hub: Served, held: bytes) -> None:
    create = rpc("documents-server/create_document", document())
    told: Any = (await hub.post("/jsonrpc", holding(create, held))).json()
    assert (told["error"]["code"], CLEAR in told["error"]["data"]) == (jsonrpc.PARSE_ERROR, True), told

    answer = await hub.post("/actions", holding({"action": "create_document", "payload": document()}, held))
    told = answer.json()
    assert (answer.status_code, told["status"], CLEAR in told["error"]["message"]) == (400, "error", True), told

    for version in (MODERN, HANDSHAKE):
        call = rpc("tools/call", {"name": "create_document", "arguments": document()})
        answer = await hub.post("/mcp", holding(call, held), **mcp_headers(version, "create_document"))
        told = answer.json()
        assert (answer.status_code, CLEAR in told["error"]["data"]) == (400, True), told
    assert await missing(hub, "hostile")


@pytest.mark.parametrize("era", ERAS)
async def test_too_many_values_are_refused_over_stdio(settings: Settings, era: str) -> None:
    arguments = document() | {"metadata": {"title": "t", "x": [0] * 150_000}}
    async with talking(settings.home, era, KHO, "stdio") as client:
        with pytest.raises(MCPError, match="more than 100,000 values") as refused:
            await client.call_tool("create_document", arguments)
        assert CLEAR in refused.value.error.message
        found: Any = (await client.call_tool("get_documents", {"document_ids": ["hostile"]})).structured_content
        assert found["missing"] == ["hostile"]
        made = await client.call_tool("create_document", LARGE)
        assert not made.is_error


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, str]]:
    """Which texts were counted before they were parsed, and where."""
    noted, loop, count = set[tuple[str, str]](), threading.get_ident(), jsonrpc.check_size

    def noting(raw: bytes | str) -> None:
        size = "large" if len(raw) > validation.LARGE else "small"
        noted.add((size, "on the loop" if threading.get_ident() == loop else "in a thread"))
        count(raw)

    monkeypatch.setattr(jsonrpc, "check_size", noting)
    return noted


@pytest.mark.parametrize("door", ["/jsonrpc", "/actions", *ERAS])
async def test_a_large_text_is_taken_and_read_off_the_event_loop(
    settings: Settings, door: str, counted: set[tuple[str, str]]
) -> None:
    async with served(settings) as hub:
        if door == "/jsonrpc":
            assert "result" in (await hub.post(door, rpc("documents-server/create_document", LARGE))).json()
        elif door == "/actions":
            assert (await hub.act("create_document", LARGE)).status_code == 200
        else:
            async with Client(f"{hub.url}/mcp", mode=door) as client:
                assert not (await client.call_tool("create_document", LARGE)).is_error
        assert not await missing(hub, "large")
    assert counted == {("large", "in a thread"), ("small", "on the loop")}
