"""Which boards are known, what they are called, and how one is let in, shut out and forgotten."""

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from tests.devices.house import House

from kho.devices import notifications, store
from kho.devices.errors import NotApproved, UnknownCode, UnknownDevice
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


async def of(house: House, id: str) -> list[dict[str, Any]]:
    """Every line of the list about the board, also among those that wait for approval."""
    found = await house.ask("devices_list", {})
    return [one for one in [*found["devices"], *found.get("pending", [])] if one["device"] == id]


async def statuses(house: House, id: str) -> list[str]:
    return [one["status"] for one in await of(house, id)]


async def approved(house: House, id: str, client: str = "client") -> None:
    code = (await house.registrations.register(id, client, {})).code
    await house.ask("device_approve", {"code": code})


@pytest.mark.parametrize("by", ["code", "id", "label"])
async def test_one_that_was_revoked_and_is_approved_again_is_listed_once(
    houses: Callable[..., House], id: str, by: str
) -> None:
    house = houses(by_code=True)
    await approved(house, id)
    await house.ask("device_label", {"device": id, "label": "hall"})
    await house.ask("device_revoke", {"device": id})
    again = await house.registrations.register(id, "client", {})
    [waiting] = await of(house, id)
    assert (waiting["status"], waiting["shows_code"]) == ("revoked", True)
    hidden = (await house.ask("devices_list", {}, house.caller()))["devices"]
    assert "shows_code" not in hidden[0], "who may not approve it need not know"
    await house.ask("device_approve", {"code": {"code": again.code, "id": id, "label": "hall"}[by]})
    [back] = await of(house, id)
    assert (back["status"], back["label"], "shows_code" in back) == ("never_connected", "hall", False)
    assert (await house.registrations.register(id, "client", {})).approved
    assert len(await of(house, id)) == 1


async def test_a_board_whose_firmware_was_installed_anew_is_listed_once(houses: Callable[..., House], id: str) -> None:
    house = houses(by_code=True)
    await approved(house, id, "before")
    await house.registrations.register(id, "after", {})
    [asking] = await of(house, id)
    assert asking["shows_code"] is True
    await house.ask("device_approve", {"code": id})  # the one that it was: nobody knows who the other one is
    assert (await of(house, id))[0]["shows_code"] is True


async def test_a_board_that_never_connected_is_shown_as_such(house: House, id: str) -> None:
    await house.registrations.register(id, "client", {})
    assert await statuses(house, id) == ["never_connected"]
    await house.leave(await house.join(Board(id)))
    assert await statuses(house, id) == ["offline"]


async def test_one_that_nobody_approved_is_gone_after_a_while(houses: Callable[..., House], id: str) -> None:
    house = houses(by_code=True)
    await house.registrations.register(id, "client", {})
    assert await statuses(house, id) == ["pending"]
    house.clock.pass_(16 * 60)
    assert await of(house, id) == []
    house.clock.pass_(24 * 3600)
    await house.registrations.register(f"{id}:next", "client", {})
    assert await house.registrations.find(id) is None
    await house.ask("device_forget", {"device": f"{id}:next"})


async def test_one_that_waits_for_approval_can_be_forgotten(houses: Callable[..., House], id: str) -> None:
    house = houses(by_code=True)
    code = (await house.registrations.register(id, "client", {})).code
    with pytest.raises(Forbidden):
        await house.ask("device_forget", {"device": id}, house.caller())
    assert await house.ask("device_forget", {"device": id.upper()}) == {"device": id, "status": "forgotten"}
    assert await of(house, id) == []
    with pytest.raises(UnknownCode):
        await house.ask("device_approve", {"code": code})
    with pytest.raises(UnknownDevice):
        await house.ask("device_forget", {"device": id})


async def test_what_is_forgotten_leaves_nothing_but_the_log_of_its_calls(house: House, id: str) -> None:
    wire = await house.join(Board(id))
    await house.ask("device_label", {"device": id, "label": "hall"})
    await house.ask("device_call", {"device": "hall", "tool": STATUS})
    await house.leave(wire)
    await house.ask("device_call", {"device": "hall", "tool": STATUS, "queue_for": "1h"})
    await house.db.write(lambda tx: notifications.note(tx, house.tenant, id, "m", {}, house.clock(), "p"))
    wire = await house.join(Board(id, lists_user_tools=False), register=False)
    await house.settle()
    forgotten = await house.ask("device_forget", {"device": "hall"})
    assert (forgotten["device"], forgotten["status"]) == (id, "forgotten")
    assert wire.closed is not None
    assert await of(house, id) == []
    with pytest.raises(UnknownDevice):
        await house.ask("device_call", {"device": id, "tool": STATUS})

    def left(tx: Tx) -> int:
        tables = ("devices", "device_notifications", "device_queue", "device_toolsets")
        rows = [tx.all(f"SELECT 1 FROM {table} WHERE tenant = $1", house.tenant) for table in tables]
        return sum(map(len, rows))

    assert await house.db.read(left) == 0
    assert len((await house.ask("device_log", {"device": id}))["calls"]) == 2
    with pytest.raises(UnknownDevice):
        await house.ask("device_log", {"device": "hall"})


async def test_calls_that_wait_for_a_forgotten_board_are_not_carried_out(house: House, id: str) -> None:
    await house.leave(await house.join(Board(id)))
    await house.ask("device_call", {"device": id, "tool": STATUS, "queue_for": "1h"})
    await house.ask("device_forget", {"device": id})
    [call] = (await house.ask("device_log", {"device": id}))["calls"]
    assert (call["outcome"], call["message"]) == (
        "UNKNOWN_DEVICE",
        "The device was forgotten; the call was not executed.",
    )
    back = await house.join(Board(id))
    await house.settle()
    assert back.calls() == 0
    [new] = await of(house, id)
    assert (new["status"], "label" in new) == ("connected", False)


async def test_a_forgotten_board_has_to_be_let_in_anew(houses: Callable[..., House], id: str) -> None:
    house = houses(by_code=True)
    await approved(house, id)
    await house.ask("device_forget", {"device": id})
    with pytest.raises(NotApproved):
        await house.join(Board(id))
    assert await statuses(house, id) == ["pending"]
    await house.ask("device_forget", {"device": id})


async def test_a_label_has_several_words_and_stands_for_its_device_everywhere(house: House, id: str) -> None:
    await house.join(Board(id))
    await house.ask("device_label", {"device": id, "label": " Phòng   khách "})
    name = "Phòng  khách"
    assert (await house.ask("device_tools", {"device": name}))["device"] == id
    assert (await house.ask("device_call", {"device": name, "tool": STATUS}))["status"] == "ok"
    assert len((await house.ask("device_log", {"device": name}))["calls"]) == 1
    assert (await house.ask("device_notifications", {"device": name}))["notifications"] == []
    assert len((await house.ask("devices_list", {"label": name}))["devices"]) == 1
    assert (await house.ask("device_label", {"device": name, "label": "hall"}))["label"] == "hall"
    for operation in ("revoke", "approve"):
        field = "code" if operation == "approve" else "device"
        assert (await house.ask(f"device_{operation}", {field: "hall"}))["device"] == id


async def test_the_log_and_what_was_said_of_all_with_a_label(house: House, id: str) -> None:
    several = [id, f"{id}:2", f"{id}:3"]
    for device in several:
        await house.join(Board(device))
        await house.db.write(
            lambda tx, device=device: notifications.note(tx, house.tenant, device, "m", {}, house.clock(), "p")
        )
    for device in several[:2]:
        await house.ask("device_label", {"device": device, "label": "desk"})
    await house.ask("device_call", {"device": several, "tool": STATUS})
    for operation, found in (("device_log", "calls"), ("device_notifications", "notifications")):
        page = (await house.ask(operation, {"device": "desk"}))[found]
        assert sorted(one["device"] for one in page) == several[:2]
    with pytest.raises(InvalidParams, match="Several devices"):
        await house.ask("device_approve", {"code": "desk"})


@pytest.mark.parametrize("label", ["02:4B:00:00:00:01", "02-4b-00-00-00-01", "a\x1b[31mb", "a,b"])
async def test_what_is_no_label(house: House, id: str, label: str) -> None:
    await house.join(Board(id))
    with pytest.raises(InvalidParams, match="label"):
        await house.ask("device_label", {"device": id, "label": label})
    with pytest.raises(InvalidParams, match="label"):
        await house.ask("device_approve", {"code": id, "label": label})


async def test_another_devices_id_is_no_label(house: House, id: str) -> None:
    await house.join(Board(id))
    await house.join(Board(f"{id}:2"))
    with pytest.raises(InvalidParams, match="is a device's id"):
        await house.ask("device_label", {"device": id, "label": f"{id}:2".upper()})
    with pytest.raises(InvalidParams, match="is a device's id"):
        await house.ask("device_approve", {"code": id, "label": f"{id}:2"})
    assert (await house.ask("device_tools", {"device": f"{id}:2"}))["device"] == f"{id}:2"


async def test_a_label_is_taken_away_again(house: House, id: str) -> None:
    await house.join(Board(id))
    await house.ask("device_label", {"device": id, "label": "hall"})
    assert "label" not in await house.ask("device_label", {"device": "hall", "label": ""})
    found = await house.db.read(lambda tx: store.get(tx, house.tenant, id))
    assert found is not None
    assert found.label == ""
    with pytest.raises(UnknownDevice):
        await house.ask("device_tools", {"device": " "})
