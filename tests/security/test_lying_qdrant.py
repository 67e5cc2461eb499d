"""A Qdrant server that answers nonsense: searches go on by keywords, and nothing of another tenant is shown."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from tests.doors.doors import new_key, served
from tests.stores.fill import until

from kho.doctor import change
from kho.settings import Settings
from kho.storage.vector_index import qdrant as qdrant_vectors

pytestmark = pytest.mark.anyio
MARK = "zyxmark"
POINTS: dict[str, list[Any]] = {
    "everybody's": [{"id": seq, "version": 0, "score": 0.99} for seq in range(1, 60)],
    "no number": [{"id": "6f1e2d3c-0000-4000-8000-000000000000", "version": 0, "score": 1.0}],
    "a huge number": [{"id": 2**64 - 1, "version": 0, "score": 1.0}],
    "no score": [{"id": 1, "version": 0, "score": "x"}],
    "nothing that is one": [5, None, {}],
}
BODIES = {
    "no JSON": b"<html>",
    "broken text": b"\xff\xfe",
    "nothing": b"",
    "deep": b"[" * 50_000,
    "a list": b"[1, 2, 3]",
}


@asynccontextmanager
async def qdrant(answer: Response | Callable[[], Response]) -> AsyncGenerator[tuple[str, list[str]]]:
    """One that has every collection, takes every point, and answers each question with that."""
    asked: list[str] = []

    async def on(request: Request) -> Response:
        path = request.url.path
        asked.append(path)
        if path.endswith("/query"):
            return answer if isinstance(answer, Response) else answer()
        if path.endswith("/exists"):
            return JSONResponse({"result": {"exists": True}, "status": "ok", "time": 0.0})
        return JSONResponse({"result": {"operation_id": 1, "status": "completed"}, "status": "ok", "time": 0.0})

    with socket.create_server(("127.0.0.1", 0)) as listener:
        app = Starlette(routes=[Route("/{path:path}", on, methods=["GET", "POST", "PUT", "DELETE", "PATCH"])])
        config = uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=1)
        config.load()
        server = uvicorn.Server(config)
        server.lifespan = config.lifespan_class(config)
        await server.startup([listener])
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", asked
        finally:
            await server.shutdown([listener])


def answers() -> dict[str, Response]:
    found: dict[str, Response] = {name: Response(body, media_type="application/json") for name, body in BODIES.items()}
    for name, points in POINTS.items():
        found[name] = JSONResponse({"result": {"points": points}, "status": "ok", "time": 0.0})
    return found


@pytest.mark.parametrize("name", answers())
async def test_searches_go_on_by_keywords_whatever_qdrant_answers(settings: Settings, name: str) -> None:
    async with qdrant(answers()[name]) as (url, asked):
        vectors = {"engine": "qdrant", "qdrant_url": url}
        chosen = change(settings, {"search": {"embedder": {"provider": "hash"}, "vectors": vectors}})
        mine, theirs = await new_key(chosen, "acme"), await new_key(chosen, "umbrella")
        async with served(chosen, serving=True) as hub:
            for key, text in ((theirs, f"{MARK} kettle"), (mine, "My own kettle")):
                assert (await hub.act("remember", {"text": text}, key=key)).status_code == 200

            async def is_asked() -> bool:
                await hub.act("search", {"query": "kettle"}, key=mine)
                return any(path.endswith("/query") for path in asked)

            await until(is_asked)
            for action, payload in (("search", {"query": "kettle"}), ("query_experiences", {"keywords": "kettle"})):
                answer = await hub.act(action, payload, key=mine)
                assert answer.status_code == 200, answer.text
                assert MARK not in answer.text
            found = await hub.act("search", {"query": "kettle"}, key=mine)
            assert "My own kettle" in found.text


async def test_a_qdrant_whose_answers_do_not_end_is_left_alone_and_the_hub_stops(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Searches go on by words, soon without asking it; and nothing that hangs keeps the hub from its end."""
    monkeypatch.setattr(qdrant_vectors, "REQUEST_TIMEOUT", 0.3)

    async def drip() -> AsyncGenerator[bytes]:
        while True:
            yield b" "
            await asyncio.sleep(0.02)

    async with qdrant(lambda: StreamingResponse(drip(), media_type="application/json")) as (url, asked):
        vectors = {"engine": "qdrant", "qdrant_url": url}
        chosen = change(settings, {"search": {"embedder": {"provider": "hash"}, "vectors": vectors}})
        async with served(chosen, serving=True) as hub:
            assert (await hub.act("remember", {"text": "My own kettle"})).status_code == 200

            async def left_alone() -> bool:
                before, said = len(asked), ""
                for _ in range(10):
                    answer = await hub.act("search", {"query": "kettle"})
                    assert (answer.status_code, "My own kettle" in answer.text) == (200, True)
                    said = answer.text
                return "asked again in" in said and len(asked) == before

            await until(left_alone)
            assert asked
