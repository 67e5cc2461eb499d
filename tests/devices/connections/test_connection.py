"""A link to a virtual board: calls, their ends, slow and dead wires, and no task left behind."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kho.devices.connections.connection import MAX_UNSENT, MAX_UNTOLD, SILENCE, BoardConnection
from kho.devices.errors import BoardGone, BoardRefused, CallTimedOut, DeviceOffline, DeviceTimeout, QueueFull
from kho.devices.protocol.session import Session
from kho.devices.protocol.session_events import Notified
from kho.simulator.board import Board, HangUp


class FakeBoard:
    """A board on a wire that works at once. The clock is the test's."""

    name = "websocket"

    def __init__(self, board: Board, *, send_timeout: float = 5.0, **rest: Any) -> None:
        self.board = board
        self.now = 1000.0
        self.stuck: asyncio.Event | None = None
        self.broken: BaseException | None = None
        self.sent: list[dict[str, Any]] = []
        self.closed: list[tuple[int, str]] = []
        self.ready = asyncio.Event()
        self.gone = asyncio.Event()
        self.told: list[str] = []
        self.dropping: list[asyncio.Future[None]] = []
        self.on_ready: Callable[[BoardConnection], Any] | None = None
        self.link = BoardConnection(
            device="b",
            wire=self,
            session=Session(session_id="s"),
            on_ready=self._ready,
            on_notified=self._notified,
            on_closed=self._closed,
            clock=lambda: self.now,
            send_timeout=send_timeout,
            **rest,
        )

    async def send(self, text: str) -> None:
        if self.stuck is not None:
            await self.stuck.wait()
        if self.broken is not None:
            raise self.broken
        self.sent.append(json.loads(text))
        for said in self.board.hear(text):
            if isinstance(said, HangUp):
                asyncio.get_running_loop().call_soon(self._drop)
            else:
                await self.link.received(said.text)

    def _drop(self) -> None:
        self.dropping.append(asyncio.ensure_future(self.link.close("The board hung up.")))

    async def close(self, code: int = 1000, reason: str = "") -> None:
        self.closed.append((code, reason))

    async def _ready(self, link: BoardConnection) -> None:
        self.told.append("ready")
        if self.on_ready is not None:
            await self.on_ready(link)
        self.ready.set()

    async def _notified(self, link: BoardConnection, what: Notified) -> None:
        self.told.append(what.method)

    async def _closed(self, link: BoardConnection, reason: str) -> None:
        self.told.append(reason)
        self.gone.set()

    async def connect(self) -> "FakeBoard":
        await self.link.received(self.board.hello())
        await self.ready.wait()
        await self.link.settled()
        return self


@asynccontextmanager
async def a_board(*, connected: bool = True, **rest: Any) -> AsyncGenerator[FakeBoard]:
    """Afterwards the link is closed and no task is left."""
    before = asyncio.all_tasks()
    fake = FakeBoard(Board("b"), **rest)
    if connected:
        await fake.connect()
    yield fake
    await fake.link.close("done")
    await fake.link.settled()
    await asyncio.gather(*fake.dropping)
    assert asyncio.all_tasks() == before


async def begun(link: BoardConnection) -> None:
    """Until the calls wait for the board, and what can be sent is sent."""
    await asyncio.sleep(0)
    await link.settled()


async def test_a_board_connects_is_called_and_leaves() -> None:
    async with a_board() as fake:
        link = fake.link
        assert link.info is not None
        assert link.info.name == "kho-sim"
        assert len(link.tools) == 12
        assert (link.last_sent, link.session.waiting == 0, link.closed) == (1000.0, True, False)
        result = await link.call("self.audio_speaker.set_volume", {"volume": 30})
        assert result.content == [{"type": "text", "text": "true"}]
        assert fake.board.state.volume == 30
        await link.settled()
        assert fake.told == ["ready", "notifications/state_changed"]
        await link.close("enough")
        await link.settled()
        await link.close("again")
        assert fake.told[-1] == "enough"
        assert fake.closed == [(1000, "enough")]
        with pytest.raises(BoardGone):
            await link.call("self.get_device_status", {})


async def test_a_board_that_never_says_hello() -> None:
    async with a_board(connected=False) as fake:
        await fake.link.opened()
        assert fake.link.info is None
        await fake.ready.wait()
        assert fake.sent[0]["payload"]["method"] == "initialize"


async def test_whoever_is_told_that_a_board_is_ready_may_call_it() -> None:
    async with a_board(connected=False) as fake:
        answers: list[Any] = []

        async def greet(link: BoardConnection) -> None:
            answers.append(await link.call("self.screen.set_theme", {"theme": "dark"}))

        fake.on_ready = greet
        await fake.connect()
        assert answers[0].content[0]["text"] == "true"
        fake.on_ready = None
        await fake.link.refresh()
        await fake.link.settled()
        assert fake.told.count("ready") == 2


async def test_a_board_that_becomes_ready_again_and_again_is_announced_once() -> None:
    async with a_board(connected=False) as fake:
        first, busy = asyncio.Event(), asyncio.Event()

        async def linger(link: BoardConnection) -> None:
            first.set()
            await busy.wait()

        fake.on_ready = linger
        await fake.link.received(fake.board.hello())
        await first.wait()
        for _ in range(3):
            await fake.link.received('{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}')
            await fake.link.call("self.get_device_status", {})  # waits until the tools are listed
        busy.set()
        await fake.link.settled()

        assert fake.told.count("ready") == 2


async def test_calls_are_answered_in_their_order() -> None:
    async with a_board() as fake:
        calls = [fake.link.call("self.audio_speaker.set_volume", {"volume": number}) for number in range(20)]
        await asyncio.gather(*calls)
        volumes = [
            frame["payload"]["params"]["arguments"]["volume"]
            for frame in fake.sent
            if frame.get("payload", {}).get("method") == "tools/call"
        ]
        assert volumes == list(range(20))


async def test_what_the_board_refuses() -> None:
    async with a_board() as fake:
        with pytest.raises(BoardRefused, match='Unknown tool: no "such" tool'):
            await fake.link.call('no "such" tool', {})
        with pytest.raises(BoardRefused, match="Value exceeds maximum allowed: 100"):
            await fake.link.call("self.audio_speaker.set_volume", {"volume": 500})


async def test_a_call_that_is_not_answered_times_out() -> None:
    async with a_board() as fake:
        fake.board.fail("silence")
        call = asyncio.ensure_future(fake.link.call("self.get_device_status", {}, timeout=20))
        behind = asyncio.ensure_future(fake.link.call("self.get_device_status", {}, timeout=10))
        await begun(fake.link)
        assert fake.link.session.waiting > 0
        fake.now += 10
        fake.link.tick()
        with pytest.raises(CallTimedOut) as caught:
            await behind
        assert caught.value.details == {"sent": False}
        fake.now += 10
        fake.link.tick()
        with pytest.raises(DeviceTimeout) as caught:
            await call
        assert caught.value.details == {"sent": True}
        assert caught.value.status == 504
        assert fake.link.session.waiting == 0
        await fake.link.call("self.get_device_status", {})


async def test_the_timer_goes_off_by_itself() -> None:
    async with a_board() as fake:
        fake.board.fail("silence")
        call = asyncio.ensure_future(fake.link.call("self.get_device_status", {}, timeout=0))
        with pytest.raises(CallTimedOut):
            await call


async def test_a_full_queue_says_so() -> None:
    async with a_board(max_calls=2) as fake:
        fake.board.fail("silence")
        calls = [asyncio.ensure_future(fake.link.call("self.get_device_status", {})) for _ in range(2)]
        await begun(fake.link)
        with pytest.raises(QueueFull) as caught:
            await fake.link.call("self.get_device_status", {})
        assert caught.value.status == 429
        await fake.link.close("done")
        assert all(isinstance(one, BoardGone) for one in await asyncio.gather(*calls, return_exceptions=True))


async def test_a_board_that_drops_fails_its_calls_at_once() -> None:
    async with a_board() as fake:
        fake.board.fail("drop")
        calls = [asyncio.ensure_future(fake.link.call("self.get_device_status", {})) for _ in range(3)]
        found = await asyncio.gather(*calls, return_exceptions=True)
        assert [one.details["sent"] for one in found if isinstance(one, BoardGone)] == [True, False, False]
        assert all(isinstance(one, DeviceOffline) for one in found)
        await fake.gone.wait()
        await fake.link.settled()


async def test_a_restart_answers_and_then_ends() -> None:
    async with a_board() as fake:
        assert (await fake.link.call("self.reboot", {})).content[0]["text"] == "true"
        await fake.gone.wait()
        await fake.link.settled()
        assert fake.told[-1] == "The board hung up."


async def test_a_caller_that_gives_up_takes_its_call_along() -> None:
    async with a_board() as fake:
        fake.board.fail("silence")
        running = asyncio.ensure_future(fake.link.call("self.get_device_status", {}))
        waiting = asyncio.ensure_future(fake.link.call("self.audio_speaker.set_volume", {"volume": 1}))
        await begun(fake.link)
        waiting.cancel()
        running.cancel()
        await asyncio.wait({running, waiting})
        fake.now += 30
        fake.link.tick()
        await fake.link.call("self.get_device_status", {})
        assert fake.board.state.volume == 70


async def test_a_board_that_does_not_read_is_let_go() -> None:
    async with a_board(send_timeout=0.01) as fake:
        fake.stuck = asyncio.Event()
        with pytest.raises(BoardGone):
            await fake.link.call("self.get_device_status", {})
        await fake.link.settled()
        assert fake.closed == [(1008, "It does not read its messages.")]
        assert fake.told[-1] == "It does not read its messages."


async def test_what_waits_for_a_slow_board_is_bounded() -> None:
    async with a_board() as fake:
        fake.stuck = asyncio.Event()
        for _ in range(MAX_UNSENT + 1):
            await fake.link.received('{"type":"ping"}')
        assert fake.link.closed
        fake.stuck.set()
        await fake.link.settled()
        assert fake.closed == [(1008, "It does not read its messages.")]


@pytest.mark.parametrize("problem", [ConnectionResetError("gone"), RuntimeError("a bug of the transport")])
async def test_a_wire_that_breaks_ends_the_link(problem: Exception) -> None:
    async with a_board() as fake:
        fake.broken = problem
        with pytest.raises(BoardGone):
            await fake.link.call("self.get_device_status", {})
        await fake.link.settled()
        assert fake.gone.is_set()


async def test_a_hub_that_fails_on_one_thing_is_told_the_next() -> None:
    async with a_board(connected=False) as fake:

        async def fail(link: BoardConnection) -> None:
            raise RuntimeError("a bug of the hub")

        fake.on_ready = fail
        await fake.link.received(fake.board.hello())
        await fake.link.settled()
        await fake.link.received('{"jsonrpc":"2.0","method":"notifications/x"}')
        await fake.link.settled()
        assert fake.told == ["ready", "notifications/x"]


async def test_a_flood_of_notifications_is_bounded() -> None:
    async with a_board() as fake:
        for _ in range(MAX_UNTOLD + 10):
            await fake.link.received('{"jsonrpc":"2.0","method":"notifications/x"}')
        await fake.link.settled()
        assert fake.told.count("notifications/x") == MAX_UNTOLD
        assert fake.link.session.troubles["notification dropped"] == 10


async def test_a_silent_channel_is_kept_open() -> None:
    async with a_board() as fake:
        before = len(fake.sent)
        fake.now += SILENCE - 1
        fake.link.tick()
        await fake.link.settled()
        assert len(fake.sent) == before
        fake.now += 1
        fake.link.tick()
        await fake.link.settled()
        assert [frame["payload"]["method"] for frame in fake.sent[before:]] == ["notifications/ping"]


async def test_over_mqtt_the_broker_keeps_it_open() -> None:
    async with a_board(connected=False) as fake:
        fake.name = "mqtt"
        await fake.connect()
        before = len(fake.sent)
        fake.now += 500
        fake.link.tick()
        await fake.link.settled()
        assert len(fake.sent) == before
