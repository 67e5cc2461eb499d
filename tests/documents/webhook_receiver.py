"""What the tests of webhooks stand on: a receiver on this machine, and an admin at a hub."""

import asyncio
import contextlib
import hashlib
import hmac
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.engines import AdminPostgres
from tests.timeouts import PATIENCE

from kho.app import opened
from kho.documents.settings import DocumentSettings
from kho.kernel.background import Background
from kho.kernel.call import Call, Principal
from kho.kernel.errors import KhoError
from kho.kernel.ports import Database, Tx
from kho.kernel.registry import Registry
from kho.lib.clock import SECOND, system_clock
from kho.settings import Settings
from kho.storage.postgres.database import PostgresLimits
from kho.storage.sqlite.database import Sqlite

Json = dict[str, Any]

"""Seconds after which a test has failed; nothing is expected to take that long."""
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
FAILS = b"HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n"


@dataclass(frozen=True)
class Request:
    path: str
    headers: dict[str, str]
    raw: bytes

    @property
    def event(self) -> Json:
        return orjson.loads(self.raw)

    @property
    def told(self) -> tuple[str, str]:
        return self.event["type"], self.event["document_id"]


@dataclass
class Receiver:
    """A web server on this machine that keeps what it is sent, and answers as it is told to."""

    answers: list[bytes] = field(default_factory=list[bytes])
    """The next ones; then it is content with everything. An empty one hangs up."""
    requests: list[Request] = field(default_factory=list[Request])
    port: int = 0
    answering: asyncio.Event = field(default_factory=asyncio.Event)
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)

    def __post_init__(self) -> None:
        self.answering.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    @property
    def told(self) -> list[tuple[str, str]]:
        return [request.told for request in self.requests]

    async def has(self, number: int) -> None:
        async with asyncio.timeout(PATIENCE), self._news:
            await self._news.wait_for(lambda: len(self.requests) >= number)

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncGenerator[None]:
        writers: list[asyncio.StreamWriter] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writers.append(writer)
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                while True:
                    await self._one(reader, writer)

        server = await asyncio.start_server(serve, "127.0.0.1", self.port)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            server.close()
            for writer in writers:
                writer.close()
                with contextlib.suppress(ConnectionError):
                    await writer.wait_closed()
            await server.wait_closed()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        raw = await reader.readexactly(int(headers["content-length"]))
        async with self._news:
            self.requests.append(Request(head[0].split(" ")[1], headers, raw))
            self._news.notify_all()
        await self.answering.wait()
        answer = self.answers.pop(0) if self.answers else OK
        if not answer:
            writer.close()
        writer.write(answer)
        await writer.drain()


@dataclass
class Office:
    """An admin of a tenant, at a hub."""

    registry: Registry
    tenant: str = "acme"
    scopes: frozenset[str] = frozenset({"*", "admin"})

    async def ask(self, operation: str, arguments: Json, **more: Any) -> Any:
        found = self.registry.action(operation)
        assert found is not None
        return await self.registry.call(found, arguments, Call(Principal("boss", self.tenant, self.scopes), **more))

    async def do(self, operation: str, /, **arguments: Any) -> Json:
        outcome = await self.ask(operation, arguments)
        assert outcome.error is None, outcome.error
        return outcome.value

    async def refused(self, operation: str, /, **arguments: Any) -> KhoError:
        outcome = await self.ask(operation, arguments)
        assert outcome.error is not None
        return outcome.error

    async def hook(self, receiver: Receiver, **more: Any) -> Json:
        return await self.do("add_webhook", url=receiver.url, **more)

    async def create(self, *ids: str) -> None:
        for id in ids:
            await self.do("create_document", document_id=id, content={"body": f"About {id}."})


def settings_of(request: pytest.FixtureRequest, home: Path) -> Settings:
    """On the database that is asked for. Attempts follow each other at once, a few of them."""
    url = None if request.param == "sqlite" else request.getfixturevalue("postgres_schema_url")
    quick = DocumentSettings(webhook_backoff=[0.01, 0.02, 0.05], webhook_timeout=5)
    return Settings(home=home, database_url=url, documents=quick)


@contextlib.asynccontextmanager
async def idle(settings: Settings) -> AsyncGenerator[Office]:
    """A hub that dies before it gets round to anything in the background."""
    async with opened(settings) as (_, slices):
        yield Office(Registry(slices, Background()))


@contextlib.asynccontextmanager
async def store(settings: Settings) -> AsyncGenerator[Database]:
    url = settings.database_url
    database: Database = (
        Sqlite.open(settings.home / "kho.db") if url is None else AdminPostgres.open(url, PostgresLimits(pool_size=2))
    )
    try:
        yield database
    finally:
        await database.aclose()


async def left(settings: Settings) -> dict[str, int]:
    """Rows that are kept of events."""

    def count(tx: Tx) -> dict[str, int]:
        tables = ("document_events", "document_deliveries")
        rows = {table: tx.one(f"SELECT COUNT(*) FROM {table}") for table in tables}
        return {table: row[0] for table, row in rows.items() if row and row[0]}

    async with store(settings) as database:
        return await database.read(count)


def is_genuine(secret: str, request: Request) -> bool:
    """As the documentation tells a receiver to look."""
    parts = dict(part.split("=", 1) for part in request.headers["x-kho-signature"].split(","))
    signed = hmac.new(secret.encode(), f"{parts['t']}.".encode() + request.raw, hashlib.sha256).hexdigest()
    fresh = abs(system_clock() // SECOND - int(parts["t"])) < 300
    return fresh and hmac.compare_digest(parts["v1"], signed)
