"""Ends an open stream when the credential that opened it is revoked or expires.

A call is over before its key is revoked, but an event stream may last for days. So the credential is checked again
before every frame of a stream (with the two-second cache that calls use), and at every heartbeat (15 s), so that a
silent stream ends as well. The check wraps the ASGI messages of every endpoint that needs a credential. So it also
covers the streams of the MCP SDK, and no stream can be forgotten.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
from starlette.types import Message, Scope, Send

from kho.doors.auth.credentials import Auth
from kho.doors.logs import log_refusal
from kho.kernel import KhoError, Principal

HEARTBEAT = 15.0
"""Seconds between comments on an otherwise silent stream, so that proxies keep it open, and between two checks of its
credential."""


class Revocation:
    def __init__(self, auth: Auth, heartbeat: float = HEARTBEAT) -> None:
        self._auth = auth
        self._heartbeat = heartbeat

    @asynccontextmanager
    async def watched(self, scope: Scope, send: Send, principal: Principal) -> AsyncGenerator[Send, None]:
        """Yield the `send` that an endpoint must use. If the credential no longer names `principal`, the endpoint is
        cancelled and the stream ends normally."""
        response = _Response(self._auth, scope, send, principal, self._heartbeat)
        try:
            with response.lifetime:
                yield response.send
        finally:
            response.stop_watching()
        if response.refused:
            await send({"type": "http.response.body", "body": b""})


class _Response:
    def __init__(self, auth: Auth, scope: Scope, send: Send, principal: Principal, heartbeat: float) -> None:
        self.lifetime = anyio.CancelScope()
        self.refused = False
        self._auth = auth
        self._scope = scope
        self._send = send
        self._principal = principal
        self._heartbeat = heartbeat
        self._watching: asyncio.Task[None] | None = None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start" and _is_stream(message):
            self._watching = asyncio.create_task(self._watch())
        elif self._watching is not None and not await self._allowed():
            return
        await self._send(message)

    def stop_watching(self) -> None:
        if self._watching is not None:
            self._watching.cancel()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._heartbeat)
            if not await self._allowed():
                return

    async def _allowed(self) -> bool:
        """True if the credential is still valid. If that cannot be determined (the database does not answer), the
        stream ends, too: its client opens another."""
        if not self.refused:
            try:
                self.refused = await self._auth.principal(self._scope) != self._principal
            except KhoError as error:
                log_refusal(self._scope["path"], (self._scope.get("client") or ("",))[0], error.code)
                self.refused = True
        if self.refused:
            self.lifetime.cancel()
        return not self.refused


def _is_stream(message: Message) -> bool:
    return any(name == b"content-type" and value.startswith(b"text/event-stream") for name, value in message["headers"])
