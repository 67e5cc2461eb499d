"""A hub's devices behind the HTTP door, on a real socket, and virtual boards that dial in."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
from tests.devices.factories import PATIENCE, HubWorker, approved_by_code
from tests.doors.doors import listening
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from kho.devices.pairing.tokens import Tokens
from kho.devices.routes import served
from kho.doors.http.app import Application
from kho.kernel import api_keys
from kho.kernel.api_keys import ApiKey
from kho.kernel.background import Background
from kho.kernel.call import Principal
from kho.kernel.capability import Capability
from kho.kernel.hub import Hub
from kho.kernel.limits.limiter import Limiter
from kho.kernel.limits.settings import LimitSettings
from kho.kernel.registry import Registry
from kho.lib.clock import DAY
from kho.settings import Settings
from kho.simulator.board import Board, Say
from kho.storage.api_keys import SqlApiKeys
from kho.storage.audit import SqlRefusals
from kho.storage.local_token import LocalTokenFile
from kho.storage.receipts import SqlReceipts

Json = dict[str, Any]
MakeWorker = Callable[..., HubWorker]


@dataclass(frozen=True)
class Served:
    url: str
    worker: HubWorker
    tokens: Tokens
    http: httpx2.AsyncClient
    app: Application

    async def ota(self, device: str, client: str = "client-one-00001", body: Any = None, **headers: str) -> Json:
        answer = await self.post("/xiaozhi/ota/", device, client, body, **headers)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def post(
        self, path: str, device: str, client: str = "client-one-00001", body: Any = None, **headers: str
    ) -> httpx2.Response:
        named = {"device-id": device, "client-id": client} | {k.replace("_", "-"): v for k, v in headers.items()}
        return await self.http.post(path, json={} if body is None else body, headers=named)

    def dial(self, path: str = "/xiaozhi/v1/", **headers: str) -> connect:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return connect(
            self.url.replace("http", "ws") + path,
            additional_headers=named,
            proxy=None,
            compression=None,
            close_timeout=5,
        )


@asynccontextmanager
async def web(worker: HubWorker, *, by_code: bool = False, **chosen: Any) -> AsyncGenerator[Served, None]:
    tokens = Tokens(worker.registrations)
    if by_code:
        worker.registrations.approval = approved_by_code
    pages = served(worker.registrations, tokens, worker.live, worker.events, **chosen)
    background = worker.background

    @asynccontextmanager
    async def open_hub() -> AsyncGenerator[Hub, None]:
        local = Principal("local", worker.tenant, frozenset({"*"}))
        registry = Registry((Capability("devices", "devices-server", (), web=pages),), background)
        keys, receipts = SqlApiKeys(worker.db), SqlReceipts(worker.db, worker.clock)
        counting = Background()  # of refusals, which waits for the minute to end
        refusals = SqlRefusals(worker.db, counting, worker.clock, worker.tenant)
        refusals.unauthorized("nobody")  # its task lasts as long as the hub: begun here, others can be counted
        token = LocalTokenFile(Settings().home)
        limiter = Limiter(LimitSettings())
        yield Hub(
            "test", registry, _nothing, keys, receipts, worker.clock, local, token, refusals, limiter, _no_figures
        )
        await counting.drain()

    settings = Settings()
    app = Application(open_hub, settings.http, settings.mcp)
    async with listening(app) as (url, http):
        yield Served(url, worker, tokens, http, app)


async def _nothing() -> None:
    return None


async def _no_figures() -> tuple[()]:
    return ()


async def new_key(worker: HubWorker, *scopes: str) -> str:
    id, text, digest = api_keys.mint()
    now = worker.clock()
    await SqlApiKeys(worker.db).add(ApiKey(id, "bot", worker.tenant, scopes or ("*",), digest, now, now + DAY))
    return text


async def forget_keys(worker: HubWorker) -> None:
    """The database serves a whole module, and a hub with keys stays one."""
    await worker.db.write(lambda tx: tx.run("DELETE FROM api_keys"))


class Dialled:
    """A virtual board on a WebSocket: it answers whatever the hub asks until it is told to leave."""

    def __init__(self, board: Board, socket: ClientConnection) -> None:
        self.board = board
        self.socket = socket
        self.frames: list[Json] = []
        self._answering = asyncio.ensure_future(self._answer())

    async def _answer(self) -> tuple[int, str]:
        await self.socket.send(self.board.hello())
        try:
            while True:
                text = await self.socket.recv()
                assert isinstance(text, str)
                self.frames.append(json.loads(text))
                for said in self.board.hear(text):
                    if isinstance(said, Say):
                        await self.socket.send(said.text)
        except ConnectionClosed as gone:
            return (gone.rcvd.code, gone.rcvd.reason) if gone.rcvd else (1006, "")

    async def closed(self) -> tuple[int, str]:
        async with asyncio.timeout(PATIENCE):
            return await self._answering

    async def leave(self) -> None:
        await self.socket.close()
        await self.closed()


async def ready(worker: HubWorker, device: str) -> None:
    """Until the board's tools are known. Looks again whenever the loop has gone round."""
    async with asyncio.timeout(PATIENCE):
        while (link := worker.live.find(worker.tenant, device)) is None or link.session.state != "ready":  # noqa: ASYNC110 - nobody tells when a known board is ready again
            await asyncio.sleep(0)


async def gone(worker: HubWorker, device: str) -> None:
    """Until the board's row says so, too."""
    async with asyncio.timeout(PATIENCE):
        while (known := await worker.registrations.of(worker.tenant, device)) is not None and known.connected_at:
            pass
    assert worker.live.find(worker.tenant, device) is None


async def closing(socket: ClientConnection) -> tuple[int, str]:
    async with asyncio.timeout(PATIENCE):
        try:
            while True:
                await socket.recv()
        except ConnectionClosed as gone:
            return (gone.rcvd.code, gone.rcvd.reason) if gone.rcvd else (1006, "")


def refused(answer: httpx2.Response, status: int, code: str) -> None:
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), answer.text
