"""T14: one request, or one list, takes all there is."""

from collections.abc import AsyncGenerator
from pathlib import Path

import orjson
import pytest
from tests.doors.doors import Json, Served

pytestmark = pytest.mark.anyio


def rpc(params: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":1,"method":"facts-server/list_facts","params":' + params + b"}"


BODIES = {
    "numbers": rpc(b'{"x":[' + b"0," * 3_000_000 + b"0]}"),
    "names": rpc(b"{" + b",".join(b'"k%d":0' % number for number in range(300_000)) + b"}"),
    "brackets": rpc(b"[" * 100_000 + b"]" * 100_000),
    "a long number": rpc(b'{"limit":' + b"9" * 5_000 + b"}"),
    "infinity": rpc(b'{"limit":1e999}'),
    "lone surrogate": rpc(b'{"about":"\\ud800"}'),
    "broken text": rpc(b'{"about":"\xff"}'),
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
async def test_t14_bodies_that_are_small_to_send_and_long_to_read_are_refused(hub: Served, body: bytes) -> None:
    answer = await hub.post("/jsonrpc", body)
    assert answer.status_code in (200, 400)
    assert orjson.loads(answer.content)["error"]["code"] in (-32700, -32600, -32602)
    assert (await hub.get("/health")).status_code == 200


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
