"""A conversation with a session, frame by frame."""

import json
from typing import Any

from kho.devices.protocol.session import Session
from kho.devices.protocol.session_events import Act, BoardError, CallAnswered, Ready, Send

HELLO: dict[str, Any] = {
    "type": "hello",
    "version": 1,
    "features": {"mcp": True},
    "transport": "websocket",
    "audio_params": {},
}
INITIALIZED: dict[str, Any] = {
    "protocolVersion": "2024-11-05",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "bread-compact", "version": "2.4.2"},
}
VOLUME: dict[str, Any] = {
    "name": "self.audio_speaker.set_volume",
    "description": "...",
    "inputSchema": {
        "type": "object",
        "properties": {"volume": {"type": "integer", "description": "...", "minimum": 0, "maximum": 100}},
        "required": ["volume"],
    },
}


def session(**rest: Any) -> Session:
    return Session(session_id="s", **rest)


def sent(acts: list[Act]) -> list[Any]:
    """What goes to the board, without the envelope."""
    frames = [json.loads(act.text) for act in acts if isinstance(act, Send)]
    assert all(frame["session_id"] == "s" for frame in frames)
    return [frame["payload"] if frame["type"] == "mcp" else frame for frame in frames]


def say(machine: Session, now: float = 0.0, **payload: Any) -> list[Act]:
    frame = {"session_id": "", "type": "mcp", "payload": {"jsonrpc": "2.0", **payload}}
    return machine.received(json.dumps(frame), now)


def greeted(machine: Session, now: float = 0.0) -> Any:
    """The request `initialize` that follows a hello."""
    _, request = sent(machine.received(json.dumps(HELLO), now))
    assert request["method"] == "initialize"
    return request


def ready(machine: Session, *tools: dict[str, Any], now: float = 0.0) -> None:
    request = greeted(machine, now)
    [listing] = sent(say(machine, now, id=request["id"], result=INITIALIZED))
    acts = say(machine, now, id=listing["id"], result={"tools": [*tools]})
    assert any(isinstance(act, Ready) for act in acts)
    assert machine.state == "ready"


def error(acts: list[Act]) -> BoardError:
    [answer] = [act for act in acts if isinstance(act, CallAnswered)]
    assert answer.error is not None
    return answer.error
