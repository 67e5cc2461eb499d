"""Which boards are known, what they are called, and how one is let in, shut out and forgotten."""

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from tests.devices.factories import HubWorker

from kho.devices import notifications, store
from kho.devices.errors import NotApproved, UnknownCode, UnknownDevice
from kho.devices.notifications import Notification
from kho.kernel.errors import Forbidden, InvalidParams
from kho.kernel.ports import Tx
from kho.simulator.board import Board

pytestmark = pytest.mark.anyio
_numbers = count(1)
STATUS = "self.get_device_status"


@pytest.fixture
def id() -> str:
    """A board that no other test knows: those that wait for approval are seen by all tenants."""
    return f"ab:{next(_numbers):02}"


async def of(worker: HubWorker, id: str) -> list[dict[str, Any]]:
    """Every line of the list about the board, also among those that wait for approval."""
    found = await worker.ask("devices_list", {})
    return [one for one in [*found["devices"], *found.get("pending", [])] if one["device"] == id]


async def statuses(worker: HubWorker, id: str) -> list[str]:
    return [one["status"] for one in await of(worker, id)]


async def approved(worker: HubWorker, id: str, client: str = "client") -> None:
    code = (await worker.registrations.register(id, client, {})).code
    await worker.ask("device_approve", {"code": code})


@pytest.mark.parametrize("by", ["code", "id", "label"])
async def test_one_that_was_revoked_and_is_approved_again_is_listed_once(
    workers: Callable[..., HubWorker], id: str, by: str
) -> None:
    worker = workers(by_code=True)
    await approved(worker, id)
    await worker.ask("device_label", {"device": id, "label": "hall"})
    await worker.ask("device_revoke", {"device": id})
    again = await worker.registrations.register(id, "client", {})
    [waiting] = await of(worker, id)
    assert (waiting["status"], waiting["shows_code"]) == ("revoked", True)
    hidden = (await worker.ask("devices_list", {}, worker.caller()))["devices"]
    assert "shows_code" not in hidden[0], "who may not approve it need not know"
    await worker.ask("device_approve", {"code": {"code": again.code, "id": id, "label": "hall"}[by]})
    [back] = await of(worker, id)
    assert (back["status"], back["label"], "shows_code" in back) == ("never_connected", "hall", False)
    assert (await worker.registrations.register(id, "client", {})).approved
    assert len(await of(worker, id)) == 1


async def test_a_board_whose_firmware_was_installed_anew_is_listed_once(
    workers: Callable[..., HubWorker], id: str
) -> None:
    worker = workers(by_code=True)
    await approved(worker, id, "before")
    await worker.registrations.register(id, "after", {})
    [asking] = await of(worker, id)
    assert asking["shows_code"] is True
    await worker.ask("device_approve", {"code": id})  # the one that it was: nobody knows who the other one is
    assert (await of(worker, id))[0]["shows_code"] is True


async def test_a_board_that_never_connected_is_shown_as_such(worker: HubWorker, id: str) -> None:
    await worker.registrations.register(id, "client", {})
    assert await statuses(worker, id) == ["never_connected"]
    await worker.leave(await worker.join(Board(id)))
    assert await statuses(worker, id) == ["offline"]


async def test_one_that_nobody_approved_is_gone_after_a_while(workers: Callable[..., HubWorker], id: str) -> None:
    worker = workers(by_code=True)
    await worker.registrations.register(id, "client", {})
    assert await statuses(worker, id) == ["pending"]
    worker.clock.pass_(16 * 60)
    assert await of(worker, id) == []
    worker.clock.pass_(24 * 3600)
    await worker.registrations.register(f"{id}:next", "client", {})
    assert await worker.registrations.find(id) is None
    await worker.ask("device_forget", {"device": f"{id}:next"})


async def test_one_that_waits_for_approval_can_be_forgotten(workers: Callable[..., HubWorker], id: str) -> None:
    worker = workers(by_code=True)
    code = (await worker.registrations.register(id, "client", {})).code
    with pytest.raises(Forbidden):
        await worker.ask("device_forget", {"device": id}, worker.caller())
    assert await worker.ask("device_forget", {"device": id.upper()}) == {"device": id, "status": "forgotten"}
    assert await of(worker, id) == []
    with pytest.raises(UnknownCode):
        await worker.ask("device_approve", {"code": code})
    with pytest.raises(UnknownDevice):
        await worker.ask("device_forget", {"device": id})


async def test_what_is_forgotten_leaves_nothing_but_the_log_of_its_calls(worker: HubWorker, id: str) -> None:
    wire = await worker.join(Board(id))
    await worker.ask("device_label", {"device": id, "label": "hall"})
    await worker.ask("device_call", {"device": "hall", "tool": STATUS})
    await worker.leave(wire)
    await worker.ask("device_call", {"device": "hall", "tool": STATUS, "queue_for": "1h"})
    said = Notification(worker.tenant, id, 0, "m", {}, worker.clock())
    await worker.db.write(lambda tx: notifications.keep(tx, [said], "p"))
    wire = await worker.join(Board(id, lists_user_tools=False), register=False)
    await worker.settle()
    forgotten = await worker.ask("device_forget", {"device": "hall"})
    assert (forgotten["device"], forgotten["status"]) == (id, "forgotten")
    assert wire.closed is not None
    assert await of(worker, id) == []
    with pytest.raises(UnknownDevice):
        await worker.ask("device_call", {"device": id, "tool": STATUS})

    def left(tx: Tx) -> int:
        tables = ("devices", "device_notifications", "device_queue", "device_toolsets")
        rows = [tx.all(f"SELECT 1 FROM {table} WHERE tenant = $1", worker.tenant) for table in tables]
        return sum(map(len, rows))

    assert await worker.db.read(left) == 0
    assert len((await worker.ask("device_log", {"device": id}))["calls"]) == 2
    with pytest.raises(UnknownDevice):
        await worker.ask("device_log", {"device": "hall"})


async def test_calls_that_wait_for_a_forgotten_board_are_not_carried_out(worker: HubWorker, id: str) -> None:
    await worker.leave(await worker.join(Board(id)))
    await worker.ask("device_call", {"device": id, "tool": STATUS, "queue_for": "1h"})
    await worker.ask("device_forget", {"device": id})
    [call] = (await worker.ask("device_log", {"device": id}))["calls"]
    assert (call["outcome"], call["message"]) == (
        "UNKNOWN_DEVICE",
        "The device was forgotten; the call was not executed.",
    )
    back = await worker.join(Board(id))
    await worker.settle()
    assert back.calls() == 0
    [new] = await of(worker, id)
    assert (new["status"], "label" in new) == ("connected", False)


async def test_a_forgotten_board_has_to_be_let_in_anew(workers: Callable[..., HubWorker], id: str) -> None:
    worker = workers(by_code=True)
    await approved(worker, id)
    await worker.ask("device_forget", {"device": id})
    with pytest.raises(NotApproved):
        await worker.join(Board(id))
    assert await statuses(worker, id) == ["pending"]
    await worker.ask("device_forget", {"device": id})


async def test_a_label_has_several_words_and_stands_for_its_device_everywhere(worker: HubWorker, id: str) -> None:
    await worker.join(Board(id))
    await worker.ask("device_label", {"device": id, "label": " Phòng   khách "})
    name = "Phòng  khách"
    assert (await worker.ask("device_tools", {"device": name}))["device"] == id
    assert (await worker.ask("device_call", {"device": name, "tool": STATUS}))["status"] == "ok"
    assert len((await worker.ask("device_log", {"device": name}))["calls"]) == 1
    assert (await worker.ask("device_notifications", {"device": name}))["notifications"] == []
    assert len((await worker.ask("devices_list", {"label": name}))["devices"]) == 1
    assert (await worker.ask("device_label", {"device": name, "label": "hall"}))["label"] == "hall"
    for operation in ("revoke", "approve"):
        field = "code" if operation == "approve" else "device"
        assert (await worker.ask(f"device_{operation}", {field: "hall"}))["device"] == id


async def test_the_log_and_what_was_said_of_all_with_a_label(worker: HubWorker, id: str) -> None:
    several = [id, f"{id}:2", f"{id}:3"]
    for device in several:
        await worker.join(Board(device))
        said = Notification(worker.tenant, device, 0, "m", {}, worker.clock())
        await worker.db.write(lambda tx, said=said: notifications.keep(tx, [said], "p"))
    for device in several[:2]:
        await worker.ask("device_label", {"device": device, "label": "own_broker"})
    await worker.ask("device_call", {"device": several, "tool": STATUS})
    for operation, found in (("device_log", "calls"), ("device_notifications", "notifications")):
        page = (await worker.ask(operation, {"device": "own_broker"}))[found]
        assert sorted(one["device"] for one in page) == several[:2]
    with pytest.raises(InvalidParams, match="Several devices"):
        await worker.ask("device_approve", {"code": "own_broker"})


@pytest.mark.parametrize("label", ["02:4B:00:00:00:01", "02-4b-00-00-00-01", "a\x1b[31mb", "a,b"])
async def test_what_is_no_label(worker: HubWorker, id: str, label: str) -> None:
    await worker.join(Board(id))
    with pytest.raises(InvalidParams, match="label"):
        await worker.ask("device_label", {"device": id, "label": label})
    with pytest.raises(InvalidParams, match="label"):
        await worker.ask("device_approve", {"code": id, "label": label})


async def test_another_devices_id_is_no_label(worker: HubWorker, id: str) -> None:
    await worker.join(Board(id))
    await worker.join(Board(f"{id}:2"))
    with pytest.raises(InvalidParams, match="is a device's id"):
        await worker.ask("device_label", {"device": id, "label": f"{id}:2".upper()})
    with pytest.raises(InvalidParams, match="is a device's id"):
        await worker.ask("device_approve", {"code": id, "label": f"{id}:2"})
    assert (await worker.ask("device_tools", {"device": f"{id}:2"}))["device"] == f"{id}:2"


async def test_a_label_is_taken_away_again(worker: HubWorker, id: str) -> None:
    await worker.join(Board(id))
    await worker.ask("device_label", {"device": id, "label": "hall"})
    assert "label" not in await worker.ask("device_label", {"device": "hall", "label": ""})
    found = await worker.db.read(lambda tx: store.get(tx, worker.tenant, id))
    assert found is not None
    assert found.label == ""
    with pytest.raises(UnknownDevice):
        await worker.ask("device_tools", {"device": " "})
