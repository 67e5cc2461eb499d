"""Virtual boards on real connections: run by `kho devices simulate`, and used by tests and measurements.

Each does what a board does: it asks at `/xiaozhi/ota/` for its settings, shows a code until it is approved, connects
over WebSocket or MQTT as configured, serves its tools, and reconnects after a disconnect. Each board is one task.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import InitVar, field
from typing import Any, Literal, cast
from uuid import NAMESPACE_URL, uuid5

import httpx2
import orjson
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from kho.lib import mqtt_client
from kho.lib.dataclass import dataclass
from kho.lib.mqtt_client import Address
from kho.lib.open_files import make_room
from kho.simulator import endpoints
from kho.simulator.board import Board, HangUp, Payload, Say, parse
from kho.simulator.board_tools import Upload
from kho.simulator.endpoints import Away, Replaced
from kho.simulator.faults import Fault

FIRST_PAUSE = 0.5
LAST_PAUSE = 30.0
STEADY = 2 * LAST_PAUSE
"""Seconds after which a connection that another board of the same id may have ended counts as having worked. Otherwise
the backoff grows, so that two boards that replace each other take turns more and more slowly."""
FAREWELL = 2.0
"""Timeout in seconds for saying goodbye."""
ASK_AGAIN = 3.0
"""Seconds between two polls for approval."""
AT_ONCE = 32
"""Maximum boards that connect at the same time; the others wait."""
SOFTWARE = "kho-sim/2.4.2"

What = Literal["connected", "disconnected", "waiting", "called", "refused"]
Send = Callable[[str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class BoardEvent:
    device: str
    what: What
    text: str
    """Message for people."""
    more: dict[str, Any]


Tell = Callable[[BoardEvent], None]


class _Restart(Exception):
    """The board closed the connection itself."""


@dataclass(slots=True, eq=False, repr=False)
class Simulated:
    """A board that runs as long as `run` does. `mqtt` is a broker to use instead of the hub's settings. With
    `subscribes`, it subscribes to its topic, as old firmware did."""

    board: Board
    hub: InitVar[str]
    http: httpx2.AsyncClient
    mqtt: Address | None = None
    subscribes: bool = False
    tell: Tell = lambda happening: None
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))
    first_pause: float = FIRST_PAUSE
    ask_again: float = ASK_AGAIN
    connected: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while hub and board communicate: the hub has said hello, or has sent a request."""
    faults: deque[Fault] = field(default_factory=deque[Fault])
    """Faults for the answers to the next calls, one each."""
    pause: float = field(init=False)
    """Seconds until it reconnects after a disconnect."""
    client: str = field(init=False)
    base: str = field(init=False)
    socket: str = field(init=False)
    send: Send | None = None
    session: Any = None
    """Session id given by the hub."""

    def __post_init__(self, hub: str) -> None:
        self.client = str(uuid5(NAMESPACE_URL, self.board.id))
        self.base, self.socket, self.pause = endpoints.base(hub), endpoints.socket(hub), self.first_pause

    async def run(self) -> None:
        """Connect and reconnect until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                await self._live()
            except (_Restart, Away) as end:
                worked = not isinstance(end, Replaced) or loop.time() - began >= STEADY
                if isinstance(end, _Restart) or (self.connected.is_set() and worked):
                    self.pause = self.first_pause
                self._say("disconnected", str(end) or "restarts")
            finally:
                self.connected.clear()
                self.send = None
            await asyncio.sleep(self.pause)
            self.pause = min(LAST_PAUSE, self.pause * 2)

    async def say(self, *payloads: Payload) -> None:
        """Send unsolicited messages, such as notifications. Raises Away."""
        if self.send is None:
            raise Away("is not connected")
        for said in self.board.say(list(payloads)):
            await self._do(said, self.send)

    async def become(self, mode: str) -> None:
        """Change the mode (listening, speaking, idle) and notify the hub."""
        await self.say(*self.board.become(mode))

    # -- lifecycle ------------------------------------------------------------------------------------------------

    async def _live(self) -> None:
        async with self.turns:
            settings = await self.bootstrap()
        mqtt: Any = settings.get("mqtt")
        if isinstance(mqtt, dict) or self.mqtt is not None:
            await self._over_mqtt(cast(dict[str, Any], mqtt) if isinstance(mqtt, dict) else {})
        else:
            await self._over_websocket(cast(dict[str, Any], settings.get("websocket") or {}))

    async def bootstrap(self) -> dict[str, Any]:
        """Return the hub's settings for the board, once it is approved. Raises Away."""
        shown = ""
        while True:
            settings = await self._post(endpoints.OTA_PATH)
            match settings.get("activation"):
                case {"code": str() as code}:
                    if code != shown:
                        self._say("waiting", f"shows the code {code}: kho devices approve {code}", code=code)
                    shown = code
                    await asyncio.sleep(self.ask_again)
                case _:
                    return settings

    async def _post(self, path: str) -> dict[str, Any]:
        about = {
            "version": 2,
            "mac_address": self.board.id,
            "uuid": self.client,
            "chip_model_name": "esp32s3",
            "application": {"name": "xiaozhi", "version": self.board.version},
            "board": {"type": "kho-sim", "name": self.board.name},
        }
        headers = {"device-id": self.board.id, "client-id": self.client, "user-agent": SOFTWARE}
        try:
            answer = await self.http.post(self.base + path, json=about, headers=headers)
            found = orjson.loads(answer.content)
        except httpx2.HTTPError as problem:
            raise Away(f"finds no hub at {self.base}: {problem}") from None
        except orjson.JSONDecodeError:
            raise Away(f"finds something at {self.base} that is no hub") from None
        if answer.status_code != 200 or not isinstance(found, dict):
            raise Away(f"is refused: {endpoints.reason(found)}")
        return cast(dict[str, Any], found)

    async def _over_websocket(self, told: dict[str, Any]) -> None:
        headers = {"device-id": self.board.id, "client-id": self.client, "protocol-version": "1"}
        if told.get("token"):
            headers["authorization"] = f"Bearer {told['token']}"
        dialling = connect(
            self.socket or told.get("url", ""),
            additional_headers=headers,
            user_agent_header=SOFTWARE,
            proxy=None,
            compression=None,
            ping_interval=None,
            max_queue=4,
            close_timeout=2,
        )
        try:
            async with self.turns:
                socket = await dialling
        except (OSError, InvalidHandshake, TimeoutError) as problem:
            raise Away(f"cannot connect: {problem}") from None
        try:
            await socket.send(self.board.hello())
            await self._serve(cast(AsyncIterator[str | bytes], socket), socket.send, "websocket")
        except ConnectionClosed as end:
            raise endpoints.cut_off(endpoints.told(end)) from None
        finally:
            await socket.close()
        raise endpoints.cut_off(socket.close_reason or "without a word")

    async def _over_mqtt(self, told: dict[str, Any]) -> None:
        where = self.mqtt or endpoints.broker(str(told.get("endpoint", "")))
        if told.get("username"):
            where = Address(where.host, where.port, str(told["username"]), str(told["password"]), where.tls)
        up, down, identifier = endpoints.topics(self.board.id, self.client)
        up = str(told.get("publish_topic") or up)
        topics = [str(told.get("subscribe_topic") or down)] if self.subscribes or self.mqtt else []
        identifier = str(told.get("client_id") or identifier)
        try:
            async with mqtt_client.connected(where, identifier, topics, (up, self.board.goodbye())) as client:

                async def send(text: str) -> None:
                    await client.publish(up, text)

                try:
                    await send(self.board.hello("udp"))
                    await self._serve(_contents(client), send, "mqtt")
                except asyncio.CancelledError:
                    with suppress(OSError):  # includes TimeoutError
                        async with asyncio.timeout(FAREWELL):
                            await send(self.board.goodbye())
                    raise
        except mqtt_client.Disconnected as problem:
            if self.connected.is_set():
                raise Replaced(f"was cut off by the broker at {where}: {problem}{endpoints.PERHAPS}") from None
            raise Away(f"has no connection to the broker at {where}: {problem}") from None

    # -- incoming frames ----------------------------------------------------------------------------------------------

    async def _serve(self, heard: AsyncIterator[str | bytes], send: Send, transport: str) -> None:
        self.send, self.session = send, None
        async for text in heard:
            if not self.connected.is_set():
                self.connected.set()
                self._say("connected", f"is connected over {transport}", transport=transport)
            if isinstance(text, str):
                self._note(text)
                for said in self.board.hear(text):
                    await self._do(said, send)
                while self.board.uploads:
                    await self._upload(self.board.uploads.popleft(), send)

    async def _do(self, said: Say | HangUp, send: Send) -> None:
        if isinstance(said, HangUp):
            raise _Restart
        if said.after:
            await asyncio.sleep(said.after)
        await send(said.text)

    async def _upload(self, upload: Upload, send: Send) -> None:
        """Post a photo to the hub as a form; its answer becomes the tool's result."""
        named = {"device-id": self.board.id, "client-id": self.client}
        if upload.token:
            named["authorization"] = f"Bearer {upload.token}"
        form = {} if upload.question is None else {"question": upload.question}
        try:
            answer = await self.http.post(
                upload.url, data=form, files={upload.field: ("camera.jpg", upload.image, "image/png")}, headers=named
            )
            status, body = answer.status_code, answer.text
        except httpx2.HTTPError:
            status, body = 0, ""
        for said in self.board.say(self.board.uploaded(upload, status, body)):
            await self._do(said, send)

    def _note(self, text: str) -> None:
        frame = parse(text)
        if frame.get("type") in ("hello", "mcp"):
            self.session = frame.get("session_id")
        match frame:
            case {"payload": {"method": "tools/call", "params": {"name": str() as tool, **rest}}}:
                arguments: dict[str, Any] = cast(dict[str, Any], rest).get("arguments") or {}
                words = " ".join(f"{name}={value}" for name, value in arguments.items())
                asked, more = f"is asked for {tool} {words}".rstrip(), {"tool": tool, "arguments": arguments}
                if self.faults:
                    fault = self.faults.popleft()
                    self.board.fail(fault)
                    self._say("called", f"{asked}, and spoils the answer ({fault})", **more, fault=fault)
                else:
                    self._say("called", asked, **more)
            case {"type": "alert", "message": str() as message}:
                self._say("refused", f"is told: {message}", message=message)
            case {"type": "goodbye", **rest} if rest.get("session_id") in (None, self.session):
                # A goodbye of an earlier session is ignored. After one, virtual boards ask for their settings again, as
                # they do whenever a connection ends, so that they show a code if the hub has forgotten them.
                raise endpoints.cut_off(str(rest.get("reason") or "goodbye"))
            case _:
                pass

    def _say(self, what: What, text: str, **more: Any) -> None:
        self.tell(BoardEvent(self.board.id, what, text, more))


def boards(count: int, first: int = 1, *, online: bool = True) -> list[Board]:
    """Create boards with locally administered MACs, each a little different."""
    return [Board(mac(number), seed=number, online=online) for number in range(first, first + count)]


def mac(number: int) -> str:
    return ":".join(f"{byte:02x}" for byte in (0x02, 0x4B, *number.to_bytes(4, "big")))


@asynccontextmanager
async def http() -> AsyncGenerator[httpx2.AsyncClient, None]:
    """HTTP client for requests to the hub, shared by all boards."""
    limits = httpx2.Limits(max_connections=AT_ONCE, max_keepalive_connections=AT_ONCE)
    async with httpx2.AsyncClient(timeout=30, trust_env=False, limits=limits) as client:
        yield client


async def simulate(
    count: int,
    hub: str,
    *,
    first: int = 1,
    mqtt: str = "",
    faults: Sequence[Fault] = (),
    tell: Tell = lambda happening: None,
) -> None:
    """Run `count` boards until cancelled. The answers to the first calls of each have `faults`."""
    where = endpoints.broker(mqtt) if mqtt else None
    make_room(4 * count + 256)  # over MQTT a board needs three
    turns = asyncio.Semaphore(AT_ONCE)
    async with http() as client, asyncio.TaskGroup() as group:
        for board in boards(count, first):
            one = Simulated(board, hub, client, mqtt=where, tell=tell, turns=turns)
            one.faults.extend(faults)
            group.create_task(one.run())


async def _contents(client: mqtt_client.Client) -> AsyncIterator[str | bytes]:
    async for _, content in client.messages():
        yield content.decode("utf-8", "replace")
