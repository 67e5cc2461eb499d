"""The audit trail: one row for each operation that changed something about a device, none for one that did not."""

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from tests.devices.house import House

from kho.devices.errors import CallTimedOut, DeviceBusy, DeviceOffline, UnknownCode, UnknownDevice
from kho.kernel.errors import InvalidParams, UniqueViolation
from kho.kernel.ports import Tx
from kho.simulator.board import Board
from kho.storage.receipts import SqlReceipts

pytestmark = pytest.mark.anyio
_numbers = count(1)
STATUS = "self.get_device_status"


@pytest.fixture
def id() -> str:
    return f"ad:{next(_numbers):02}"


async def trail(house: House) -> list[tuple[str, str, str]]:
    """Operation, subject and actor of each row, the oldest first."""

    def work(tx: Tx) -> list[Any]:
        sql = "SELECT operation, subject, actor FROM audit WHERE tenant = $1 AND capability = 'devices' ORDER BY number"
        return tx.all(sql, house.tenant)

    return [tuple(row) for row in await house.db.read(work)]


async def also(house: House) -> list[str]:
    rows = await house.db.read(
        lambda tx: tx.all("SELECT subject FROM audit_subjects WHERE tenant = $1 ORDER BY subject", house.tenant)
    )
    return [subject for (subject,) in rows]


async def test_labels(house: House, id: str) -> None:
    await house.join(Board(id))
    await house.join(Board(f"{id}:2"))
    for _ in range(2):
        await house.ask("device_label", {"device": id, "label": "hall"})
    with pytest.raises(InvalidParams):
        await house.ask("device_label", {"device": id, "label": f"{id}:2"})
    assert await trail(house) == [("device_label", id, "lan")]


async def test_approvals(houses: Callable[..., House], id: str) -> None:
    house = houses(by_code=True)
    code = (await house.registrations.register(id, "client", {})).code
    await house.ask("device_approve", {"code": code, "label": "hall"})
    with pytest.raises(UnknownCode):
        await house.ask("device_approve", {"code": "nobody"})
    with pytest.raises(InvalidParams):
        await house.ask("device_approve", {"code": id, "label": id})
    assert await trail(house) == [("device_approve", id, "lan")]


async def test_what_is_shut_out_and_forgotten(house: House, id: str) -> None:
    await house.join(Board(id))
    for _ in range(2):  # the second time it is shut out already
        await house.ask("device_revoke", {"device": id})
    await house.ask("device_forget", {"device": id})
    for operation in ("device_revoke", "device_forget"):
        with pytest.raises(UnknownDevice):
            await house.ask(operation, {"device": id})
    assert await trail(house) == [("device_revoke", id, "lan"), ("device_forget", id, "lan")]


async def test_calls_that_a_device_heard_of(house: House, id: str) -> None:
    wires = [await house.join(Board(device)) for device in (id, f"{id}:2")]
    await house.ask("device_call", {"device": [id, f"{id}:2", "nobody"], "tool": STATUS})
    assert await trail(house) == [("device_call", id, "lan")]
    assert await also(house) == [f"{id}:2"]
    with pytest.raises(InvalidParams):
        await house.ask("device_call", {"device": id, "tool": "self.audio_speaker.set_volume"})
    wires[0].free.clear()
    with pytest.raises(CallTimedOut):
        await house.ask("device_call", {"device": id, "tool": STATUS, "timeout": 1})
    assert len(await trail(house)) == 2, "it may have done it"
    wires[0].free.set()


async def test_calls_that_wait_and_calls_that_were_never_sent(house: House, id: str) -> None:
    await house.leave(await house.join(Board(id)))
    with pytest.raises(DeviceOffline):
        await house.ask("device_call", {"device": id, "tool": STATUS})
    assert await trail(house) == []
    house.queue.most = 1
    await house.ask("device_call", {"device": id, "tool": STATUS, "queue_for": "1h"})
    with pytest.raises(DeviceBusy):
        await house.ask("device_call", {"device": id, "tool": STATUS, "queue_for": "1h"})
    assert await trail(house) == [("device_call", id, "lan")]


async def test_a_request_that_is_rolled_back_leaves_nothing(house: House, id: str) -> None:
    await house.join(Board(id))
    receipts = SqlReceipts(house.db, house.clock)
    for label in ("hall", "desk"):
        call = house.caller(admin=True)
        call.request_id = "same"
        call.receipt = receipts.issue(house.tenant, "same", label, lambda result: result.model_dump_json().encode())
        if label == "hall":
            await house.ask("device_label", {"device": id, "label": label}, call)
        else:
            with pytest.raises(UniqueViolation):
                await house.ask("device_label", {"device": id, "label": label}, call)
    assert await trail(house) == [("device_label", id, "lan")]
