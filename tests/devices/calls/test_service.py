"""What callers see of boards, and what becomes of their calls."""

import asyncio
import json
from collections.abc import Callable

import pytest
from tests.devices.factories import HubWorker
from tests.timeouts import PATIENCE

from kho.devices.errors import (
    DeviceFailed,
    DeviceOffline,
    DeviceTimeout,
    NotApproved,
    UnknownCode,
    UnknownDevice,
    UnknownDeviceTool,
    UserOnlyTool,
)
from kho.devices.pairing import rate_limits
from kho.kernel.call import Call
from kho.kernel.errors import Conflict, Forbidden, InvalidParams, KhoError, in_words
from kho.lib.clock import SECOND
from kho.simulator.board import Board
from kho.simulator.board_tools import Context, FirmwareTool, ToolRefused
from kho.storage.receipts import SqlReceipts

pytestmark = pytest.mark.anyio
A, B = "aa:aa:aa:aa:aa:01", "aa:aa:aa:aa:aa:02"
D, E, F = "dd:01", "dd:02", "dd:03"
"""In no tenant but that of one test."""
VOLUME = "self.audio_speaker.set_volume"


def volume(device: object, value: object = 30, **more: object) -> dict[str, object]:
    return {"device": device, "tool": VOLUME, "arguments": {"volume": value}, **more}


async def test_a_board_is_listed_with_its_tools_and_called(worker: HubWorker) -> None:
    board = Board(A)
    await worker.join(board)
    [listed] = (await worker.ask("devices_list", {}))["devices"]
    assert (listed["device"], listed["status"], listed["name"], listed["tools"]) == (A, "connected", "kho-sim", 12)
    answer = await worker.ask("device_call", volume(A.upper(), 31))
    assert (answer["status"], answer["text"], answer["device"]) == ("ok", "true", A)
    assert board.state.volume == 31
    [entry] = (await worker.ask("device_log", {"device": A}))["calls"]
    assert (entry["tool"], entry["arguments"], entry["outcome"]) == (VOLUME, {"volume": 31}, "ok")
    assert (entry["caller"], entry["call"]) == ("lan", answer["call"])


async def test_user_only_tools_are_hidden_from_models_and_refused(worker: HubWorker) -> None:
    board = Board(A)
    wire = await worker.join(board)
    model = worker.caller()
    names = {tool["name"] for tool in (await worker.ask("device_tools", {"device": A}, model))["tools"]}
    assert "self.reboot" not in names
    assert len(names) == 5
    tools = (await worker.ask("device_tools", {"device": A}))["tools"]
    assert {tool["name"] for tool in tools if tool["user_only"]} >= {"self.reboot", "self.upgrade_firmware"}
    with pytest.raises(UserOnlyTool):
        await worker.ask("device_call", {"device": A, "tool": "self.reboot"}, model)
    assert (board.restarts, wire.calls()) == (0, 0)
    info = await worker.ask("device_call", {"device": A, "tool": "self.get_system_info"})
    assert A in info["text"]


async def test_a_tool_is_known_by_its_alias_too(worker: HubWorker) -> None:
    await worker.join(Board(A))
    tools = (await worker.ask("device_tools", {"device": A}))["tools"]
    alias = next(tool["alias"] for tool in tools if tool["name"] == VOLUME)
    answer = await worker.ask("device_call", {**volume(A), "tool": alias})
    assert (answer["tool"], answer["text"]) == (VOLUME, "true")


@pytest.mark.parametrize("value", [101, -1, "loud", None])
async def test_wrong_arguments_are_refused_before_anything_is_sent(worker: HubWorker, value: object) -> None:
    wire = await worker.join(Board(A))
    with pytest.raises(InvalidParams, match="volume"):
        await worker.ask("device_call", volume(A, value))
    with pytest.raises(InvalidParams, match="loudness"):
        await worker.ask("device_call", {**volume(A), "arguments": {"volume": 3, "loudness": 3}})
    assert wire.calls() == 0


async def test_what_is_not_there_is_said_with_what_to_do(worker: HubWorker) -> None:
    wire = await worker.join(Board(A))
    with pytest.raises(UnknownDevice, match="kitchen"):
        await worker.ask("device_call", volume("kitchen"))
    with pytest.raises(UnknownDeviceTool, match="set_volume") as unknown:
        await worker.ask("device_call", {"device": A, "tool": "self.audio.set_volume"})
    assert "device_tools" in unknown.value.guidance
    with pytest.raises(UnknownDeviceTool) as unlike:
        await worker.ask("device_call", {"device": A, "tool": "self.nope"})
    assert unlike.value.message == "The device has no tool 'self.nope'."
    await worker.leave(wire)
    with pytest.raises(DeviceOffline, match="since 20") as offline:
        await worker.ask("device_call", volume(A))
    assert "queue_for" in offline.value.guidance
    assert len((await worker.ask("device_tools", {"device": A}))["tools"]) == 12  # as last seen
    outcomes = [entry["outcome"] for entry in (await worker.ask("device_log", {}))["calls"]]
    assert outcomes == ["DEVICE_OFFLINE", "UNKNOWN_DEVICE_TOOL", "UNKNOWN_DEVICE_TOOL"]


@pytest.mark.parametrize(
    ("named", "admin", "near"),
    [
        ("self.nope", True, []),
        ("self.reeboot", True, ["self.reboot"]),
        ("self.reeboot", False, []),
        ("self_audio_speaker_set_volum", False, [VOLUME]),
        ("volume", False, [VOLUME]),
        ("e", True, []),
    ],
)
async def test_only_what_is_alike_and_allowed_is_suggested(
    worker: HubWorker, named: str, admin: bool, near: list[str]
) -> None:
    await worker.join(Board(A))
    with pytest.raises(UnknownDeviceTool) as unknown:
        await worker.ask("device_call", {"device": A, "tool": named}, worker.caller(admin=admin))
    meant = unknown.value.message.partition("Did you mean ")[2]
    assert meant == (f"'{near[0]}'?" if near else "")


async def test_another_tenants_board_is_not_there(workers: Callable[..., HubWorker]) -> None:
    mine, other = workers(), workers()
    await mine.join(Board(A))
    with pytest.raises(UnknownDevice):
        await other.ask("device_call", volume(A))
    assert (await other.ask("devices_list", {}))["devices"] == []


async def test_several_boards_have_an_entry_each(worker: HubWorker) -> None:
    first, second = Board(A), Board(B)
    await worker.join(first)
    gone = await worker.join(second)
    await worker.leave(gone)
    for device in (A, B):
        await worker.ask("device_label", {"device": device, "label": "own_broker"})
    answer = await worker.ask("device_call", volume([A, B, "nowhere"], 12))
    assert answer["status"] == "partly"
    told = {one["device"]: one.get("error", {}).get("code", one["status"]) for one in answer["results"]}
    assert told == {A: "ok", B: "DEVICE_OFFLINE", "nowhere": "UNKNOWN_DEVICE"}
    await worker.join(second, register=False)
    answer = await worker.ask("device_call", volume("own_broker", 13))
    assert answer["status"] == "ok"
    assert [one["device"] for one in answer["results"]] == [A, B]
    assert (first.state.volume, second.state.volume) == (13, 13)


async def test_where_none_of_several_does_it_that_is_a_failure(worker: HubWorker) -> None:
    await worker.join(Board(A))
    with pytest.raises(DeviceFailed) as failed:
        await worker.ask("device_call", volume([A, "nowhere"], 400))
    told = failed.value.details["devices"]
    assert [(one["device"], one["code"]) for one in told] == [(A, "INVALID_ARGUMENT"), ("nowhere", "UNKNOWN_DEVICE")]
    assert all("guidance" not in one for one in told)


async def test_where_all_fail_for_one_reason_that_is_the_failure(worker: HubWorker) -> None:
    for device in (A, B):
        await worker.join(Board(device))
    with pytest.raises(InvalidParams, match="volume") as alone:
        await worker.ask("device_call", volume([A], 400))
    with pytest.raises(InvalidParams) as asked:
        await worker.ask("device_call", volume(A, 400))
    assert alone.value.as_dict() == asked.value.as_dict(), "a list of one is that one"
    with pytest.raises(InvalidParams, match=r"^No device executed the call\. 'volume'") as both:
        await worker.ask("device_call", volume([A, B], 400))
    assert both.value.details["devices"] == [A, B]
    with pytest.raises(UnknownDevice, match=r"^No device executed the call\.$") as unknown:
        await worker.ask("device_call", volume(["x1", "x2"], 4))
    assert [in_words(one) for one in unknown.value.details["devices"]] == [
        "x1: There is no device 'x1', by id or by label.",
        "x2: There is no device 'x2', by id or by label.",
    ]
    assert "devices_list" in unknown.value.guidance


async def test_a_label_of_several_is_no_single_device(worker: HubWorker) -> None:
    for device in (A, B):
        await worker.join(Board(device))
        await worker.ask("device_label", {"device": device, "label": " nhà  bếp"})
    with pytest.raises(InvalidParams, match="Several devices"):
        await worker.ask("device_tools", {"device": "nhà bếp"})
    with pytest.raises(InvalidParams, match="comma"):
        await worker.ask("device_label", {"device": A, "label": "a,b"})


def refuse(context: Context, arguments: dict[str, object]) -> str:
    raise ToolRefused('The "lamp" is broken')


async def test_what_a_board_refuses_or_never_answers(worker: HubWorker) -> None:
    wire = await worker.join(Board(A, extra=[FirmwareTool("self.lamp.on", "Turns it on.", (), refuse)]))
    with pytest.raises(DeviceFailed, match='The "lamp" is broken'):
        await worker.ask("device_call", {"device": A, "tool": "self.lamp.on"})
    wire.free.clear()
    with pytest.raises(DeviceTimeout):
        await worker.ask("device_call", volume(A, 5, timeout=1))
    wire.free.set()
    outcomes = [entry["outcome"] for entry in (await worker.ask("device_log", {}))["calls"]]
    assert outcomes == ["DEVICE_TIMEOUT", "DEVICE_FAILED"]


async def test_a_request_that_is_repeated_while_it_runs_is_carried_out_once(worker: HubWorker) -> None:
    wire = await worker.join(Board(A))
    receipts = SqlReceipts(worker.db, worker.clock)

    def request() -> Call:
        receipt = receipts.issue(worker.tenant, f"{worker.tenant}-once", "digest", lambda result: b"{}")
        return Call(worker.caller(admin=True).principal, "actions", f"{worker.tenant}-once", receipt=receipt)

    wire.free.clear()
    first = asyncio.create_task(worker.ask("device_call", volume(A), request()))
    await wire.asked.wait()
    with pytest.raises(Conflict, match="already in progress"):
        await worker.ask("device_call", volume(A), request())
    wire.free.set()
    assert (await first)["text"] == "true"
    assert wire.calls() == 1


async def test_secrets_are_masked_in_the_log(worker: HubWorker) -> None:
    await worker.join(Board(A))
    arguments = {"url": "http://me:hunter2@127.0.0.1/x?token=abc&v=1"}
    await worker.ask("device_call", {"device": A, "tool": "self.assets.set_download_url", "arguments": arguments})
    [entry] = (await worker.ask("device_log", {}))["calls"]
    assert entry["arguments"] == {"url": "http://***@127.0.0.1/x?token=***&v=1"}


async def test_notifications_are_kept_and_paged(worker: HubWorker) -> None:
    board = Board(A)
    wire = await worker.join(board)
    for mode in ("listening", "speaking", "idle"):
        await wire.say(*board.become(mode))
    await wire.say({"jsonrpc": "2.0", "method": "door/opened", "params": {"by": "An"}})
    await until_kept(worker, 4)
    page = await worker.ask("device_notifications", {"limit": 3})
    assert next(one["method"] for one in page["notifications"]) == "door/opened"
    rest = await worker.ask("device_notifications", {"limit": 3, "cursor": page["next_cursor"]})
    assert len(rest["notifications"]) == 1
    assert "next_cursor" not in rest
    [opened] = (await worker.ask("device_notifications", {"device": A, "method": "door/opened"}))["notifications"]
    assert opened["params"] == {"by": "An"}
    assert (await worker.ask("device_notifications", {"since": "2999-01-01T00:00:00Z"}))["notifications"] == []
    assert wire.calls() == 0
    assert len(wire.heard) <= 4


@pytest.mark.parametrize("params", ["[1,2]", '"x"', "5", "true"])
async def test_what_an_earlier_version_kept_is_in_an_object(worker: HubWorker, params: str) -> None:
    await worker.join(Board(A))
    await worker.db.write(
        lambda tx: tx.run(
            "INSERT INTO device_notifications (tenant, device, place, method, params, at, process) "
            "VALUES ($1, $2, 1, 'm', $3, $4, 'p')",
            worker.tenant,
            A,
            params,
            worker.clock(),
        )
    )
    [one] = (await worker.ask("device_notifications", {}))["notifications"]
    assert one["params"] == {"value": json.loads(params)}


async def until_kept(worker: HubWorker, number: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while len((await worker.ask("device_notifications", {}))["notifications"]) < number:
            await worker.settle()


async def test_the_log_is_paged_and_narrowed(worker: HubWorker) -> None:
    await worker.join(Board(A))
    await worker.join(Board(B))
    for device in (A, B, A):
        await worker.ask("device_call", volume(device))
    page = await worker.ask("device_log", {"limit": 2})
    rest = await worker.ask("device_log", {"limit": 2, "cursor": page["next_cursor"]})
    assert [one["device"] for one in page["calls"] + rest["calls"]] == [A, B, A]
    assert len((await worker.ask("device_log", {"device": A, "tool": VOLUME}))["calls"]) == 2
    with pytest.raises(InvalidParams):
        await worker.ask("device_log", {"cursor": page["next_cursor"] + "x!"})


async def test_a_board_is_approved_by_its_code_and_revoked(workers: Callable[..., HubWorker]) -> None:
    worker = workers(by_code=True)
    pending = await worker.registrations.register(D, "client", {"name": "own_broker"})
    assert pending.code is not None
    assert not pending.approved
    assert (await worker.registrations.register(D, "client", {})).code == pending.code
    board = Board(D)
    with pytest.raises(NotApproved):
        await worker.join(board)
    [waiting] = (await worker.ask("devices_list", {}))["pending"]
    assert (waiting["device"], waiting["status"]) == (D, "pending")
    assert "pending" not in await worker.ask("devices_list", {}, worker.caller())
    with pytest.raises(UnknownCode):
        await worker.ask("device_approve", {"code": "000000" if pending.code != "000000" else "000001"})
    with pytest.raises(Forbidden):
        await worker.ask("device_approve", {"code": pending.code}, worker.caller())
    approved = await worker.ask("device_approve", {"code": pending.code, "label": "own_broker"})
    assert (approved["device"], approved["label"]) == (D, "own_broker")
    wire = await worker.join(board)
    with pytest.raises(Forbidden):
        await worker.ask("device_revoke", {"device": D}, worker.caller())
    await worker.ask("device_revoke", {"device": D})
    assert wire.closed is not None
    assert worker.live.find(worker.tenant, D) is None
    with pytest.raises(NotApproved, match="revoked"):
        await worker.ask("device_call", volume(D))
    again = await worker.registrations.register(D, "client", {})
    assert again.code is not None  # it has to be let in anew


async def test_a_code_runs_out(workers: Callable[..., HubWorker]) -> None:
    worker = workers(by_code=True)
    first = await worker.registrations.register(E, "client", {})
    worker.clock.pass_(16 * 60)
    with pytest.raises(UnknownCode):
        await worker.ask("device_approve", {"code": first.code})
    second = await worker.registrations.register(E, "client", {})
    assert (await worker.ask("device_approve", {"code": second.code}))["device"] == E


async def test_codes_cannot_be_guessed(workers: Callable[..., HubWorker]) -> None:
    worker, other = workers(by_code=True), workers(by_code=True)
    known = await worker.registrations.register("dd:04", "client", {})
    mine = await worker.registrations.register("dd:05", "client", {})
    wrong = next(code for code in ("000000", "000001", "000002") if code not in (known.code, mine.code))

    async def guess(code: str | None) -> str:
        try:
            return (await worker.ask("device_approve", {"code": code}))["device"]
        except KhoError as problem:
            return problem.code

    assert await guess(wrong) == "UNKNOWN_CODE"
    assert await guess(mine.code) == "dd:05", "a right one costs nothing, and buys nothing"
    outcomes = await asyncio.gather(*(guess(wrong) for _ in range(rate_limits.MAX_GUESSES + 5)))
    assert (outcomes.count("UNKNOWN_CODE"), outcomes.count("TOO_MANY_GUESSES")) == (rate_limits.MAX_GUESSES - 1, 6)
    with pytest.raises(rate_limits.TooManyGuesses, match="No more are accepted before 20") as refused:
        await worker.ask("device_approve", {"code": known.code})
    assert refused.value.status == 429
    assert await guess("dd:05") == "dd:05", "an id is no guess"
    worker.clock.pass_(rate_limits.MINUTES * 60 + 1)
    again = await worker.registrations.register("dd:04", "client", {})
    assert (await worker.ask("device_approve", {"code": again.code}))["device"] == "dd:04"
    with pytest.raises(UnknownCode, match="shows this code") as unknown:
        await other.ask("device_approve", {"code": wrong})
    assert f"{rate_limits.LASTS // (60 * SECOND)} minutes" in unknown.value.guidance


async def test_another_client_with_the_same_id_is_another_registration(workers: Callable[..., HubWorker]) -> None:
    worker = workers(by_code=True)
    known = await worker.registrations.register(F, "first", {})
    await worker.ask("device_approve", {"code": known.code})
    stranger = await worker.registrations.register(F, "second", {})
    assert not stranger.approved
    assert (await worker.registrations.register(F, "first", {})).approved
    found = await worker.registrations.find(F, "second")
    assert found is not None
    assert not found.approved


async def test_a_right_code_with_a_wrong_label_is_no_guess(workers: Callable[..., HubWorker]) -> None:
    worker = workers(by_code=True)
    other = await worker.registrations.register("dd:07", "client", {})
    await worker.ask("device_approve", {"code": other.code})
    mine = await worker.registrations.register("dd:06", "client", {})
    for label in ["dd:06", "dd:07"] * rate_limits.MAX_GUESSES:  # its own id, and another's
        with pytest.raises(InvalidParams, match="choose another label"):
            await worker.ask("device_approve", {"code": mine.code, "label": label})
    assert (await worker.ask("device_approve", {"code": mine.code, "label": "hall"}))["device"] == "dd:06"


async def test_a_board_that_waits_for_approval_is_said_to(workers: Callable[..., HubWorker]) -> None:
    worker = workers(by_code=True)
    waiting = await worker.registrations.register("dd:08", "client", {})
    assert waiting.code is not None
    for operation, arguments in (("device_tools", {"device": "DD:08"}), ("device_call", volume("dd:08"))):
        with pytest.raises(NotApproved, match="waits to be approved") as refused:
            await worker.ask(operation, arguments)
        assert "kho devices approve CODE" in refused.value.guidance
        assert waiting.code not in str(refused.value.as_dict()), "who approves it has to see the board"
    approved = await worker.registrations.register("dd:09", "client", {})
    await worker.ask("device_approve", {"code": approved.code})
    await worker.join(Board("dd:09"))
    told = (await worker.ask("device_call", volume(["dd:08", "dd:09"])))["results"]
    assert [one.get("error", {}).get("code", one["status"]) for one in told] == ["DEVICE_NOT_APPROVED", "ok"]
    await worker.ask("device_forget", {"device": "dd:08"})
