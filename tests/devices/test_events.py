"""What happens to boards, told to those who listen, and only to those whose boards they are."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

from tests.devices.factories import PATIENCE
from tests.devices.http_server import Dialled, Json, MakeWorker, Served, forget_keys, new_key, ready, web

from kho.devices.events import Event, Events
from kho.lib.clock import SECOND
from kho.simulator.board import Board

AT = 1_800_000_000 * SECOND


def event(device: str, number: int = 0) -> Event:
    return Event("notification", device, AT, {"number": number})


async def test_a_listener_hears_its_tenant_and_its_board_in_order() -> None:
    events = Events()
    with events.listen("acme") as all_of_them, events.listen("acme", "one") as one, events.listen("other") as other:
        for number, device in enumerate(["one", "two", "one"]):
            events.publish("acme", event(device, number))
        events.publish("other", event("one", 9))
        assert [(await all_of_them.next()).data["number"] for _ in range(3)] == [0, 1, 2]  # type: ignore[union-attr] # none fell behind
        assert [(await one.next()).data["number"] for _ in range(2)] == [0, 2]  # type: ignore[union-attr] # none fell behind
        assert (await other.next()) == event("one", 9)
        assert sum(map(len, events.listeners.values())) == 3
    assert events.listeners == {}
    events.publish("acme", event("one"))


async def test_who_falls_behind_hears_what_waited_and_then_that_it_was_let_go() -> None:
    events = Events(waiting=3)
    with events.listen("acme") as slow, events.listen("acme") as quick:
        for number in range(3):
            events.publish("acme", event("one", number))
        assert [await quick.next() for _ in range(3)] == [event("one", number) for number in range(3)]
        for number in range(3, 6):
            events.publish("acme", event("one", number))
        assert [await quick.next() for _ in range(3)] == [event("one", number) for number in range(3, 6)]
        assert [await slow.next() for _ in range(4)] == [*(event("one", number) for number in range(3)), None]
        assert (slow.missed, quick.missed) == (3, 0)


def test_an_event_is_told_with_its_time() -> None:
    assert event("one", 7).as_dict() == {"device": "one", "at": "2027-01-15T08:00:00Z", "number": 7}


@asynccontextmanager
async def hearing(hub: Served, path: str, **headers: str) -> AsyncGenerator[AsyncIterator[tuple[str, Json]], None]:
    async with asyncio.timeout(PATIENCE), hub.http.stream("GET", path, headers=headers) as response:
        assert response.status_code == 200
        lines = response.aiter_lines()
        assert await anext(lines) == ": listening"

        async def told() -> AsyncIterator[tuple[str, Json]]:
            name = ""
            async for line in lines:
                if line.startswith("event: "):
                    name = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    yield name, json.loads(line.removeprefix("data: "))

        yield told()


async def test_the_stream_tells_of_boards_that_come_say_something_and_go(workers: MakeWorker) -> None:
    async with web(workers()) as hub, hearing(hub, "/devices/events?device=AA:01") as told:
        board, other = Board("aa:01"), Board("aa:02")
        async with hub.dial(device_id="aa:02") as second, hub.dial(device_id="aa:01") as socket:
            elsewhere, dialled = Dialled(other, second), Dialled(board, socket)
            await ready(hub.worker, "aa:01")
            for said in board.say([{"jsonrpc": "2.0", "method": "notifications/state_changed", "params": {"newState": "idle"}}]):  # fmt: skip
                await socket.send(said.text)  # type: ignore[union-attr] # the board says, it does not hang up
            await elsewhere.leave()
            seen: dict[str, Json] = {}
            while not {"connected", "tools_changed", "notification"} <= seen.keys():
                name, data = await anext(told)
                seen[name] = data
            await dialled.leave()
            while "disconnected" not in seen:
                name, data = await anext(told)
                seen[name] = data
        assert {data["device"] for data in seen.values()} == {"aa:01"}
        assert seen["connected"]["transport"] == "websocket"


async def test_the_stream_needs_the_scope_and_shows_the_key_s_tenant_only(workers: MakeWorker) -> None:
    mine, other = workers(), workers()
    reading, writing = await new_key(mine, "devices:read"), await new_key(mine, "devices:write")
    try:
        async with web(mine) as hub:
            for key, status in ((None, 401), (writing, 403)):
                headers = {"authorization": f"Bearer {key}"} if key else {}
                assert (await hub.http.get("/devices/events", headers=headers)).status_code == status
            async with hearing(hub, "/devices/events", authorization=f"Bearer {reading}") as told:
                mine.events.publish(other.tenant, event("foreign"))
                mine.events.publish(mine.tenant, event("ours", 1))
                name, data = await anext(told)
                assert (name, data["device"], data["number"]) == ("notification", "ours", 1)
    finally:
        await forget_keys(mine)
