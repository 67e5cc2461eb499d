"""uvicorn's WebSocket protocol with timeouts, a smaller message limit and no compression.

uvicorn accepts messages of 16 MB, compresses for any client that asks (tens of kilobytes of memory per connection, for
boards that never ask), and waits for a clean close, which lasts for ever when the other side does not read the
remaining data.
"""

from asyncio import Task, TimerHandle
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.server import ServerProtocol

from kho.kernel.web import MAX_MESSAGE

PING_INTERVAL = 30.0
PING_TIMEOUT = 60.0
"""Boards on a mobile network answer late."""
LINGER = 5.0
"""Seconds in which the other side may read the remaining data and send its close frame."""
GOING_AWAY = 1001


class GuardedSocket(WebSocketsSansIOProtocol):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn.parser.close()  # breaks a reference cycle that only the garbage collector would free
        self.conn = ServerProtocol(max_size=min(self.config.ws_max_size, MAX_MESSAGE), logger=self.logger)
        self.ping_interval = PING_INTERVAL
        self.ping_timeout = PING_TIMEOUT
        self._end: TimerHandle | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        if self._end is not None:
            self._end.cancel()
        super().connection_lost(exc)
        self.conn.parser.close()

    def shutdown(self) -> None:
        """As uvicorn's, with the close code that every client knows for a server that goes away."""
        if not self.handshake_complete or self.close_sent:
            super().shutdown()
            return
        self.stop_keepalive()
        self.queue.put_nowait({"type": "websocket.disconnect", "code": GOING_AWAY})
        self.conn.send_close(GOING_AWAY)
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.transport.close()
        self._abort_soon()

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self.transport.abort()  # the client answers no ping, so it will not read our close frame either

    async def send(self, message: Any) -> None:
        await super().send(message)
        # A response instead of a handshake completes it too; uvicorn would log every refusal as our error.
        if message["type"] == "websocket.http.response.body" and not message.get("more_body"):
            self.handshake_complete = True

    def on_task_complete(self, task: "Task[None]") -> None:
        super().on_task_complete(task)
        self._abort_soon()

    def _abort_soon(self) -> None:
        if self._end is None and not self.disconnected:
            self._end = self.loop.call_later(LINGER, self.transport.abort)
