"""A slice that serves pages, a stream and a WebSocket."""

import asyncio
import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

from kho.kernel.access import OPEN
from kho.kernel.call import Call
from kho.kernel.capability import Capability
from kho.kernel.errors import Conflict, KhoError, Unauthorized
from kho.kernel.web import Channel, Page, Socket, Stream, WebReply, WebRequest


@dataclass
class Shop:
    """A slice that serves one of each kind, and remembers what went on."""

    happenings: asyncio.Queue[tuple[str, Any]] = field(default_factory=asyncio.Queue[tuple[str, Any]])
    listening: int = 0
    seen: list[WebRequest] = field(default_factory=list[WebRequest])
    channels: list[Channel] = field(default_factory=list[Channel])
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def mirror(self, request: WebRequest) -> WebReply:
        self.seen.append(request)
        if request.query.get("fail"):
            raise Conflict("The shop is shut.")
        sub = request.principal.sub if request.principal else None
        return WebReply(200, json.dumps({"size": len(request.body), "sub": sub}).encode(), headers={"X-Shop": "open"})

    async def events(self, call: Call, request: WebRequest) -> AsyncGenerator[tuple[str, Any], None]:
        self.listening += 1
        try:
            while True:
                name, value = await self.happenings.get()
                if name == "end":
                    return
                yield name, {"tenant": call.tenant, "value": value}
        finally:
            self.listening -= 1
            self.ended.set()

    async def echo(self, channel: Channel) -> None:
        if channel.query.get("word") == "wrong":
            await channel.refuse(Unauthorized("Not with that word."))
            return
        self.channels.append(channel)
        await channel.accept()
        try:
            while (message := await channel.receive()) is not None:
                if message == "leave":
                    await channel.close(4000, "as you like")
                else:
                    await channel.send(message if isinstance(message, str) else f"{len(message)} bytes")
        finally:
            self.ended.set()

    @property
    def capability(self) -> Capability:
        def tells(error: KhoError) -> WebReply:
            return WebReply(error.status, json.dumps({"ok": False, "why": error.code}).encode())

        return Capability(
            "shop",
            "shop-server",
            (),
            web=(
                Page("/shop/open/", self.mirror, ("GET", "POST"), "Open to all.", scope=OPEN, max_body=1000),
                Page("/shop/closed", self.mirror, ("POST",), "For keys.", scope="shop:write"),
                Page("/shop/upload", self.mirror, ("POST",), scope=OPEN, upload=True, max_body=100_000, refused=tells),
                Stream("/shop/events", self.events, "News.", scope="shop:read"),
                Socket("/shop/ws/", self.echo, "Echoes.", max_message=2000, scope=OPEN),
            ),
        )
