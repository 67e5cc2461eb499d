"""The audit trail: one row for each operation that changed something about a device, none for one that did not."""

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from tests.devices.factories import HubWorker

from kho.devices.errors import CallTimedOut, DeviceBusy, DeviceOffline, UnknownCode, UnknownDevice
from kho.kernel.errors import InvalidParams, UniqueViolation
from kho.kernel.ports import Tx
from kho.simulator.board import Board
from kho.storage.receipts import SqlReceipts

pytestmark = pytest.mark.anyio
_numbers = count(1)
STATUS = "self.get_device_status"
LOUDER: dict[str, Any] = {"tool": "self.audio_speaker.set_volume", "arguments": {"volume": 80}}


@pytest.fixture
def id() -> str:
    return f"ad:{next(_numbers):02}"


async def trail(worker: HubWorker) -> list[tuple[str, str, str]]:
    """Operation, subject and actor of each row, the oldest first."""

    def work(tx: Tx) -> list[Any]:
        sql = "SELECT operation, subject, actor FROM audit WHERE tenant = $1 AND capability = 'devices' ORDER BY number"
        return tx.all(sql, worker.tenant)

    return [tuple(row) for row in await worker.db.read(work)]


async def also(worker: HubWorker) -> list[str]:
    rows = await worker.db.read(
        lambda tx: tx.all("SELECT subject FROM audit_subjects WHERE tenant = $1 ORDER BY subject", worker.tenant)
    )
    return [subject for (subject,) in rows]


async def test_labels(worker: HubWorker, id: str) -> None:
    await worker.join(Board(id))
    await worker.join(Board(f"{id}:2"))
    for _ in range(2):
        await worker.ask("device_label", {"device": id, "label": "hall"})
    with pytest.raises(InvalidParams):
        await worker.ask("device_label", {"device": id, "label": f"{id}:2"})
    assert await trail(worker) == [("device_label", id, "lan")]


async def test_approvals(workers: Callable[..., HubWorker], id: str) -> None:
    worker = workers(by_code=True)
    code = (await worker.registrations.register(id, "client", {})).code
    await worker.ask("device_approve", {"code": code, "label": "hall"})
    with pytest.raises(UnknownCode):
        await worker.ask("device_approve", {"code": "nobody"})
    with pytest.raises(InvalidParams):
        await worker.ask("device_approve", {"code": id, "label": id})
    assert await trail(worker) == [("device_approve", id, "lan")]


async def test_what_is_shut_out_and_forgotten(worker: HubWorker, id: str) -> None:
    await worker.join(Board(id))
    for _ in range(2):  # the second time it is shut out already
        await worker.ask("device_revoke", {"device": id})
    await worker.ask("device_forget", {"device": id})
    for operation in ("device_revoke", "device_forget"):
        with pytest.raises(UnknownDevice):
            await worker.ask(operation, {"device": id})
    assert await trail(worker) == [("device_revoke", id, "lan"), ("device_forget", id, "lan")]


async def test_calls_that_a_device_heard_of(worker: HubWorker, id: str) -> None:
    wires = [await worker.join(Board(device)) for device in (id, f"{id}:2")]
    await worker.ask("device_call", {"device": [id, f"{id}:2", "nobody"], **LOUDER})
    assert await trail(worker) == [("device_call", id, "lan")]
    assert await also(worker) == [f"{id}:2"]
    with pytest.raises(InvalidParams):
        await worker.ask("device_call", {"device": id, "tool": "self.audio_speaker.set_volume"})
    wires[0].free.clear()
    with pytest.raises(CallTimedOut):
        await worker.ask("device_call", {"device": id, **LOUDER, "timeout": 1})
    assert len(await trail(worker)) == 2, "it may have done it"
    wires[0].free.set()


async def test_calls_that_only_read_are_in_the_log_of_calls_alone(worker: HubWorker, id: str) -> None:
    await worker.join(Board(id))
    await worker.ask("device_call", {"device": id, "tool": STATUS})
    assert await trail(worker) == []
    [logged] = (await worker.ask("device_log", {"device": id}))["calls"]
    assert (logged["tool"], logged["outcome"]) == (STATUS, "ok")


async def test_calls_that_wait_and_calls_that_were_never_sent(worker: HubWorker, id: str) -> None:
    await worker.leave(await worker.join(Board(id)))
    with pytest.raises(DeviceOffline):
        await worker.ask("device_call", {"device": id, **LOUDER})
    assert await trail(worker) == []
    worker.queue.most = 1
    await worker.ask("device_call", {"device": id, **LOUDER, "queue_for": "1h"})
    with pytest.raises(DeviceBusy):
        await worker.ask("device_call", {"device": id, **LOUDER, "queue_for": "1h"})
    assert await trail(worker) == [("device_call", id, "lan")]


async def test_a_request_that_is_rolled_back_leaves_nothing(worker: HubWorker, id: str) -> None:
    await worker.join(Board(id))
    receipts = SqlReceipts(worker.db, worker.clock)
    for label in ("hall", "own_broker"):
        call = worker.caller(admin=True)
        call.request_id = "same"
        call.receipt = receipts.issue(worker.tenant, "same", label, lambda result: result.model_dump_json().encode())
        if label == "hall":
            await worker.ask("device_label", {"device": id, "label": label}, call)
        else:
            with pytest.raises(UniqueViolation):
                await worker.ask("device_label", {"device": id, "label": label}, call)
    assert await trail(worker) == [("device_label", id, "lan")]
