"""T16: what a header says and what the body says differ, so that a proxy and the hub see different requests."""

from typing import Any

import pytest
from tests.doors.doors import HANDSHAKE, MODERN, Json, Served

pytestmark = pytest.mark.anyio

PING: Json = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
CALL: Json = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list_facts", "arguments": {}}}
ACCEPT = {"accept": "application/json, text/event-stream"}


@pytest.mark.parametrize(
    "headers",
    [
        {"mcp_method": "tools/list", "mcp_name": "list_facts"},
        {"mcp_method": "tools/call", "mcp_name": "remember"},
        {"mcp_method": "tools/call"},
        {},
    ],
)
async def test_t16_headers_that_differ_from_the_body_are_refused(hub: Served, headers: dict[str, str]) -> None:
    answer = await hub.post("/mcp", CALL, mcp_protocol_version=MODERN, **ACCEPT, **headers)
    assert answer.status_code == 400, answer.text
    assert "result" not in answer.json()


async def test_t16_mcp_takes_no_batch(hub: Served) -> None:
    for version in (MODERN, HANDSHAKE):
        answer = await hub.post("/mcp", [PING, CALL], mcp_protocol_version=version, **ACCEPT)
        assert answer.status_code == 400, answer.text


@pytest.mark.parametrize(
    "head",
    [
        "Content-Length: 2\r\nContent-Length: 3\r\n",
        "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: +2\r\n",
        "Host: evil.test\r\nContent-Length: 2\r\n",
    ],
)
async def test_t16_a_request_that_can_be_read_in_two_ways_is_refused(hub: Served, head: str) -> None:
    import asyncio
    from urllib.parse import urlsplit

    parts = urlsplit(hub.url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        start = f"POST /jsonrpc HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n{head}\r\n{{}}"
        writer.write(start.encode())
        said: Any = await reader.read()
        assert said.startswith(b"HTTP/1.1 400"), said[:200]
        assert said.count(b"HTTP/1.1") == 1
    finally:
        writer.close()
