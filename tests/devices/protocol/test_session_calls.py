"""Calls of a session: one at a time, each with its end, and what else may come in between."""

import json
from collections import Counter
from typing import Any

import pytest
from tests.devices.protocol.session_frames import HELLO, INITIALIZED, VOLUME, error, greeted, ready, say, sent, session

from kho.devices.protocol.session import RELIST, RENEW
from kho.devices.protocol.session_events import CallAnswered, CallResult, Ready, Send, Trouble
from kho.simulator.board import Board


def test_one_call_is_in_flight() -> None:
    machine = session()
    ready(machine)
    [first] = sent(machine.call(1, "x", {}, 30, 0))
    assert machine.call(2, "y", {}, 30, 0) == []
    assert machine.waiting == 2
    answer, *rest = say(machine, id=first["id"], result={"content": []})
    assert answer == CallAnswered(1, CallResult([]))
    [second] = sent(rest)
    assert second["params"]["name"] == "y"
    assert machine.waiting == 1


def test_a_call_waits_until_the_board_is_ready() -> None:
    machine = session()
    assert machine.call(1, "x", {}, 30, 0) == []
    request = greeted(machine)
    [listing] = sent(say(machine, id=request["id"], result=INITIALIZED))
    *_, call = sent(say(machine, id=listing["id"], result={"tools": [VOLUME]}))
    assert call["method"] == "tools/call"


def test_a_call_times_out_and_its_late_answer_is_ignored() -> None:
    machine = session()
    ready(machine)
    [first] = sent(machine.call(1, "x", {}, 30, 0))
    machine.call(2, "y", {}, 40, 0)
    machine.call(3, "z", {}, 10, 0)
    assert machine.next_tick() == 10
    assert machine.tick(9) == []
    unsent = error(machine.tick(10))
    assert (unsent.kind, unsent.sent) == ("timeout", False)
    assert machine.next_tick() == 30
    acts = machine.tick(30)
    assert (error(acts).kind, error(acts).sent) == ("timeout", True)
    [second] = sent(acts)
    assert second["params"]["name"] == "y"
    assert say(machine, 31, id=first["id"], result={"content": []}) == [Trouble("late answer")]
    assert say(machine, 31, id=first["id"], result={"content": []}) == [Trouble("answer to nothing")]
    assert isinstance(say(machine, 32, id=second["id"], result={"content": []})[0], CallAnswered)
    assert machine.next_tick() is None


@pytest.mark.parametrize("id", [99, -1, None, "x", 4.5, "", "٣"])
def test_an_answer_to_nothing_is_counted(id: Any) -> None:
    machine = session()
    ready(machine)
    machine.call(1, "x", {}, 30, 0)
    assert say(machine, id=id, result={}) == [Trouble("answer to nothing")]
    assert machine.troubles["answer to nothing"] == 1


@pytest.mark.parametrize("form", [str, float, int])
def test_an_id_may_come_back_in_another_form(form: type[Any]) -> None:
    machine = session()
    ready(machine)
    [call] = sent(machine.call(1, "x", {}, 30, 0))
    assert say(machine, id=form(call["id"]), result="ok") == [
        CallAnswered(1, CallResult([{"type": "text", "text": "ok"}]))
    ]


def test_ids_stay_within_32_bits() -> None:
    machine = session()
    ready(machine)
    machine._last_id = 2**31 - 2  # pyright: ignore[reportPrivateUsage] (2 billion calls take too long)
    ids: list[int] = []
    for number in range(3):
        [call] = sent(machine.call(number, "x", {}, 30, 0))
        ids.append(call["id"])
        say(machine, id=call["id"], result={})
    assert ids == [2**31 - 1, 1, 2]


def test_a_board_that_asks_is_told_that_there_is_nothing() -> None:
    machine = session()
    [answer] = sent(say(machine, id=5, method="sampling/createMessage", params={}))
    assert answer == {"jsonrpc": "2.0", "id": 5, "error": {"code": -32601, "message": "Method not found"}}
    assert sent(say(machine, id="p", method="ping")) == [{"jsonrpc": "2.0", "id": "p", "result": {}}]
    assert sent(machine.received('{"type":"ping"}', 0)) == [{"type": "pong", "session_id": "s"}]


@pytest.mark.parametrize("kind", ["goodbye", "listen", "abort"])
def test_speech_is_none_of_our_business(kind: str) -> None:
    machine = session()
    ready(machine)
    assert machine.received(json.dumps({"type": kind, "session_id": "s"}), 0) == []
    assert machine.state == "ready"
    assert not machine.troubles


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("no JSON", "unreadable frame"),
        ('{"type":"iot"}', "unknown frame"),
        ("{}", "unknown frame"),
        ('{"type":["mcp"]}', "unknown frame"),
        ('{"type":"mcp"}', "unreadable message"),
        ('{"type":"mcp","payload":{}}', "unreadable message"),
        ('{"type":"mcp","payload":{"id":{},"result":1}}', "unreadable message"),
    ],
)
def test_odd_frames_are_counted(text: str, what: str) -> None:
    machine = session()
    ready(machine)
    assert machine.received(text, 0) == [Trouble(what)]
    assert machine.troubles == Counter({what: 1})
    assert machine.state == "ready"


def test_messages_without_an_envelope_are_read() -> None:
    machine = session()
    greeted(machine)
    [listing] = sent(machine.received(json.dumps({"jsonrpc": "2.0", "id": 1, "result": INITIALIZED}), 0))
    machine.received(json.dumps({"id": listing["id"], "result": {"tools": []}}), 0)
    assert machine.state == "ready"


def test_an_error_as_firmware_writes_it() -> None:
    machine = session()
    ready(machine)
    [call] = sent(machine.call(1, 'a "b"', {}, 30, 0))
    inner = '{"jsonrpc":"2.0","id":' + str(call["id"]) + ',"error":{"message":"Unknown tool: a "b""}}'
    acts = machine.received('{"session_id":"","type":"mcp","payload":' + inner + "}", 0)
    assert error(acts).message == 'Unknown tool: a "b"'


def test_tools_are_listed_again_when_they_changed() -> None:
    machine = session()
    ready(machine, VOLUME)
    [call] = sent(machine.call(1, "x", {}, 30, 0))
    assert sent(say(machine, method="notifications/tools/list_changed")) == []
    answer, *rest = say(machine, id=call["id"], result={})
    assert isinstance(answer, CallAnswered)
    [listing] = sent(rest)
    assert listing["method"] == "tools/list"
    assert Ready(machine.info, ()) in say(machine, id=listing["id"], result={"tools": []})
    [listing] = sent(machine.refresh(0))
    assert sent(say(machine, method="notifications/tools/list_changed")) == []
    assert sent(say(machine, id=listing["id"], result={"tools": []})) == []
    assert machine.next_tick() == RELIST
    [listing] = sent(machine.tick(RELIST))
    assert listing["method"] == "tools/list"


def test_a_flood_of_changes_is_listed_once_a_second() -> None:
    machine = session()
    ready(machine, VOLUME)
    asked = 0
    for frame in range(1_000):
        now = frame / 100
        for request in sent([*say(machine, now, method="notifications/tools/list_changed"), *machine.tick(now)]):
            asked += 1
            say(machine, now, id=request["id"], result={"tools": [VOLUME]})
    assert asked == 10
    assert machine.next_tick() == 10.0, "the last change is not forgotten"
    assert [request["method"] for request in sent(machine.tick(10.0))] == ["tools/list"]
    machine.call(1, "x", {}, 30, 10.0)
    assert machine.waiting == 1, "a call waits for the listing, and no longer"


def test_arguments_that_are_no_json_fail_alone() -> None:
    machine = session()
    ready(machine)
    refusal = error(machine.call(1, "x", {"a": 2**70}, 30, 0))
    assert (refusal.kind, refusal.sent) == ("refused", False)
    assert len(sent(machine.call(2, "x", {}, 30, 0))) == 1


def test_a_call_that_nobody_waits_for_is_not_sent() -> None:
    machine = session()
    ready(machine)
    [first] = sent(machine.call(1, "x", {}, 30, 0))
    machine.call(2, "y", {}, 30, 0)
    machine.withdraw(2)
    assert sent(say(machine, id=first["id"], result={})) == []


def test_a_dropped_connection_fails_everything_at_once() -> None:
    machine = session()
    ready(machine)
    machine.call(1, "x", {}, 30, 0)
    machine.call(2, "y", {}, 30, 0)
    acts = machine.dropped()
    assert [
        (act.number, act.error.kind, act.error.sent) for act in acts if isinstance(act, CallAnswered) and act.error
    ] == [
        (1, "gone", True),
        (2, "gone", False),
    ]
    assert machine.state == "closed"
    assert machine.received(json.dumps(HELLO), 0) == []
    assert machine.opened(0) == machine.tick(99) == machine.keep_alive() == machine.dropped() == []
    assert error(machine.call(3, "x", {}, 30, 0)).kind == "gone"


def test_a_frame_that_keeps_the_channel_open_is_ignored_by_boards() -> None:
    machine = session()
    assert machine.keep_alive() == []
    ready(machine)
    [act] = machine.keep_alive()
    assert isinstance(act, Send)
    assert Board("b").hear(act.text) == []


def test_a_board_that_has_been_there_for_long_gets_a_new_token_before_its_next_call() -> None:
    given = iter(["t-1", "t-2"])
    machine = session(vision=lambda: ("http://hub/v", next(given)))
    ready(machine)
    assert sent(machine.call(1, "x", {}, 30, RENEW - 1))[0]["method"] == "tools/call"
    say(machine, RENEW - 1, id=3, result={"content": []})
    [again] = sent(machine.call(2, "self.camera.take_photo", {}, 30, RENEW))
    assert again["params"]["capabilities"]["vision"]["token"] == "t-2"
    [listing] = sent(say(machine, RENEW, id=again["id"], result=INITIALIZED))
    *_, call = sent(say(machine, RENEW, id=listing["id"], result={"tools": [VOLUME]}))
    assert (call["method"], call["params"]["name"]) == ("tools/call", "self.camera.take_photo")
    assert say(machine, RENEW, id=call["id"], result={"content": []}) == [CallAnswered(2, CallResult([]))]


@pytest.mark.parametrize("transport", ["mqtt", "udp"])
@pytest.mark.parametrize("listing", [False, True])
def test_a_conversation_that_opens_meanwhile_takes_no_call_away(transport: str, listing: bool) -> None:
    machine = session(vision=lambda: ("http://hub/v", "t"))
    ready(machine)
    [asked] = sent(machine.call(1, "x", {}, 30, RENEW))
    if listing:
        say(machine, RENEW, id=asked["id"], result=INITIALIZED)
    hello, again = sent(machine.received(json.dumps({**HELLO, "transport": transport}), RENEW + 1))
    assert (hello["type"], again["method"]) == ("hello", "initialize")
    [listed] = sent(say(machine, RENEW + 2, id=again["id"], result=INITIALIZED))
    *_, call = sent(say(machine, RENEW + 2, id=listed["id"], result={"tools": [VOLUME]}))
    assert say(machine, RENEW + 2, id=call["id"], result={"content": []}) == [CallAnswered(1, CallResult([]))]


@pytest.mark.parametrize("vision", [None, lambda: None])
def test_where_there_are_no_photos_nothing_needs_to_be_renewed(vision: Any) -> None:
    machine = session(vision=vision)
    ready(machine)
    assert sent(machine.call(1, "x", {}, 30, 10 * RENEW))[0]["method"] == "tools/call"


@pytest.mark.parametrize(
    ("text", "failed"),
    [
        ('{"success": false, "message": "no"}', True),
        (' {"success":false}', True),
        ('{"success": true, "response": "a cup"}', False),
        ('{"success": 0}', False),
        ('{"result": {"success": false}}', False),
        ("false", False),
        ('success: "false"', False),
    ],
)
def test_a_tool_that_says_itself_that_it_was_no_success_has_failed(text: str, failed: bool) -> None:
    machine = session()
    ready(machine)
    [asked] = sent(machine.call(1, "x", {}, 30, 0))
    content = [{"type": "text", "text": text}]
    result = {"content": content, "isError": False}
    assert say(machine, id=asked["id"], result=result) == [CallAnswered(1, CallResult(content, failed))]
