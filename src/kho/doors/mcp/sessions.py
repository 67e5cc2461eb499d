"""Sessions of MCP's handshake era, which let a tool ask its client something during a call. Each belongs to the
credential that opened it and ends with it; for every other caller it does not exist."""

from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial

from mcp.server import Server
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import Message, Receive, Scope, Send

from kho.doors.auth.revocation import Revocation
from kho.doors.mcp.notifications import SESSION_ID
from kho.kernel import Principal
from kho.lib.dataclass import dataclass

MOST_SESSIONS = 1_000
IDLE_SESSION = 600.0
_HEADER = SESSION_ID.encode()


@dataclass(frozen=True, slots=True)
class _Session:
    owner: Principal
    unwatch: Callable[[], None]


class Sessions:
    def __init__(
        self, server: Server, max_body: int, revocation: Revocation, count: Callable[[int], None], most_of_a_key: int
    ) -> None:
        self._manager = StreamableHTTPSessionManager(
            server, session_idle_timeout=IDLE_SESSION, max_sessions=MOST_SESSIONS, max_request_body_size=max_body
        )
        self._revocation = revocation
        self._count = count
        """Told of the number of open sessions whenever it has changed."""
        self._most_of_a_key = most_of_a_key
        self._known: dict[str, _Session] = {}
        self._closed: OrderedDict[str, Principal] = OrderedDict()
        """Sessions that their own clients closed: only these are answered 404."""

    def run(self) -> AbstractAsyncContextManager[None]:
        return self._manager.run()

    def full_for(self, caller: Principal) -> bool:
        """True if the caller gets no further session: it is served without one, which costs the others nothing."""
        if len(self._transports) >= MOST_SESSIONS:
            return True
        if not self._most_of_a_key or caller.kind == "local":
            return False
        self._forget_gone()
        return sum(one.owner == caller for one in self._known.values()) >= self._most_of_a_key

    def has(self, id: str, caller: Principal) -> bool:
        """True if this process holds the caller's session, or did until the caller closed it."""
        known = self._known.get(id)
        return self._closed.get(id) == caller or (
            known is not None and known.owner == caller and id in self._transports
        )

    async def answer(self, id: str, caller: Principal, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request in a session that the caller has."""
        if scope["method"] == "DELETE" and id in self._transports:
            self._closed[id] = caller
            if len(self._closed) > MOST_SESSIONS:
                self._closed.popitem(last=False)
        await self._manager.handle_request(scope, receive, send)
        self._forget_gone()

    async def open(self, caller: Principal, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that opens a session. It is the caller's before the caller is told its id."""

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                for id in (value.decode("latin-1") for name, value in message["headers"] if name.lower() == _HEADER):
                    unwatch = self._revocation.hold(scope, caller, partial(self._end, id))
                    self._known[id] = _Session(caller, unwatch)
                    self._count(len(self._known))
            await send(message)

        self._forget_gone()
        await self._manager.handle_request(scope, receive, noted)

    @property
    def _transports(self) -> dict[str, StreamableHTTPServerTransport]:
        return self._manager._server_instances  # pyright: ignore[reportPrivateUsage]

    async def _end(self, id: str) -> None:
        transport = self._transports.pop(id, None)
        if transport is not None:
            await transport.terminate()
        self._forget_gone()

    def _forget_gone(self) -> None:
        """Forget sessions that were closed or idle for too long."""
        for id in [id for id in self._known if id not in self._transports]:
            self._known.pop(id).unwatch()
        self._count(len(self._known))
