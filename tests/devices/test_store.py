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
from kho.devices.pairing.rate_limits import TooManyBoards
from kho.devices.pairing.registrations import Registrations, approve_code
from kho.devices.pairing.tokens import SigningKey
from kho.kernel.ports import Tx
from kho.simulator.board import Board

pytestmark = pytest.mark.anyio
A, B = "ff:01", "ff:02"
CLIENT = "client-one-00001"


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


async def test_what_a_board_says_of_a_call_is_kept_without_secrets(worker: HubWorker) -> None:
    secret = "ghp_" + "aB3dE5fG7h" * 3 + "Kq9Zx1"

    def work(tx: Tx) -> list[call_log.LoggedCall]:
        call_log.add(tx, worker.tenant, entry(message=f"no network for {secret}", tool=secret))
        second = call_log.add(tx, worker.tenant, entry())
        call_log.ended(tx, worker.tenant, second, "failed", f"https://me:word@host/ refused {secret}", 5)
        return call_log.page(tx, worker.tenant, devices=None, tool=None, since=None, before=None, most=100)

    kept = await worker.db.write(work)
    assert [one.message for one in kept] == [
        "https://***@host/ refused <github-token>",
        "no network for <github-token>",
    ]
    assert kept[1].tool == "<github-token>"


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


def pending_ids(worker: HubWorker) -> Callable[[Tx], list[str]]:
    return lambda tx: [one.id for one in store.pending(tx, worker.tenant, worker.clock(), 100)]


def nobody_waits(tx: Tx) -> None:
    tx.run("DELETE FROM devices WHERE tenant = ''")


async def test_boards_that_wait_for_approval_are_bounded_and_none_is_pushed_aside(
    workers: Callable[..., HubWorker],
) -> None:
    worker = workers(by_code=True)
    worker.registrations.most_pending = 5
    await worker.db.write(nobody_waits)
    codes = [(await worker.registrations.register(f"pending:{n}", CLIENT, {})).code for n in range(5)]
    assert len({*codes}) == 5
    with pytest.raises(TooManyBoards, match="5 boards wait"):
        await worker.registrations.register("pending:6", CLIENT, {})
    assert (await worker.registrations.register("pending:0", CLIENT, {})).code == codes[0], "who waits may ask again"
    assert sorted(await worker.db.read(pending_ids(worker))) == [f"pending:{n}" for n in range(5)]

    worker.clock.pass_(3600)  # the codes have expired, so there is room again
    await worker.registrations.register("pending:6", CLIENT, {})
    assert await worker.db.read(pending_ids(worker)) == ["pending:6"]
    await worker.db.write(nobody_waits)


async def test_who_states_the_id_of_a_waiting_board_does_not_take_its_place(workers: Callable[..., HubWorker]) -> None:
    worker = workers(by_code=True)
    board = await worker.registrations.register("ff:08", CLIENT, {"board": "x"})
    stranger = await worker.registrations.register("ff:08", "somebody-else-000", {"board": "evil"})
    assert stranger.code != board.code
    assert await worker.db.read(pending_ids(worker)) == ["ff:08", "ff:08"]
    again = await worker.registrations.register("ff:08", CLIENT, {"board": "x"})
    assert (again.code, again.info) == (board.code, {"board": "x"})
    await worker.ask("device_approve", {"code": board.code})
    approved = await worker.registrations.find("ff:08", CLIENT)
    assert approved is not None
    assert approved.approved
    other = await worker.registrations.find("ff:08", "somebody-else-000")
    assert other is not None
    assert not other.approved
    await worker.ask("device_forget", {"device": "ff:08"})
    assert await worker.registrations.find("ff:08") is None


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
