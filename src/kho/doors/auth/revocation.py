"""Ends the calls and streams of a credential that is revoked or expires, within a second.

A request is checked before it begins. This checks it again while it lasts, which may be days for an event stream: one
task looks at the key table every half second as long as any request is under way, and when a key has changed, or one
that is in use has expired, it asks for the credential of each such request again. Before each frame of a stream that
is done, too, so that nothing is heard that happens after the key has ended. The check wraps the ASGI messages of every
endpoint that needs a credential. So it also covers the streams of the MCP SDK, and none can be forgotten.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import anyio
from starlette.types import Message, Scope, Send

from kho.doors.auth.credentials import Auth
from kho.doors.http.asgi import send_error
from kho.doors.logs import log_refusal
from kho.kernel import KhoError, Principal, Unauthorized

ENDED = "The credential was revoked or has expired. If this call changed something, that may have been done."
SHORTEST = 0.01
"""Seconds between two looks, at least."""


class Revocation:
    def __init__(self, auth: Auth) -> None:
        self._auth = auth
        self._open: set[_Response] = set()
        self._watching: asyncio.Task[None] | None = None
        self.ended: list[Callable[[Principal], None]] = []
        """Told of each principal whose credential no longer holds."""

    @asynccontextmanager
    async def watched(self, scope: Scope, send: Send, principal: Principal) -> AsyncGenerator[Send, None]:
        """Yield the `send` that an endpoint must use. If the credential no longer names `principal`, the endpoint is
        cancelled: a stream ends normally, and a call that was not answered yet gets 401."""
        response = _Response(self._auth, scope, send, principal)
        self._open.add(response)
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch())
        try:
            with response.lifetime:
                yield response.send
        finally:
            self._open.discard(response)
        if response.refused:
            for told in self.ended:
                told(principal)
            if response.started:
                await send({"type": "http.response.body", "body": b""})
            else:
                await send_error(send, Unauthorized(ENDED))

    def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()

    async def _watch(self) -> None:
        seen = await self._changes()
        while self._open:
            await asyncio.sleep(max(self._auth.fresh, SHORTEST))
            changes = await self._changes()
            for response in list(self._open):
                if not response.is_being_answered and (changes != seen or self._auth.expired(response.principal)):
                    await response.still_allowed()
            seen = changes
        self._watching = None

    async def _changes(self) -> int | None:
        """Return None while the database does not answer. Then calls end by themselves, and streams at their next
        frame or heartbeat."""
        try:
            return await self._auth.changes()
        except KhoError:
            return None


class _Response:
    def __init__(self, auth: Auth, scope: Scope, send: Send, principal: Principal) -> None:
        self.lifetime = anyio.CancelScope()
        self.refused = False
        self.started = False
        self.principal = principal
        self._auth = auth
        self._scope = scope
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
        """True if the credential is still valid. If that cannot be determined (the database does not answer), the
        request ends, too: its client begins another."""
        if not self.refused:
            try:
                self.refused = await self._auth.principal(self._scope) != self.principal
            except KhoError as error:
                log_refusal(self._scope["path"], (self._scope.get("client") or ("",))[0], error.code)
                self.refused = True
        if self.refused:
            self.lifetime.cancel()
        return not self.refused


def _is_stream(message: Message) -> bool:
    return any(name == b"content-type" and value.startswith(b"text/event-stream") for name, value in message["headers"])
