"""What is kept of boards, and how much of it."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.devices.conftest import Ground
from tests.devices.factories import HubWorker

from kho.devices import notifications, store
from kho.devices.calls import call_log
from kho.devices.errors import DeviceBusy, DeviceFailed
from kho.devices.notifications import Notification, Notifications
from kho.devices.pairing.registrations import Registrations, approve_code
from kho.devices.pairing.tokens import SigningKey
from kho.kernel.ports import Tx
from kho.simulator.board import Board

pytestmark = pytest.mark.anyio
A, B = "ff:01", "ff:02"


def entry(**more: Any) -> call_log.LoggedCall:
    given: dict[str, Any] = {"call": 0, "device": A, "tool": "t", "arguments": {}, "caller": "lan", "door": "mcp"}
    rest: dict[str, Any] = {"request_id": "r", "outcome": "ok", "message": "", "ms": 1, "at": 5}
    return call_log.LoggedCall(**{**given, **rest, **more})


async def test_the_history_is_bounded_by_tenant(worker: HubWorker) -> None:
    def work(tx: Tx) -> list[int]:
        for _ in range(25):
            call_log.add(tx, worker.tenant, entry(), most=20)
        call_log.add(tx, f"{worker.tenant}-other", entry())
        found = call_log.page(tx, worker.tenant, devices=None, tool=None, since=None, before=None, most=100)
        return [one.call for one in found]

    assert await worker.db.write(work) == list(range(25, 5, -1))


async def test_notifications_are_bounded_by_device(worker: HubWorker) -> None:
    await worker.registrations.register(A, "c", {})
    await worker.registrations.register(B, "c", {})

    def work(tx: Tx) -> list[int]:
        for number in range(30):
            notifications.keep(tx, [Notification(worker.tenant, A, 0, "m", {"n": number}, number)], "p", most=10)
        notifications.keep(tx, [Notification(worker.tenant, B, 0, "m", {}, 99)], "p")
        found = notifications.page(tx, worker.tenant, devices=[A], method=None, since=None, before=None, most=100)
        return [(one.params or {})["n"] for one in found]

    assert await worker.db.write(work) == list(range(29, 19, -1))


async def test_a_flood_of_notifications_is_dropped_not_kept_waiting(worker: HubWorker) -> None:
    said: Notifications = worker.parts.notifications
    said.most_waiting = 50
    await worker.registrations.register(A, "c", {})
    for number in range(80):
        said.said(worker.tenant, A, "m", {"n": number})
    assert said.dropped == 30
    await worker.settle()
    kept = (await worker.ask("device_notifications", {"limit": 100}))["notifications"]
    assert len(kept) == 50


@pytest.mark.parametrize("params", [{"x": "\ud800"}, {"x": "\0"}, {"x": "a" * 40_000}, None, [1], 2**70])
async def test_odd_notifications_are_kept_as_far_as_they_can_be(worker: HubWorker, params: Any) -> None:
    await worker.registrations.register(A, "c", {})
    worker.parts.notifications.said(worker.tenant, A, "odd\n\0" + "m" * 500, params)
    await worker.settle()
    [kept] = (await worker.ask("device_notifications", {}))["notifications"]
    assert len(kept["method"]) == 200
    assert "\n" not in kept["method"]


async def test_so_many_calls_wait_and_no_more(worker: HubWorker) -> None:
    worker.queue.most = 3
    await worker.leave(await worker.join(Board(A)))
    call = {"device": A, "tool": "self.get_device_status", "queue_for": "1h"}
    for _ in range(3):
        await worker.ask("device_call", call)
    with pytest.raises(DeviceBusy):
        await worker.ask("device_call", call)
    with pytest.raises(DeviceFailed) as several:
        await worker.ask("device_call", {**call, "device": [A]})
    assert [one["code"] for one in several.value.details["devices"]] == ["DEVICE_BUSY"]


async def test_boards_that_wait_for_approval_are_bounded(workers: Callable[..., HubWorker]) -> None:
    worker = workers(by_code=True)
    worker.registrations.most_pending = 5
    codes = [(await worker.registrations.register(f"pending:{n}", "c", {})).code for n in range(8)]
    assert len({*codes}) == 8

    def work(tx: Tx) -> list[str]:
        return [one.id for one in store.pending(tx, worker.tenant, worker.clock(), 100)]

    assert await worker.db.read(work) == [f"pending:{n}" for n in (7, 6, 5, 4, 3)]
    await worker.db.write(lambda tx: [store.forget_pending(tx, f"pending:{n}") for n in range(8)])


async def test_boards_that_are_alike_share_their_tools(worker: HubWorker) -> None:
    await worker.join(Board(A))
    wire = await worker.join(Board(B, version="2.4.3"))

    def sets(tx: Tx) -> int:
        row = tx.one("SELECT COUNT(*) FROM device_toolsets WHERE tenant = $1", worker.tenant)
        assert row is not None
        return row[0]

    assert await worker.db.read(sets) == 1
    await worker.leave(wire)
    await worker.join(Board(B, lists_user_tools=False))
    assert await worker.db.read(sets) == 2
    await worker.join(Board(B))
    assert await worker.db.read(sets) == 1  # what no board has is not kept


async def test_all_processes_have_the_same_signing_key(ground: Ground, workers: Callable[..., HubWorker]) -> None:
    several = [workers().registrations for _ in range(4)]

    async def keys(registrations: Registrations, number: int) -> list[SigningKey]:
        return list(await registrations.signing_keys(SigningKey(str(number), bytes([number]) * 32)))

    found = await asyncio.gather(*(keys(one, number) for number, one in enumerate(several)))
    assert all(len(one) == 1 and one == found[0] for one in found)


async def test_an_approved_board_keeps_what_it_was_called(workers: Callable[..., HubWorker]) -> None:
    worker = workers(by_code=True)
    first = await worker.registrations.register("ff:07", "one", {"board": "x"})
    await worker.ask("device_approve", {"code": first.code, "label": "hall"})
    second = await worker.registrations.register("ff:07", "two", {"board": "y"})
    code = second.code
    assert code is not None
    taken = await worker.db.write(lambda tx: approve_code(tx, worker.tenant, code, "lan", worker.clock()))
    assert taken is not None
    assert (taken.label, taken.client, taken.info) == ("hall", "two", {"board": "y"})
    assert await worker.registrations.find("ff:07", "one") is None


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (
            {"password": "x", "Wifi_Password": 1, "ssid": "home"},
            {"password": "***", "Wifi_Password": "***", "ssid": "home"},
        ),
        ({"api_key": "x", "key": "x", "keyboard": "us"}, {"api_key": "***", "key": "***", "keyboard": "us"}),
        ({"auth": {"Authorization": "Bearer x"}}, {"auth": {"Authorization": "***"}}),
        ({"list": [{"token": "x"}, "plain"]}, {"list": [{"token": "***"}, "plain"]}),
        ({"access_token": "x", "secret": ["a"], "pin": 1234}, {"access_token": "***", "secret": "***", "pin": "***"}),
        ({"url": "https://a:b@h/p?api_key=1&x=2#f"}, {"url": "https://***@h/p?api_key=***&x=2#f"}),
        ({"text": "ask me://nothing", "n": 3, "b": True}, {"text": "ask me://nothing", "n": 3, "b": True}),
    ],
)
def test_what_is_secret_is_masked(given: dict[str, Any], kept: dict[str, Any]) -> None:
    assert call_log.masked(given) == kept
