"""Anything at any time: no order of events breaks a session, and every call ends exactly once."""

import json
from collections import Counter
from typing import Any, get_args

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.devices.protocol.session_frames import session

from kho.devices.protocol.session_events import Act, CallAnswered, Send
from kho.simulator.board import Board, HangUp, Say
from kho.simulator.faults import Fault

VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
RESULT = VALUE | st.fixed_dictionaries(
    {
        "tools": st.lists(
            VALUE | st.fixed_dictionaries({"name": st.text(max_size=5)}, optional={"inputSchema": VALUE}), max_size=4
        )
    },
    optional={"nextCursor": st.text(max_size=3) | VALUE},
)
PAYLOAD = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0"),
        "id": st.integers(0, 12) | VALUE,
        "method": st.sampled_from(["initialize", "notifications/x", "notifications/tools/list_changed"]) | VALUE,
        "params": VALUE,
        "result": RESULT,
        "error": VALUE | st.fixed_dictionaries({"message": VALUE}),
    },
)
FRAME = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["hello", "mcp", "mcp", "mcp", "goodbye", "listen", "abort", "ping", "x"]) | VALUE,
        "payload": PAYLOAD | PAYLOAD.map(json.dumps) | VALUE,
        "features": VALUE | st.just({"mcp": True}),
        "transport": VALUE,
    },
)
EVENT = st.one_of(
    st.tuples(st.just("hear"), FRAME.map(json.dumps) | PAYLOAD.map(json.dumps) | st.text(max_size=30)),
    st.tuples(st.just("call"), st.integers(1, 60)),
    st.tuples(st.just("wait"), st.integers(1, 60)),
    st.tuples(st.just("open"), st.none()),
    st.tuples(st.just("refresh"), st.none()),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(EVENT, max_size=25))
def test_nothing_that_happens_keeps_a_board_from_becoming_ready(events: list[tuple[str, Any]]) -> None:
    machine, now, calls = session(), 0.0, 0
    ended: Counter[int] = Counter()
    acts: list[Act] = []
    for kind, value in events:
        match kind:
            case "hear":
                acts = machine.received(value, now)
            case "call":
                acts = machine.call(calls, "x", {}, value, now)
                calls += 1
            case "wait":
                now += value
                acts = machine.tick(now)
            case "open":
                acts = machine.opened(now)
            case _:
                acts = machine.refresh(now)
        ended.update(act.number for act in acts if isinstance(act, CallAnswered))
        due = machine.next_tick()
        assert due is None or due > now
    board = Board("b")
    heard = machine.received(board.hello(), now)
    ended.update(act.number for act in heard if isinstance(act, CallAnswered))
    while texts := [act.text for act in heard if isinstance(act, Send)]:
        heard = [
            act
            for text in texts
            for said in board.hear(text)
            if isinstance(said, Say)
            for act in machine.received(said.text, now)
        ]
        ended.update(act.number for act in heard if isinstance(act, CallAnswered))
    assert machine.state == "ready"
    assert len(machine.tools) == 12
    ended.update(act.number for act in machine.dropped() if isinstance(act, CallAnswered))
    assert ended == Counter(range(calls))


FAULT: st.SearchStrategy[Fault] = st.sampled_from(get_args(Fault))


@settings(max_examples=200, deadline=None)
@given(
    st.lists(FAULT | st.none(), max_size=8),
    st.lists(
        st.tuples(st.sampled_from(["self.get_device_status", "self.reboot", "no such"]), st.integers(1, 40)), max_size=6
    ),
)
def test_against_a_faulty_board_every_call_ends_exactly_once(
    faults: list[Fault | None], calls: list[tuple[str, int]]
) -> None:
    board, machine, now = Board("b"), session(), 0.0
    ended: Counter[int] = Counter()
    wire: list[tuple[float, str]] = []
    for number, fault in enumerate(faults):
        if fault is not None:
            for _ in range(number % 3 + 1):
                board.fail(fault)

    def do(acts: list[Act]) -> None:
        for act in acts:
            if isinstance(act, CallAnswered):
                ended[act.number] += 1
            elif isinstance(act, Send):
                for said in board.hear(act.text):
                    if isinstance(said, HangUp):
                        do(machine.dropped())
                    else:
                        wire.append((now + said.after, said.text))

    do(machine.received(board.hello(), now))
    for number, (tool, timeout) in enumerate(calls):
        do(machine.call(number, tool, {}, timeout, now))
    while wire or machine.next_tick() is not None:
        wire.sort(key=lambda message: message[0])
        due = machine.next_tick()
        if wire and (due is None or wire[0][0] <= due):
            at, text = wire.pop(0)
            now = max(now, at)
            do(machine.received(text, now))
        elif due is not None:
            now = max(now, due)
            do(machine.tick(now))
    assert ended == Counter(range(len(calls)))
    assert machine.waiting == 0
