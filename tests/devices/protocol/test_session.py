"""The session: every message of the contract in both directions, and the handshake with boards in the field."""

import json
from typing import Any

import pytest
from tests.devices.protocol.session_frames import HELLO, INITIALIZED, VOLUME, error, greeted, ready, say, sent, session

from kho.devices.protocol.session_events import BoardError, CallAnswered, CallResult, Info, Notified, Ready, Trouble
from kho.devices.protocol.tool_listing import BoardTool


def test_the_conversation_of_the_contract() -> None:
    machine = session(vision=lambda: ("http://hub/vision/explain", "t-1"))
    assert machine.state == "hello"

    hello, initialize = sent(machine.received(json.dumps(HELLO), 0))
    assert (hello["type"], hello["transport"], hello["session_id"]) == ("hello", "websocket", "s")
    assert initialize == {
        "jsonrpc": "2.0",
        "method": "initialize",
        "params": {"capabilities": {"vision": {"url": "http://hub/vision/explain", "token": "t-1"}}},
        "id": 1,
    }
    assert machine.state == "initializing"

    [listing] = sent(say(machine, id=1, result=INITIALIZED))
    assert listing == {
        "jsonrpc": "2.0",
        "method": "tools/list",
        "params": {"cursor": "", "withUserTools": True},
        "id": 2,
    }
    assert machine.state == "listing"

    [page] = sent(say(machine, id=2, result={"tools": [VOLUME], "nextCursor": "self.reboot"}))
    assert page["params"] == {"cursor": "self.reboot", "withUserTools": True}
    reboot = {"name": "self.reboot", "description": "x", "annotations": {"audience": ["user"]}}
    acts = say(machine, id=3, result={"tools": [reboot], "nextCursor": ""})
    assert acts == [
        Ready(
            Info("bread-compact", "2.4.2", "2024-11-05"),
            (
                BoardTool("self.audio_speaker.set_volume", "...", VOLUME["inputSchema"], False),
                BoardTool("self.reboot", "x", {"type": "object", "properties": {}}, True),
            ),
        )
    ]

    [call] = sent(machine.call(7, "self.audio_speaker.set_volume", {"volume": 50}, 30, 0))
    assert call == {
        "jsonrpc": "2.0",
        "method": "tools/call",
        "params": {"name": "self.audio_speaker.set_volume", "arguments": {"volume": 50}},
        "id": 4,
    }
    content = [{"type": "text", "text": "true"}]
    assert say(machine, id=4, result={"content": content, "isError": False}) == [CallAnswered(7, CallResult(content))]

    machine.call(8, "self.non_existent_tool", {}, 30, 0)
    failure: dict[str, Any] = {"code": -32601, "message": "Unknown tool: self.non_existent_tool"}
    assert error(say(machine, id=5, error=failure)) == BoardError("refused", failure["message"], -32601)

    changed = {"newState": "idle", "oldState": "connecting"}
    assert say(machine, method="notifications/state_changed", params=changed) == [
        Notified("notifications/state_changed", changed)
    ]
    assert say(machine, method="battery_low", params={"level": 5}) == [Notified("battery_low", {"level": 5})]
    assert not machine.troubles


@pytest.mark.parametrize("transport", ["websocket", "mqtt", "udp"])
def test_the_transport_of_the_hello_is_mirrored(transport: str) -> None:
    hello, _ = sent(session().received(json.dumps({**HELLO, "transport": transport}), 0))
    assert hello["transport"] == transport


@pytest.mark.parametrize("transport", [None, "pigeon", 5, [], {}])
def test_a_transport_that_nobody_knows_is_answered_as_websocket(transport: Any) -> None:
    hello, _ = sent(session().received(json.dumps({**HELLO, "transport": transport}), 0))
    assert hello["transport"] == "websocket"


def test_a_transport_adds_to_the_hello() -> None:
    def block(hello: dict[str, Any]) -> dict[str, Any]:
        return {"transport": "udp", "udp": {"port": hello["version"]}}

    machine = session(server_hello=block)
    hello, _ = sent(machine.received(json.dumps({**HELLO, "transport": "mqtt"}), 0))
    assert hello["transport"] == "udp"
    assert hello["udp"] == {"port": 1}


@pytest.mark.parametrize("features", [{}, {"mcp": False}, {"mcp": "yes"}, None, ["mcp"]])
def test_a_board_without_mcp_is_greeted_and_left_alone(features: Any) -> None:
    """Nor is one whose hello says nothing of what it can do: the hub asks a board once that has said it speaks MCP."""
    machine = session()
    acts = machine.received(json.dumps({**HELLO, "features": features}), 0)
    assert [frame["type"] for frame in sent(acts)] == ["hello"]
    assert Trouble("board without MCP") in acts
    assert error(machine.call(1, "x", {}, 5, 0)).message == "The board does not speak MCP. The call was not sent."
    ready(machine)


def test_a_board_that_never_says_hello_is_asked_at_once() -> None:
    machine = session()
    [request] = sent(machine.opened(0))
    assert request["method"] == "initialize"
    assert request["params"] == {"capabilities": {}}
    assert machine.opened(0) == []


def test_a_first_hello_keeps_the_calls_that_wait() -> None:
    machine = session()
    machine.opened(0)
    assert machine.call(1, "x", {}, 60, 0) == []
    acts = machine.received(json.dumps(HELLO), 1)
    assert not [act for act in acts if isinstance(act, CallAnswered)]
    [listing] = sent(say(machine, 1, id=2, result=INITIALIZED))
    acts = say(machine, 1, id=listing["id"], result={"tools": []})
    assert [payload["method"] for payload in sent(acts)] == ["tools/call"]


@pytest.mark.parametrize("transport", ["mqtt", "udp"])
def test_a_conversation_that_opens_over_mqtt_does_not_end_a_call(transport: str) -> None:
    machine = session()
    ready(machine, VOLUME)
    [call] = sent(machine.call(7, VOLUME["name"], {"volume": 3}, 30, 1))
    [hello] = sent(machine.received(json.dumps({**HELLO, "transport": transport}), 2))
    assert hello["type"] == "hello"
    acts = say(machine, 3, id=call["id"], result={"content": [{"type": "text", "text": "true"}]})
    assert [act.number for act in acts if isinstance(act, CallAnswered)] == [7]


def test_a_second_hello_begins_anew_and_fails_what_waits() -> None:
    machine = session()
    ready(machine)
    machine.call(1, "x", {}, 30, 0)
    machine.call(2, "y", {}, 30, 0)
    acts = machine.received(json.dumps(HELLO), 1)
    answers = {act.number: act.error for act in acts if isinstance(act, CallAnswered)}
    assert answers[1] is not None
    assert answers[2] is not None
    assert (answers[1].kind, answers[1].sent) == ("gone", True)
    assert (answers[2].kind, answers[2].sent) == ("gone", False)
    assert machine.state == "initializing"
    assert sent(acts)[1]["id"] > 3  # ids go on: an answer from before cannot be mistaken


def test_initialize_is_asked_three_times() -> None:
    machine = session()
    first = greeted(machine, now=0)
    [second] = sent(machine.tick(10))
    [third] = sent(machine.tick(30))
    assert [first["id"], second["id"], third["id"]] == [1, 2, 3]
    assert machine.tick(70) == [Trouble("handshake unanswered")]
    assert machine.next_tick() is None
    # An answer that is late is an answer.
    [listing] = sent(say(machine, 80, id=2, result=INITIALIZED))
    assert listing["method"] == "tools/list"


def test_a_board_that_kept_silent_is_asked_again_when_it_is_called() -> None:
    machine = session()
    greeted(machine)
    for now in (10, 30, 70):
        machine.tick(now)
    [request] = sent(machine.call(1, "x", {}, 30, 100))
    assert request["method"] == "initialize"
    [listing] = sent(say(machine, 101, id=request["id"], result=INITIALIZED))
    *_, call = sent(say(machine, 102, id=listing["id"], result={"tools": []}))
    assert call["method"] == "tools/call"


def test_a_page_that_is_not_answered_is_asked_again_and_then_done_without() -> None:
    machine = session()
    greeted(machine)
    say(machine, id=1, result=INITIALIZED)
    say(machine, id=2, result={"tools": [VOLUME], "nextCursor": "more"})
    assert [payload["params"]["cursor"] for payload in sent(machine.tick(10))] == ["more"]
    machine.tick(30)
    acts = machine.tick(70)
    assert Trouble("page unanswered") in acts
    assert [tool.name for tool in machine.tools] == ["self.audio_speaker.set_volume"]
    assert machine.state == "ready"


def test_an_initialize_that_is_refused_is_no_obstacle() -> None:
    machine = session()
    greeted(machine)
    acts = say(machine, id=1, error={"message": "Method not implemented: initialize"})
    assert Trouble("initialize refused") in acts
    assert sent(acts)[0]["method"] == "tools/list"


def test_a_page_over_the_size_limit_keeps_what_came() -> None:
    machine = session()
    greeted(machine)
    say(machine, id=1, result=INITIALIZED)
    say(machine, id=2, result={"tools": [VOLUME], "nextCursor": "big"})
    acts = say(machine, id=3, error={"message": "Failed to add tool big because of payload size limit"})
    assert machine.state == "ready"
    assert acts == [Trouble("page refused"), Ready(machine.info, machine.tools)]
    assert len(machine.tools) == 1


def test_a_first_page_that_is_refused_is_asked_without_user_tools() -> None:
    machine = session()
    greeted(machine)
    say(machine, id=1, result=INITIALIZED)
    [again] = sent(say(machine, id=2, error={"message": "no"}))
    assert again["params"] == {"cursor": ""}
    acts = say(machine, id=3, error={"message": "no"})
    assert Ready(machine.info, ()) in acts
