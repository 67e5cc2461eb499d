"""How fast a board's frames are read: whoever sends too many waits, loses none, and disturbs nobody."""

import asyncio
from dataclasses import dataclass, field

from tests.devices.factories import HubWorker
from tests.devices.http_server import web
from tests.timeouts import PATIENCE

from kho.devices.connections.frame_pace import BURST, FramePace
from kho.simulator.board import Board


@dataclass
class Time:
    now: float = 100.0
    slept: list[float] = field(default_factory=list[float])

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


async def test_a_burst_is_read_at_once_and_then_one_by_one() -> None:
    time = Time()
    pace = FramePace(10, time, time.sleep)
    for _ in range(10 * BURST):
        await pace.turn()
    assert time.slept == []
    for _ in range(30):
        await pace.turn()
    assert round(sum(time.slept), 6) == 3.0
    time.now += 1.0
    before = len(time.slept)
    for _ in range(11):
        await pace.turn()
    assert len(time.slept) == before + 1


async def test_without_a_limit_nothing_waits() -> None:
    time = Time()
    pace = FramePace(0, time, time.sleep)
    for _ in range(10_000):
        await pace.turn()
    assert time.slept == []


async def test_a_flooding_board_waits_and_its_neighbour_does_not(worker: HubWorker) -> None:
    waiting, go_on = asyncio.Event(), asyncio.Event()

    async def pause(seconds: float) -> None:
        waiting.set()
        await go_on.wait()

    worker.live.frames, worker.live.pause = 4, pause
    notice = '{"type":"mcp","payload":{"jsonrpc":"2.0","method":"notifications/motion","params":{"n":%d}}}'
    async with (
        asyncio.timeout(PATIENCE),
        web(worker) as hub,
        hub.dial(device_id="aa:01") as bad,
        hub.dial(device_id="aa:02") as good,
    ):
        await bad.send(Board("aa:01").hello())
        for number in range(100):
            await bad.send(notice % number)
        await waiting.wait()
        link = worker.live.find(worker.tenant, "aa:01")
        assert link is not None
        assert link.session.troubles["notification dropped"] == 0
        read = await said(worker)
        assert len(read) <= 4 * BURST
        await good.send(Board("aa:02").hello())
        assert "hello" in str(await good.recv())
        go_on.set()
        while len(await said(worker)) < 100:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert [one["params"]["n"] for one in await said(worker)] == list(range(100))


async def test_before_its_hello_a_board_is_read_no_faster(worker: HubWorker) -> None:
    waiting, go_on = asyncio.Event(), asyncio.Event()

    async def pause(seconds: float) -> None:
        waiting.set()
        await go_on.wait()

    worker.live.frames, worker.live.pause = 4, pause
    async with asyncio.timeout(PATIENCE), web(worker) as hub, hub.dial(device_id="aa:01") as bad:
        for _ in range(4 * BURST + 1):
            await bad.send("nonsense")
        await waiting.wait()
        go_on.set()
        await bad.send(Board("aa:01").hello())
        assert "hello" in str(await bad.recv())


async def said(worker: HubWorker) -> list[dict[str, dict[str, int]]]:
    listed = await worker.ask("device_notifications", {"device": "aa:01", "limit": 200})
    return sorted(listed["notifications"], key=lambda one: one["params"]["n"])
