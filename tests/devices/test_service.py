"""What callers see of boards, and what becomes of their calls."""

import asyncio
import json
from collections.abc import Callable

import pytest
from tests.devices.house import House

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
from kho.devices.pairing import codes
from kho.kernel.call import Call
from kho.kernel.errors import Conflict, Forbidden, InvalidParams, KhoError, in_words
from kho.lib.clock import SECOND
from kho.simulator.board import Board
from kho.simulator.board_tools import Context, Refused, Tool
from kho.storage.receipts import SqlReceipts

pytestmark = pytest.mark.anyio
A, B = "aa:aa:aa:aa:aa:01", "aa:aa:aa:aa:aa:02"
D, E, F = "dd:01", "dd:02", "dd:03"
"""In no tenant but that of one test."""
VOLUME = "self.audio_speaker.set_volume"


def volume(device: object, value: object = 30, **more: object) -> dict[str, object]:
    return {"device": device, "tool": VOLUME, "arguments": {"volume": value}, **more}


async def test_a_board_is_listed_with_its_tools_and_called(house: House) -> None:
    board = Board(A)
    await house.join(board)
    [listed] = (await house.ask("devices_list", {}))["devices"]
    assert (listed["device"], listed["status"], listed["name"], listed["tools"]) == (A, "connected", "kho-sim", 12)
    answer = await house.ask("device_call", volume(A.upper(), 31))
    assert (answer["status"], answer["text"], answer["device"]) == ("ok", "true", A)
    assert board.state.volume == 31
    [entry] = (await house.ask("device_log", {"device": A}))["calls"]
    assert (entry["tool"], entry["arguments"], entry["outcome"]) == (VOLUME, {"volume": 31}, "ok")
    assert (entry["caller"], entry["call"]) == ("lan", answer["call"])


async def test_user_only_tools_are_hidden_from_models_and_refused(house: House) -> None:
    board = Board(A)
    wire = await house.join(board)
    model = house.caller()
    names = {tool["name"] for tool in (await house.ask("device_tools", {"device": A}, model))["tools"]}
    assert "self.reboot" not in names
    assert len(names) == 5
    tools = (await house.ask("device_tools", {"device": A}))["tools"]
    assert {tool["name"] for tool in tools if tool["user_only"]} >= {"self.reboot", "self.upgrade_firmware"}
    with pytest.raises(UserOnlyTool):
        await house.ask("device_call", {"device": A, "tool": "self.reboot"}, model)
    assert (board.restarts, wire.calls()) == (0, 0)
    info = await house.ask("device_call", {"device": A, "tool": "self.get_system_info"})
    assert A in info["text"]


async def test_a_tool_is_known_by_its_alias_too(house: House) -> None:
    await house.join(Board(A))
    tools = (await house.ask("device_tools", {"device": A}))["tools"]
    alias = next(tool["alias"] for tool in tools if tool["name"] == VOLUME)
    answer = await house.ask("device_call", {**volume(A), "tool": alias})
    assert (answer["tool"], answer["text"]) == (VOLUME, "true")


@pytest.mark.parametrize("value", [101, -1, "loud", None])
async def test_wrong_arguments_are_refused_before_anything_is_sent(house: House, value: object) -> None:
    wire = await house.join(Board(A))
    with pytest.raises(InvalidParams, match="volume"):
        await house.ask("device_call", volume(A, value))
    with pytest.raises(InvalidParams, match="loudness"):
        await house.ask("device_call", {**volume(A), "arguments": {"volume": 3, "loudness": 3}})
    assert wire.calls() == 0


async def test_what_is_not_there_is_said_with_what_to_do(house: House) -> None:
    wire = await house.join(Board(A))
    with pytest.raises(UnknownDevice, match="kitchen"):
        await house.ask("device_call", volume("kitchen"))
    with pytest.raises(UnknownDeviceTool, match="set_volume") as unknown:
        await house.ask("device_call", {"device": A, "tool": "self.audio.set_volume"})
    assert "device_tools" in unknown.value.guidance
    with pytest.raises(UnknownDeviceTool) as unlike:
        await house.ask("device_call", {"device": A, "tool": "self.nope"})
    assert unlike.value.message == "The device has no tool 'self.nope'."
    await house.leave(wire)
    with pytest.raises(DeviceOffline, match="since 20") as offline:
        await house.ask("device_call", volume(A))
    assert "queue_for" in offline.value.guidance
    assert len((await house.ask("device_tools", {"device": A}))["tools"]) == 12  # as last seen
    outcomes = [entry["outcome"] for entry in (await house.ask("device_log", {}))["calls"]]
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
    house: House, named: str, admin: bool, near: list[str]
) -> None:
    await house.join(Board(A))
    with pytest.raises(UnknownDeviceTool) as unknown:
        await house.ask("device_call", {"device": A, "tool": named}, house.caller(admin=admin))
    meant = unknown.value.message.partition("Did you mean ")[2]
    assert meant == (f"'{near[0]}'?" if near else "")


async def test_another_tenants_board_is_not_there(houses: Callable[..., House]) -> None:
    mine, other = houses(), houses()
    await mine.join(Board(A))
    with pytest.raises(UnknownDevice):
        await other.ask("device_call", volume(A))
    assert (await other.ask("devices_list", {}))["devices"] == []


async def test_several_boards_have_an_entry_each(house: House) -> None:
    first, second = Board(A), Board(B)
    await house.join(first)
    gone = await house.join(second)
    await house.leave(gone)
    for device in (A, B):
        await house.ask("device_label", {"device": device, "label": "desk"})
    answer = await house.ask("device_call", volume([A, B, "nowhere"], 12))
    assert answer["status"] == "partly"
    told = {one["device"]: one.get("error", {}).get("code", one["status"]) for one in answer["results"]}
    assert told == {A: "ok", B: "DEVICE_OFFLINE", "nowhere": "UNKNOWN_DEVICE"}
    await house.join(second, register=False)
    answer = await house.ask("device_call", volume("desk", 13))
    assert answer["status"] == "ok"
    assert [one["device"] for one in answer["results"]] == [A, B]
    assert (first.state.volume, second.state.volume) == (13, 13)


async def test_where_none_of_several_does_it_that_is_a_failure(house: House) -> None:
    await house.join(Board(A))
    with pytest.raises(DeviceFailed) as failed:
        await house.ask("device_call", volume([A, "nowhere"], 400))
    told = failed.value.details["devices"]
    assert [(one["device"], one["code"]) for one in told] == [(A, "INVALID_ARGUMENT"), ("nowhere", "UNKNOWN_DEVICE")]
    assert all("guidance" not in one for one in told)


async def test_where_all_fail_for_one_reason_that_is_the_failure(house: House) -> None:
    for device in (A, B):
        await house.join(Board(device))
    with pytest.raises(InvalidParams, match="volume") as alone:
        await house.ask("device_call", volume([A], 400))
    with pytest.raises(InvalidParams) as asked:
        await house.ask("device_call", volume(A, 400))
    assert alone.value.as_dict() == asked.value.as_dict(), "a list of one is that one"
    with pytest.raises(InvalidParams, match=r"^None of the devices did it\. 'volume'") as both:
        await house.ask("device_call", volume([A, B], 400))
    assert both.value.details["devices"] == [A, B]
    with pytest.raises(UnknownDevice, match=r"^None of the devices did it\.$") as unknown:
        await house.ask("device_call", volume(["x1", "x2"], 4))
    assert [in_words(one) for one in unknown.value.details["devices"]] == [
        "x1: There is no device 'x1', by id or by label.",
        "x2: There is no device 'x2', by id or by label.",
    ]
    assert "devices_list" in unknown.value.guidance


async def test_a_label_of_several_is_no_single_device(house: House) -> None:
    for device in (A, B):
        await house.join(Board(device))
        await house.ask("device_label", {"device": device, "label": " nhà  bếp"})
    with pytest.raises(InvalidParams, match="Several devices"):
        await house.ask("device_tools", {"device": "nhà bếp"})
    with pytest.raises(InvalidParams, match="comma"):
        await house.ask("device_label", {"device": A, "label": "a,b"})


def refuse(context: Context, arguments: dict[str, object]) -> str:
    raise Refused('The "lamp" is broken')


async def test_what_a_board_refuses_or_never_answers(house: House) -> None:
    wire = await house.join(Board(A, extra=[Tool("self.lamp.on", "Turns it on.", (), refuse)]))
    with pytest.raises(DeviceFailed, match='The "lamp" is broken'):
        await house.ask("device_call", {"device": A, "tool": "self.lamp.on"})
    wire.free.clear()
    with pytest.raises(DeviceTimeout):
        await house.ask("device_call", volume(A, 5, timeout=1))
    wire.free.set()
    outcomes = [entry["outcome"] for entry in (await house.ask("device_log", {}))["calls"]]
    assert outcomes == ["DEVICE_TIMEOUT", "DEVICE_FAILED"]


async def test_a_request_that_is_repeated_while_it_runs_is_carried_out_once(house: House) -> None:
    wire = await house.join(Board(A))
    receipts = SqlReceipts(house.db, house.clock)

    def request() -> Call:
        receipt = receipts.issue(house.tenant, f"{house.tenant}-once", "digest", lambda result: b"{}")
        return Call(house.caller(admin=True).principal, "actions", f"{house.tenant}-once", receipt=receipt)

    wire.free.clear()
    first = asyncio.create_task(house.ask("device_call", volume(A), request()))
    await wire.asked.wait()
    with pytest.raises(Conflict, match="already in progress"):
        await house.ask("device_call", volume(A), request())
    wire.free.set()
    assert (await first)["text"] == "true"
    assert wire.calls() == 1


async def test_secrets_are_masked_in_the_log(house: House) -> None:
    await house.join(Board(A))
    arguments = {"url": "http://me:hunter2@127.0.0.1/x?token=abc&v=1"}
    await house.ask("device_call", {"device": A, "tool": "self.assets.set_download_url", "arguments": arguments})
    [entry] = (await house.ask("device_log", {}))["calls"]
    assert entry["arguments"] == {"url": "http://***@127.0.0.1/x?token=***&v=1"}


async def test_notifications_are_kept_and_paged(house: House) -> None:
    board = Board(A)
    wire = await house.join(board)
    for mode in ("listening", "speaking", "idle"):
        await wire.say(*board.become(mode))
    await wire.say({"jsonrpc": "2.0", "method": "door/opened", "params": {"by": "An"}})
    await until_kept(house, 4)
    page = await house.ask("device_notifications", {"limit": 3})
    assert next(one["method"] for one in page["notifications"]) == "door/opened"
    rest = await house.ask("device_notifications", {"limit": 3, "cursor": page["next_cursor"]})
    assert len(rest["notifications"]) == 1
    assert "next_cursor" not in rest
    [opened] = (await house.ask("device_notifications", {"device": A, "method": "door/opened"}))["notifications"]
    assert opened["params"] == {"by": "An"}
    assert (await house.ask("device_notifications", {"since": "2999-01-01T00:00:00Z"}))["notifications"] == []
    assert wire.calls() == 0
    assert len(wire.heard) <= 4


@pytest.mark.parametrize("params", ["[1,2]", '"x"', "5", "true"])
async def test_what_an_earlier_version_kept_is_in_an_object(house: House, params: str) -> None:
    await house.join(Board(A))
    await house.db.write(
        lambda tx: tx.run(
            "INSERT INTO device_notifications (tenant, device, place, method, params, at, process) "
            "VALUES ($1, $2, 1, 'm', $3, $4, 'p')",
            house.tenant,
            A,
            params,
            house.clock(),
        )
    )
    [one] = (await house.ask("device_notifications", {}))["notifications"]
    assert one["params"] == {"value": json.loads(params)}


async def until_kept(house: House, number: int) -> None:
    async with asyncio.timeout(20):
        while len((await house.ask("device_notifications", {}))["notifications"]) < number:
            await house.settle()


async def test_the_log_is_paged_and_narrowed(house: House) -> None:
    await house.join(Board(A))
    await house.join(Board(B))
    for device in (A, B, A):
        await house.ask("device_call", volume(device))
    page = await house.ask("device_log", {"limit": 2})
    rest = await house.ask("device_log", {"limit": 2, "cursor": page["next_cursor"]})
    assert [one["device"] for one in page["calls"] + rest["calls"]] == [A, B, A]
    assert len((await house.ask("device_log", {"device": A, "tool": VOLUME}))["calls"]) == 2
    with pytest.raises(InvalidParams):
        await house.ask("device_log", {"cursor": page["next_cursor"] + "x!"})


async def test_a_board_is_approved_by_its_code_and_revoked(houses: Callable[..., House]) -> None:
    house = houses(by_code=True)
    pending = await house.registrations.register(D, "client", {"name": "desk"})
    assert pending.code is not None
    assert not pending.approved
    assert (await house.registrations.register(D, "client", {})).code == pending.code
    board = Board(D)
    with pytest.raises(NotApproved):
        await house.join(board)
    [waiting] = (await house.ask("devices_list", {}))["pending"]
    assert (waiting["device"], waiting["status"]) == (D, "pending")
    assert "pending" not in await house.ask("devices_list", {}, house.caller())
    with pytest.raises(UnknownCode):
        await house.ask("device_approve", {"code": "000000" if pending.code != "000000" else "000001"})
    with pytest.raises(Forbidden):
        await house.ask("device_approve", {"code": pending.code}, house.caller())
    approved = await house.ask("device_approve", {"code": pending.code, "label": "desk"})
    assert (approved["device"], approved["label"]) == (D, "desk")
    wire = await house.join(board)
    with pytest.raises(Forbidden):
        await house.ask("device_revoke", {"device": D}, house.caller())
    await house.ask("device_revoke", {"device": D})
    assert wire.closed is not None
    assert house.live.find(house.tenant, D) is None
    with pytest.raises(NotApproved, match="revoked"):
        await house.ask("device_call", volume(D))
    again = await house.registrations.register(D, "client", {})
    assert again.code is not None  # it has to be let in anew


async def test_a_code_runs_out(houses: Callable[..., House]) -> None:
    house = houses(by_code=True)
    first = await house.registrations.register(E, "client", {})
    house.clock.pass_(16 * 60)
    with pytest.raises(UnknownCode):
        await house.ask("device_approve", {"code": first.code})
    second = await house.registrations.register(E, "client", {})
    assert (await house.ask("device_approve", {"code": second.code}))["device"] == E


async def test_codes_cannot_be_guessed(houses: Callable[..., House]) -> None:
    house, other = houses(by_code=True), houses(by_code=True)
    known = await house.registrations.register("dd:04", "client", {})
    mine = await house.registrations.register("dd:05", "client", {})
    wrong = next(code for code in ("000000", "000001", "000002") if code not in (known.code, mine.code))

    async def guess(code: str | None) -> str:
        try:
            return (await house.ask("device_approve", {"code": code}))["device"]
        except KhoError as problem:
            return problem.code

    assert await guess(wrong) == "UNKNOWN_CODE"
    assert await guess(mine.code) == "dd:05", "a right one costs nothing, and buys nothing"
    outcomes = await asyncio.gather(*(guess(wrong) for _ in range(codes.MOST + 5)))
    assert (outcomes.count("UNKNOWN_CODE"), outcomes.count("TOO_MANY_GUESSES")) == (codes.MOST - 1, 6)
    with pytest.raises(codes.TooManyGuesses, match="No more are taken before 20") as refused:
        await house.ask("device_approve", {"code": known.code})
    assert refused.value.status == 429
    assert await guess("dd:05") == "dd:05", "an id is no guess"
    house.clock.pass_(codes.MINUTES * 60 + 1)
    again = await house.registrations.register("dd:04", "client", {})
    assert (await house.ask("device_approve", {"code": again.code}))["device"] == "dd:04"
    with pytest.raises(UnknownCode, match="shows this code") as unknown:
        await other.ask("device_approve", {"code": wrong})
    assert f"{codes.LASTS // (60 * SECOND)} minutes" in unknown.value.guidance


async def test_another_client_with_the_same_id_is_another_registration(houses: Callable[..., House]) -> None:
    house = houses(by_code=True)
    known = await house.registrations.register(F, "first", {})
    await house.ask("device_approve", {"code": known.code})
    stranger = await house.registrations.register(F, "second", {})
    assert not stranger.approved
    assert (await house.registrations.register(F, "first", {})).approved
    found = await house.registrations.find(F, "second")
    assert found is not None
    assert not found.approved


async def test_a_right_code_with_a_wrong_label_is_no_guess(houses: Callable[..., House]) -> None:
    house = houses(by_code=True)
    other = await house.registrations.register("dd:07", "client", {})
    await house.ask("device_approve", {"code": other.code})
    mine = await house.registrations.register("dd:06", "client", {})
    for label in ["dd:06", "dd:07"] * codes.MOST:  # its own id, and another's
        with pytest.raises(InvalidParams, match="choose another label"):
            await house.ask("device_approve", {"code": mine.code, "label": label})
    assert (await house.ask("device_approve", {"code": mine.code, "label": "hall"}))["device"] == "dd:06"


async def test_a_board_that_waits_for_approval_is_said_to(houses: Callable[..., House]) -> None:
    house = houses(by_code=True)
    waiting = await house.registrations.register("dd:08", "client", {})
    assert waiting.code is not None
    for operation, arguments in (("device_tools", {"device": "DD:08"}), ("device_call", volume("dd:08"))):
        with pytest.raises(NotApproved, match="waits to be approved") as refused:
            await house.ask(operation, arguments)
        assert "kho devices approve CODE" in refused.value.guidance
        assert waiting.code not in str(refused.value.as_dict()), "who approves it has to see the board"
    approved = await house.registrations.register("dd:09", "client", {})
    await house.ask("device_approve", {"code": approved.code})
    await house.join(Board("dd:09"))
    told = (await house.ask("device_call", volume(["dd:08", "dd:09"])))["results"]
    assert [one.get("error", {}).get("code", one["status"]) for one in told] == ["DEVICE_NOT_APPROVED", "ok"]
    await house.ask("device_forget", {"device": "dd:08"})
