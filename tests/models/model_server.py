"""A model server on the loopback that answers as a test tells it to, and remembers what it was asked."""

import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

Answer = Callable[[Any], Awaitable[Response]]


@dataclass
class Asked:
    path: str
    body: Any
    headers: dict[str, str]


@dataclass
class ModelServer:
    url: str
    answers: list[Answer | Response] = field(default_factory=list[Answer | Response])
    """Used up one by one. After the last one the usual answer is given."""
    asked: list[Asked] = field(default_factory=list[Asked])
    usual: Answer | None = None

    async def answer(self, request: Request) -> Response:
        body = await request.json()
        self.asked.append(Asked(request.url.path, body, dict(request.headers)))
        answer = self.answers.pop(0) if self.answers else self.usual
        assert answer is not None, "the test foresaw no answer"
        return answer if isinstance(answer, Response) else await answer(body)


@asynccontextmanager
async def serving(usual: Answer | None = None) -> AsyncGenerator[ModelServer, None]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        model = ModelServer(f"http://127.0.0.1:{listener.getsockname()[1]}/v1", usual=usual)
        app = Starlette(routes=[Route("/{path:path}", model.answer, methods=["POST"])])
        config = uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=1)
        config.load()
        server = uvicorn.Server(config)
        server.lifespan = config.lifespan_class(config)
        await server.startup([listener])
        try:
            yield model
        finally:
            await server.shutdown([listener])


def vectors_of(texts: list[str], width: int = 8) -> list[list[float]]:
    """A vector that tells the text apart by its length and first character. Not of length 1."""
    return [[float(len(text)), float(ord(text[0])), 3.0, *[0.5] * (width - 3)] for text in texts]


async def embeddings(body: Any) -> Response:
    """As OpenAI does, but last one first: clients must go by the index."""
    data = [{"index": place, "embedding": vector} for place, vector in enumerate(vectors_of(body["input"]))]
    return JSONResponse({"object": "list", "data": data[::-1], "model": body["model"]})
