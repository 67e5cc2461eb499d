"""T14: one request, or one list, takes all there is."""

import asyncio
import contextlib
import selectors
import socket
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import cast

import orjson
import pytest
from tests.acceptance.processes import Hub, Place
from tests.doors.doors import Json, Served, new_key, served
from tests.security.raw_http import asked, targets
from tests.timeouts import PATIENCE

from kho.settings import Settings

pytestmark = pytest.mark.anyio
OPEN = ("/xiaozhi/ota/", "/xiaozhi/ota", "/xiaozhi/ota/activate")
"""Where boards ask before they have a credential."""


def rpc(params: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":1,"method":"facts-server/list_facts","params":' + params + b"}"


MANY = "more than 100,000 values"
NOT_JSON = "not valid JSON"
BODIES = {
    "numbers": (rpc(b'{"x":[' + b"0," * 3_000_000 + b"0]}"), MANY),
    "names": (rpc(b"{" + b",".join(b'"k%d":0' % number for number in range(300_000)) + b"}"), MANY),
    "brackets": (rpc(b"[" * 99_000 + b"]" * 99_000), NOT_JSON),
    "levels": (rpc(b"[" * 100 + b"]" * 100), "nested more than 64 levels deep"),
    "a long number": (rpc(b'{"limit":' + b"9" * 5_000 + b"}"), NOT_JSON),
    "infinity": (rpc(b'{"limit":1e999}'), NOT_JSON),
    "lone surrogate": (rpc(b'{"about":"\\ud800"}'), NOT_JSON),
    "broken text": (rpc(b'{"about":"\xff"}'), NOT_JSON),
}
"""What is sent, and the sentence that refuses it: an unknown field of what was read is refused as well, but later."""


@pytest.mark.parametrize(("body", "sentence"), BODIES.values(), ids=BODIES)
async def test_t14_bodies_that_are_small_to_send_and_long_to_read_are_refused(
    hub: Served, body: bytes, sentence: str
) -> None:
    """Before they are parsed, in a thread: whoever else asks is answered meanwhile."""
    answer, health = await asyncio.gather(hub.post("/jsonrpc", body), hub.get("/health"))
    assert sentence in orjson.loads(answer.content)["error"]["data"], answer.text
    assert health.status_code == 200


async def test_t14_nothing_of_a_body_is_read_before_its_sender_is_known(settings: Settings) -> None:
    """Every route that takes a body, asked without a credential: it answers before the body comes."""
    await new_key(settings)
    async with served(settings) as hub:
        asked_for = {target.path for target in targets(hub) if target.method == "POST" and target.path not in OPEN}
        assert {"/jsonrpc", "/actions", "/mcp", "/vision/explain"} <= asked_for
        for path in asked_for:
            lines = (
                f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", "Connection: close",
                "Content-Length: 5000000", "Device-Id: aa:bb", "Client-Id: client-one-00001", "", "",
            )  # fmt: skip
            answer = await asked(hub, "\r\n".join(lines).encode())
            assert answer.status == 401, path


async def test_t14_a_body_over_the_limit_is_not_read(hub: Served) -> None:
    async def endless() -> AsyncGenerator[bytes]:
        for _ in range(200):
            yield b"x" * 65_536

    for content in (b" " * (8 * 1024 * 1024 + 1), endless()):
        answer = await hub.http.post("/jsonrpc", content=content, headers={"content-type": "application/json"})
        assert answer.status_code == 413


async def test_t14_lists_and_batches_are_bounded(hub: Served) -> None:
    for action, payload in (("list_facts", {"limit": 10**9}), ("query_knowledge", {"query": "x", "top_k": 10**9})):
        assert (await hub.act(action, payload)).status_code == 400
    batch: list[Json] = [{"jsonrpc": "2.0", "id": 1, "method": "facts-server/list_facts", "params": {}}] * 101
    assert "error" in orjson.loads((await hub.post("/jsonrpc", batch)).content)
    made = {"action": "create", "collection_name": "c"}
    assert (await hub.act("manage_collections", made)).status_code == 200
    folder = {"path": str(Path.cwd() / "docs"), "collection": "c"}
    refused = await hub.act("ingest_documents", {**folder, "patterns": ["{a,b}" * 40]})
    assert (refused.status_code, "more than 100 patterns" in refused.text) == (400, True)
    assert (await hub.act("ingest_documents", {**folder, "patterns": ["no-such-{a,b}"]})).status_code == 200


def test_t14_slow_heads_are_closed_by_every_worker_within_the_time_that_is_set(tmp_path: Path) -> None:
    """Beside each a connection that waits for its next request, which is closed after five seconds: the slow heads end
    before it. Both workers accept, so of many connections each has some."""
    with Hub(Place(tmp_path / "home"), "--workers", "2", KHO_HTTP__HEADER_TIMEOUT="0.2").ready() as hub:
        idle = socket.create_connection(("127.0.0.1", hub.port))
        slow = [socket.create_connection(("127.0.0.1", hub.port)) for _ in range(20)]
        with contextlib.ExitStack() as stack, selectors.DefaultSelector() as selector:
            for one in (idle, *slow):
                stack.enter_context(one)
            for one in slow:
                one.sendall(b"GET / HTTP/1.1\r\nX:")
            idle.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            for one in (idle, *slow):
                selector.register(one, selectors.EVENT_READ)
            ended: list[socket.socket] = []
            while len(ended) < len(slow):
                ready = selector.select(PATIENCE)
                assert ready
                for key, _ in ready:
                    one = cast(socket.socket, key.fileobj)
                    if not one.recv(65_536):
                        selector.unregister(one)
                        ended.append(one)
            assert idle not in ended
