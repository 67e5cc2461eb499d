"""The registry: what is found, what is run, and what a failure tells."""

import logging
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, model_validator
from tests.doors.doors import Boards
from tests.kernel.test_checkpoint import Ears

from kho.kernel.background import Background
from kho.kernel.call import Call, Principal
from kho.kernel.capability import Capability, Prompt
from kho.kernel.errors import Conflict, KhoError
from kho.kernel.operation import MAX_UNKNOWN, Operation
from kho.kernel.registry import Outcome, Registry

EVERYTHING = Principal("somebody", "acme", frozenset({"*"}))


class Params(BaseModel):
    model_config = ConfigDict(extra="forbid")
    size: int = Field(1, le=10)


class Result(BaseModel):
    size: int
    note: str | None = None


async def echo(params: Params, call: Call) -> Result:
    return Result(size=params.size)


def operation(name: str = "things.echo", **more: Any) -> Operation:
    given: dict[str, Any] = {"run": echo, "scope": "things", "tool": name, "rpc": name, "action": name, **more}
    return Operation(name, "Echoes.", Params, result=Result, **given)


def things(*operations: Operation, **more: Any) -> Capability:
    return Capability("things", "things-server", operations, **more)


def registry(*operations: Operation) -> Registry:
    return Registry([things(*operations)], Background())


async def run(found: Operation, arguments: Any, *, principal: Principal = EVERYTHING, **more: Any) -> Outcome:
    return await registry(found).call(found, arguments, Call(principal, **more))


async def test_an_operation_is_found_by_its_name_on_each_wire() -> None:
    found = operation(tool="a_tool", rpc="a/method", action="an-action")
    names = registry(found)
    assert names.tool("a_tool") is names.method("things-server/a/method") is names.action("an-action") is found
    assert (names.tool("an-action"), names.method("a/method"), names.action("a_tool")) == (None, None, None)
    assert (list(names.methods), list(names.actions)) == (["things-server/a/method"], ["an-action"])


async def test_what_an_unknown_parameter_holds_is_not_looked_at() -> None:
    class Untouchable(list[int]):
        def __iter__(self) -> Any:
            raise AssertionError("nobody needs to know what is in here")

    outcome = await run(operation(), {"size": 11, "x": Untouchable([1, 2]), "y": None})
    assert outcome.error is not None
    assert [problem["field"] for problem in outcome.error.details["problems"]] == ["size", "x", "y"]


async def test_of_many_unknown_parameters_some_are_named() -> None:
    outcome = await run(operation(), {**{f"n{n}": None for n in range(50_000)}, **{f"k{n}": [] for n in range(50_000)}})
    assert outcome.error is not None
    assert [one["field"] for one in outcome.error.details["problems"]] == [f"k{n}" for n in range(MAX_UNKNOWN)]


class Noting(BaseModel):
    """Notes in which thread it was read."""

    texts: list[str]
    thread: int = 0

    @model_validator(mode="after")
    def _note(self) -> "Noting":
        self.thread = threading.get_ident()
        return self


async def note(params: Noting, call: Call) -> int:
    return params.thread


async def test_large_arguments_are_read_off_the_event_loop() -> None:
    noting = Operation("things.note", "Notes.", Noting, note, "things")
    here = threading.get_ident()
    assert (await run(noting, {"texts": ["short"] * 1000})).result == here
    for texts in (["long" * 30_000], ["many"] * 30_000, ["x" * 60_000, "y" * 60_000]):
        assert (await run(noting, {"texts": texts})).result not in (here, None)


async def test_many_wrong_values_are_counted_and_not_listed() -> None:
    noting = Operation("things.note", "Notes.", Noting, note, "things")
    outcome = await run(noting, {"texts": [0] * 90_000})
    assert outcome.error is not None
    assert outcome.error.message == (
        "Invalid parameters: 90,000 values are wrong; 1,000 is the most that is listed. Compare them with the schema"
    )


@pytest.mark.parametrize("wire", ["tool", "action", "rpc"])
async def test_two_operations_of_one_name_are_refused(wire: str) -> None:
    same = {"tool": None, "action": None, "rpc": None, wire: "same"}
    with pytest.raises(ValueError, match=r"two operations are called .*same: things\.one and things\.two"):
        registry(operation("things.one", **same), operation("things.two", **same))


async def test_two_servers_may_have_methods_of_one_name() -> None:
    one, other = things(operation(tool=None, action=None)), things(operation(tool=None, action=None))
    assert len(Registry([one, replace(other, server="other-server")], Background()).methods) == 2


async def test_a_result_is_given_in_its_json_form() -> None:
    outcome = await run(operation(), {"size": 3})
    assert (outcome.value, outcome.result, outcome.error) == ({"size": 3}, Result(size=3), None)

    def shape(result: Result) -> Any:
        return {"ok": result.size}

    assert (await run(operation(shape=shape), {})).value == {"ok": 1}


async def test_wrong_arguments_name_the_field() -> None:
    wrong: list[tuple[Any, str]] = [({"size": 11}, "size"), ({"size": "x"}, "size"), ({"other": 1}, "other"), ([], "")]
    for arguments, field in wrong:
        error = (await run(operation(), arguments)).error
        assert error is not None
        assert error.code == "INVALID_ARGUMENT"
        assert [problem["field"] for problem in error.details["problems"]] == [field]
    poisoned = (await run(operation(), {"size": "x\0"})).error
    assert poisoned is not None
    assert poisoned.details["problems"] == [{"field": "size", "message": "Text must not contain the NUL character."}]


async def test_the_scope_is_needed() -> None:
    stranger = Principal("stranger", "acme", frozenset({"other"}))
    outcome = await run(operation(), {}, principal=stranger)
    assert outcome.error is not None
    assert (outcome.error.code, outcome.error.details) == ("FORBIDDEN", {"scope": "things"})
    names = registry(operation(), operation("other.echo", scope="other"))
    assert [found.name for found in names.operations(stranger)] == ["other.echo"]


async def test_a_failure_that_is_meant_is_passed_on() -> None:
    async def fail(params: Params, call: Call) -> Result:
        raise Conflict("taken", id="x")

    plain = await run(operation(run=fail), {})
    assert (plain.value, plain.error and plain.error.as_dict()) == (
        None, {"code": "CONFLICT", "message": "taken", "details": {"id": "x"}},
    )  # fmt: skip

    def envelope(error: KhoError) -> Any:
        return {"failed": error.code}

    assert (await run(operation(run=fail, shape_error=envelope), {})).value == {"failed": "CONFLICT"}


async def test_a_bug_is_INTERNAL_and_leaks_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def bug(params: Params, call: Call) -> Result:
        raise RuntimeError("secret ingredient")

    async def bad_shape(params: Params, call: Call) -> Result:
        return Result(size=1)

    def explode(result: Any) -> Any:
        raise ZeroDivisionError("secret ingredient")

    for broken in (operation(run=bug), operation(run=bad_shape, shape=explode)):
        caplog.clear()
        with caplog.at_level(logging.ERROR):
            outcome = await run(broken, {}, request_id="r-1")
        assert outcome.error is not None
        assert outcome.error.as_dict() == {
            "code": "INTERNAL",
            "message": "Something went wrong inside Kho. The request id finds it in the log.",
            "details": {"request_id": "r-1"},
        }
        [record] = caplog.records
        assert record.exc_info is not None
        assert "secret ingredient" in caplog.text


async def test_observers_see_every_outcome() -> None:
    seen: list[tuple[str, str, bool]] = []

    def observe(operation: Operation, call: Call, outcome: Outcome, seconds: float) -> None:
        assert seconds >= 0
        seen.append((operation.name, call.door, outcome.error is None))

    found = operation()
    names = registry(found)
    names.observers.append(observe)
    await names.call(found, {}, Call(EVERYTHING, "here"))
    await names.call(found, {"size": 11}, Call(EVERYTHING, "there"))
    assert seen == [("things.echo", "here", True), ("things.echo", "there", False)]


async def test_what_follows_an_answer_is_run_after_it() -> None:
    order: list[str] = []

    async def work(params: Params, call: Call) -> Result:
        async def later() -> None:
            order.append("later")

        call.after(later)
        order.append("answer")
        return Result(size=1)

    background = Background()
    found = operation(run=work)
    await Registry([things(found)], background).call(found, {}, Call(EVERYTHING))
    assert order == ["answer"]
    await background.drain()
    assert order == ["answer", "later"]


async def test_live_operations_come_and_go_and_say_so() -> None:
    boards = Boards()
    names = Registry([things(operation()), boards.capability], Background())
    changes: list[list[str]] = []

    class Noting(Ears):
        def tools_changed(self, changed: Sequence[Operation]) -> None:
            changes.append([found.name for found in names.operations(EVERYTHING)][-2:])

    names.checkpoint.listen(EVERYTHING, Noting())
    assert names.tool("lamp", EVERYTHING) is None
    boards.plug("lamp")
    lamp = names.tool("lamp", EVERYTHING)
    assert lamp is not None
    assert (await names.call(lamp, {}, Call(EVERYTHING))).value == {"board": "lamp"}
    boards.plug("fan")
    boards.unplug("lamp")
    assert names.tool("lamp", EVERYTHING) is None
    assert changes == [["boards.fail", "boards.lamp"], ["boards.lamp", "boards.fan"], ["boards.fail", "boards.fan"]]


async def test_a_live_operation_cannot_take_a_slice_s_name() -> None:
    boards = Boards()
    names = Registry([things(operation(tool="echo")), boards.capability], Background())
    boards.plug("echo")
    found = names.tool("echo", EVERYTHING)
    assert found is not None
    assert found.name == "things.echo"


async def test_live_operations_need_their_scope() -> None:
    boards = Boards()
    boards.plug("lamp")
    names = Registry([boards.capability], Background())
    stranger = Principal("stranger", "acme", frozenset({"other"}))
    assert list(names.operations(stranger)) == []
    assert names.tool("lamp", stranger) is None
    outcome = await names.call(boards.plugged["lamp"], {}, Call(stranger))
    assert isinstance(outcome.error, KhoError)
    assert outcome.error.code == "FORBIDDEN"


async def test_prompts_are_for_those_with_their_scope() -> None:
    async def render(arguments: dict[str, str], call: Call) -> str:
        return "text"

    prompt = Prompt("p", "A prompt.", render, scope="things")
    checkpoint = Registry([things(prompts=(prompt,))], Background()).checkpoint
    for scopes, prompts in (({"things"}, ["p"]), ({"*"}, ["p"]), ({"other"}, [])):
        [seen] = checkpoint.visible(Principal("bot", "acme", frozenset(scopes)))
        assert [one.name for one in seen.prompts] == prompts
