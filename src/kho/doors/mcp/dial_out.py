"""Reverse MCP connection: Kho dials a WebSocket and serves its tools to the other end.

This connects the assistant behind a xiaozhi device, which cannot dial Kho itself: its server hands out an "MCP
endpoint", `wss://…/mcp/?token=…`. Messages are plain JSON-RPC, one per frame. The token is in the address, so an
address is never logged.
"""

import asyncio
import logging
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from urllib.parse import urlsplit

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from pydantic import ValidationError
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI

from kho.doors.mcp import text
from kho.doors.mcp.server import McpDoor
from kho.kernel.background import Background
from kho.kernel.errors import InvalidParams
from kho.kernel.hub import Hub
from kho.kernel.toolset import Selection

log = logging.getLogger("kho.endpoint")

FIRST_PAUSE = 1.0
LAST_PAUSE = 60.0
MAX_MESSAGE = 1024 * 1024
STEADY = 10.0
"""Seconds after which a connection that breaks counts as having worked, which resets the backoff."""

TRUST = "SSL_CERT_FILE can name a certificate authority of your own"

Incoming = MemoryObjectReceiveStream[SessionMessage | Exception]
Outgoing = MemoryObjectSendStream[SessionMessage]
Tell = Callable[[str, str], None]
"""Callback with an event (`connected`, `disconnected`) and a sentence about it."""


def place(url: str) -> str:
    """Return the address without its secret part. Raises InvalidParams if it cannot be dialled."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InvalidParams("This is not a valid address.", field="url") from None
    if parts.scheme not in ("ws", "wss") or not parts.hostname:
        raise InvalidParams("An MCP endpoint's address begins with ws:// or wss://.", field="url")
    return f"{parts.scheme}://{parts.hostname}{f':{port}' if port else ''}{parts.path}"


async def attach(
    open_hub: Callable[[], AbstractAsyncContextManager[Hub]],
    url: str,
    selection: Selection,
    page_size: int,
    tell: Tell,
    *,
    first_pause: float = FIRST_PAUSE,
) -> None:
    """Serve at the address until cancelled; reconnect with exponential backoff whenever the connection breaks."""
    where, pause = place(url), first_pause
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        hub = await stack.enter_async_context(open_hub())
        background = Background()
        stack.push_async_callback(background.drain)
        door = McpDoor(hub, background, lambda ctx: hub.local, selection, page_size)
        while True:
            began = loop.time()
            try:
                await _serve_once(door, url, where, tell)
                why = "the other end closed the connection"
            except InvalidURI:
                raise InvalidParams("This is not a valid address.", field="url") from None
            except InvalidHandshake as problem:
                why = _without(url, str(problem))
            except ssl.SSLCertVerificationError as problem:
                why = f"its certificate is not trusted here ({problem.verify_message}); {TRUST}"
            except (OSError, TimeoutError) as problem:
                why = _without(url, str(problem)) or "no answer"
            finally:
                door.notices.forget_sessions()
            if loop.time() - began > STEADY:
                pause = first_pause
            tell("disconnected", f"Not connected to {where}: {why}. Next attempt in {pause:g} s.")
            await asyncio.sleep(pause)
            pause = min(LAST_PAUSE, pause * 2)


class _Connection(connect):
    """To the address that the user named, and nowhere else: a redirect is the other end's word."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


async def _serve_once(door: McpDoor, url: str, where: str, tell: Tell) -> None:
    async with _Connection(url, max_size=MAX_MESSAGE, proxy=None, logger=_quiet) as socket:
        tell("connected", f"Connected to {where}.")
        async with _streams(socket) as (incoming, outgoing):
            await door.server.run(incoming, outgoing, door.server.create_initialization_options())


@asynccontextmanager
async def _streams(socket: ClientConnection) -> AsyncGenerator[tuple[Incoming, Outgoing], None]:
    into, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, out_of = anyio.create_memory_object_stream[SessionMessage](0)

    async def receive() -> None:
        async with into:
            async for frame in socket:
                if (refused := await text.refusal(frame)) is not None:
                    await outgoing.send(refused)
                    continue
                try:
                    message = types.jsonrpc_message_adapter.validate_json(frame, by_name=False)
                except ValidationError as problem:
                    await into.send(problem)
                else:
                    await into.send(SessionMessage(message))

    async def send() -> None:
        async with out_of:
            async for said in out_of:
                await socket.send(said.message.model_dump_json(by_alias=True, exclude_unset=True))

    async with anyio.create_task_group() as group:
        group.start_soon(_until_closed, receive)
        group.start_soon(_until_closed, send)
        yield incoming, outgoing
        group.cancel_scope.cancel()


async def _until_closed(work: Callable[[], Awaitable[None]]) -> None:
    """Run `work`, ending quietly when the socket closes or the other end of the stream is gone."""
    try:
        await work()
    except (ConnectionClosed, anyio.BrokenResourceError, anyio.ClosedResourceError) as end:
        log.debug("the endpoint's connection ended: %s", type(end).__name__)


def _without(url: str, text: str) -> str:
    """Remove the secret part of the address: some errors quote it."""
    query = urlsplit(url).query
    return text.replace(url, place(url)).replace(query, "…") if query else text


_quiet = logging.getLogger("kho.endpoint.socket")
"""Silenced, because at a verbose level the library logs what it sends, including the address with its token."""
_quiet.setLevel(logging.CRITICAL)
