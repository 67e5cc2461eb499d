"""Virtual boards on real wires: what `kho devices simulate` runs, and what tests and measurements connect with.

Each does what a board does: it asks at `/xiaozhi/ota/` for its settings, shows a code until it is approved, connects
over WebSocket or MQTT as it is told, serves its tools, and comes back when it was cut off. A board is one task.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal, cast
from uuid import NAMESPACE_URL, uuid5

import httpx2
import orjson
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from kho.lib import mqtt_client
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
"""Seconds after which a connection that another one of the same id might have ended counts as one that had worked: two
boards that push each other out take turns, slower each time."""
FAREWELL = 2.0
"""Seconds to say goodbye in."""
ASK_AGAIN = 3.0
"""Seconds between two questions whether the board is approved by now."""
AT_ONCE = 32
"""Boards that connect at the same time; the others wait for their turn."""
SOFTWARE = "kho-sim/2.4.2"

What = Literal["connected", "disconnected", "waiting", "called", "refused"]
Send = Callable[[str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Happening:
    device: str
    what: What
    text: str
    """In words."""
    more: dict[str, Any]


Tell = Callable[[Happening], None]


class _Restart(Exception):
    """The board ended the connection itself."""


class Simulated:
    """A board that lives as long as `run` does. `mqtt` is a broker to use instead of what the hub says; a board that
    subscribes does so as old firmware did."""

    def __init__(
        self,
        board: Board,
        hub: str,
        http: httpx2.AsyncClient,
        *,
        mqtt: Address | None = None,
        subscribes: bool = False,
        tell: Tell = lambda happening: None,
        turns: asyncio.Semaphore | None = None,
        first_pause: float = FIRST_PAUSE,
    ) -> None:
        self.board = board
        self.client = str(uuid5(NAMESPACE_URL, board.id))
        self.connected = asyncio.Event()
        """Set while the hub and the board talk: the hub has said hello, or has asked something."""
        self.faults: deque[Fault] = deque()
        """What the answers to the next calls suffer from, one each."""
        self._hub = endpoints.base(hub)
        self._socket = endpoints.socket(hub)
        self._http = http
        self._mqtt = mqtt
        self._subscribes = subscribes or mqtt is not None
        self._tell = tell
        self._turns = turns or asyncio.Semaphore(AT_ONCE)
        self._first_pause = first_pause
        self.pause = first_pause
        """Seconds until it connects again, should it be cut off."""
        self._send: Send | None = None
        self._session: Any = None
        """What the hub calls the session."""

    async def run(self) -> None:
        """Until it is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                await self._live()
            except (_Restart, Away) as end:
                worked = not isinstance(end, Replaced) or loop.time() - began >= STEADY
                if isinstance(end, _Restart) or (self.connected.is_set() and worked):
                    self.pause = self._first_pause
                self._say("disconnected", str(end) or "restarts")
            finally:
                self.connected.clear()
                self._send = None
            await asyncio.sleep(self.pause)
            self.pause = min(LAST_PAUSE, self.pause * 2)

    async def say(self, *payloads: Payload) -> None:
        """Sends messages of the board's own accord, such as notifications. Raises Away."""
        if self._send is None:
            raise Away("is not connected")
        for said in self.board.say(list(payloads)):
            await self._do(said, self._send)

    async def become(self, mode: str) -> None:
        """The board listens, speaks or idles from now on, and says so."""
        await self.say(*self.board.become(mode))

    # -- its life -------------------------------------------------------------------------------------------------

    async def _live(self) -> None:
        async with self._turns:
            settings = await self.bootstrap()
        mqtt: Any = settings.get("mqtt")
        if isinstance(mqtt, dict) or self._mqtt is not None:
            await self._over_mqtt(cast(dict[str, Any], mqtt) if isinstance(mqtt, dict) else {})
        else:
            await self._over_websocket(cast(dict[str, Any], settings.get("websocket") or {}))

    async def bootstrap(self) -> dict[str, Any]:
        """What the hub tells the board, once it is approved. Raises Away."""
        shown = ""
        while True:
            settings = await self._post(endpoints.OTA_PATH)
            match settings.get("activation"):
                case {"code": str() as code}:
                    if code != shown:
                        self._say("waiting", f"shows the code {code}: kho devices approve {code}", code=code)
                    shown = code
                    await asyncio.sleep(ASK_AGAIN)
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
            answer = await self._http.post(self._hub + path, json=about, headers=headers)
            found = orjson.loads(answer.content)
        except httpx2.HTTPError as problem:
            raise Away(f"finds no hub at {self._hub}: {problem}") from None
        except orjson.JSONDecodeError:
            raise Away(f"finds something at {self._hub} that is no hub") from None
        if answer.status_code != 200 or not isinstance(found, dict):
            raise Away(f"is refused: {endpoints.reason(found)}")
        return cast(dict[str, Any], found)

    async def _over_websocket(self, told: dict[str, Any]) -> None:
        headers = {"device-id": self.board.id, "client-id": self.client, "protocol-version": "1"}
        if told.get("token"):
            headers["authorization"] = f"Bearer {told['token']}"
        dialling = connect(
            self._socket or told.get("url", ""),
            additional_headers=headers,
            user_agent_header=SOFTWARE,
            proxy=None,
            compression=None,
            ping_interval=None,
            max_queue=4,
            close_timeout=2,
        )
        try:
            async with self._turns:
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
        where = self._mqtt or endpoints.broker(str(told.get("endpoint", "")))
        if told.get("username"):
            where = Address(where.host, where.port, str(told["username"]), str(told["password"]), where.tls)
        up, down, identifier = endpoints.topics(self.board.id, self.client)
        up = str(told.get("publish_topic") or up)
        topics = [str(told.get("subscribe_topic") or down)] if self._subscribes else []
        identifier = str(told.get("client_id") or identifier)
        try:
            async with mqtt_client.connected(where, identifier, topics, (up, self.board.goodbye())) as client:

                async def send(text: str) -> None:
                    await client.publish(up, text)

                try:
                    await send(self.board.hello("udp"))
                    await self._serve(_contents(client), send, "mqtt")
                except asyncio.CancelledError:
                    with suppress(OSError):  # a TimeoutError among them
                        async with asyncio.timeout(FAREWELL):
                            await send(self.board.goodbye())
                    raise
        except mqtt_client.Disconnected as problem:
            if self.connected.is_set():
                raise Replaced(f"was cut off by the broker at {where}: {problem}{endpoints.PERHAPS}") from None
            raise Away(f"has no connection to the broker at {where}: {problem}") from None

    # -- what it hears ------------------------------------------------------------------------------------------------

    async def _serve(self, heard: AsyncIterator[str | bytes], send: Send, transport: str) -> None:
        self._send, self._session = send, None
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
        """A photo goes to the hub as a form; what it answers is what the tool gives."""
        named = {"device-id": self.board.id, "client-id": self.client}
        if upload.token:
            named["authorization"] = f"Bearer {upload.token}"
        form = {} if upload.question is None else {"question": upload.question}
        try:
            answer = await self._http.post(
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
            self._session = frame.get("session_id")
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
            case {"type": "goodbye", **rest} if rest.get("session_id") in (None, self._session):
                # Of an earlier session, it is of no concern. Virtual boards then ask for their settings again, as they
                # do whenever a connection ends: so they show a code once they are forgotten.
                raise endpoints.cut_off(str(rest.get("reason") or "goodbye"))
            case _:
                pass

    def _say(self, what: What, text: str, **more: Any) -> None:
        self._tell(Happening(self.board.id, what, text, more))


def boards(count: int, first: int = 1, *, online: bool = True) -> list[Board]:
    """Boards with MACs that no maker uses, each a little different."""
    return [Board(mac(number), seed=number, online=online) for number in range(first, first + count)]


def mac(number: int) -> str:
    return ":".join(f"{byte:02x}" for byte in (0x02, 0x4B, *number.to_bytes(4, "big")))


@asynccontextmanager
async def http() -> AsyncGenerator[httpx2.AsyncClient, None]:
    """What boards ask the hub with. All of them share one."""
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
    """`count` boards, until this is cancelled. The answers to the first calls of each suffer from `faults`."""
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
