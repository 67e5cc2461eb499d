"""Ends the calls and streams of a credential that is revoked or expires, within a second.

A request is checked before it begins. This checks it again while it lasts, which may be days for an event stream: one
task looks at the key table every half second as long as any request is under way, and when a key has changed, or one
that is in use has expired, it asks for the credential of each such request again. Before each frame of a stream that
is done, too, so that nothing is heard that happens after the key has ended. The check wraps the ASGI messages of every
endpoint that needs a credential. So it also covers the streams of the MCP SDK, and none can be forgotten. What outlives
a request, such as a session of MCP, is checked by the same task.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import anyio
from starlette.types import Message, Scope, Send

from kho.doors.auth.credentials import OWN_ACCOUNT, Auth
from kho.doors.http.asgi import send_error
from kho.doors.logs import log_refusal
from kho.kernel import Background, KhoError, Principal, Unauthorized

ENDED = "The credential was revoked or has expired. If this call changed something, that may have been done."
UNASKED = -1
"""No number of changes."""
SHORTEST = 0.01
"""Seconds between two looks, at least."""


class Revocation:
    def __init__(self, auth: Auth, background: Background) -> None:
        self._auth = auth
        self._background = background
        self._open: set[_Response | _Held] = set()
        self._watching: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def watched(self, scope: Scope, send: Send, principal: Principal) -> AsyncGenerator[Send, None]:
        """Yield the `send` that an endpoint must use. If the credential no longer names `principal`, the endpoint is
        cancelled: a stream ends normally, and a call that was not answered yet gets 401."""
        response = _Response(self._auth, scope, send, principal)
        self._watch_over(response)
        try:
            with response.lifetime:
                yield response.send
        finally:
            self._open.discard(response)
        if response.refused:
            if response.started:
                await send({"type": "http.response.body", "body": b""})
            else:
                await send_error(send, Unauthorized(ENDED))

    def hold(self, scope: Scope, principal: Principal, end: Callable[[], Awaitable[None]]) -> Callable[[], None]:
        """Call `end` when the credential of this request no longer names `principal`. Return what stops the watch."""
        held = _Held(self._auth, scope, principal, end)
        self._watch_over(held)
        return lambda: self._open.discard(held)

    def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()

    def _watch_over(self, credential: "_Response | _Held") -> None:
        self._open.add(credential)
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        while self._open:
            await asyncio.sleep(max(self._auth.fresh, SHORTEST))
            await self._background.attempt(self._look)
        self._watching = None

    async def _look(self) -> None:
        changes = await self._changes()
        for one in list(self._open):
            if one.is_being_answered or (changes == one.seen and not self._auth.expired(one.principal)):
                continue
            # One that cannot be asked for, or ended, is tried again, and keeps nobody else's from ending.
            if await self._background.attempt(partial(self._ask, one)):
                one.seen = changes

    async def _ask(self, one: "_Response | _Held") -> None:
        if not await one.still_allowed():
            self._open.discard(one)

    async def _changes(self) -> int | None:
        """Return None while the database does not answer. Then calls end by themselves, and streams at their next
        frame or heartbeat."""
        try:
            return await self._auth.changes()
        except KhoError:
            return None


class _Credential:
    """What a request was admitted by, to be asked for again."""

    def __init__(self, auth: Auth, scope: Scope, principal: Principal) -> None:
        self.refused = False
        self.seen: int | None = UNASKED
        """The number of changes of keys when it was asked for last."""
        self.principal = principal
        self._auth = auth
        self._scope: Scope = {name: scope.get(name) for name in ("headers", "client", "path", OWN_ACCOUNT)}

    async def still_allowed(self) -> bool:
        """True if the credential is still valid. If that cannot be determined (the database does not answer), what it
        allowed ends, too: its client begins anew."""
        if not self.refused:
            try:
                self.refused = await self._auth.principal(self._scope) != self.principal
            except KhoError as error:
                log_refusal(self._scope["path"], (self._scope.get("client") or ("",))[0], error.code)
                self.refused = True
        return not self.refused


class _Held(_Credential):
    """Something that outlives the request that began it."""

    is_being_answered = False

    def __init__(self, auth: Auth, scope: Scope, principal: Principal, end: Callable[[], Awaitable[None]]) -> None:
        super().__init__(auth, scope, principal)
        self._end = end

    async def still_allowed(self) -> bool:
        if not await super().still_allowed():
            await self._end()
        return not self.refused


class _Response(_Credential):
    def __init__(self, auth: Auth, scope: Scope, send: Send, principal: Principal) -> None:
        super().__init__(auth, scope, principal)
        self.lifetime = anyio.CancelScope()
        self.started = False
        self._send = send
        self._is_stream = False

    @property
    def is_being_answered(self) -> bool:
        return self.started and not self._is_stream

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            self._is_stream = _is_stream(message)
        elif self._is_stream and not await self.still_allowed():
            return
        await self._send(message)

    async def still_allowed(self) -> bool:
        if not await super().still_allowed():
            self.lifetime.cancel()
        return not self.refused


def _is_stream(message: Message) -> bool:
    return any(name == b"content-type" and value.startswith(b"text/event-stream") for name, value in message["headers"])
