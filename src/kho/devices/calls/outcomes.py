"""Outcomes of calls: for the log, for the answer, and for MCP clients."""

from collections.abc import Sequence
from typing import Any

from kho.devices import model
from kho.devices.calls import call_log, queue
from kho.devices.calls.queue import text_of
from kho.devices.errors import BoardGone, BoardRefused, CallTimedOut, DeviceFailed
from kho.devices.protocol.session_events import CallResult
from kho.kernel import Call, KhoError
from kho.lib.clock import iso
from kho.lib.dataclass import dataclass

NONE = "No device executed the call."


@dataclass(frozen=True, slots=True)
class CallOutcome:
    device: str
    tool: str
    arguments: dict[str, Any]
    result: CallResult | None = None
    problem: KhoError | None = None
    ms: int | None = None
    queued: bool = False

    @property
    def outcome(self) -> str:
        if self.queued:
            return queue.QUEUED
        return self.problem.code if self.problem else "ok"

    @property
    def heard(self) -> bool:
        """True if the device executed the call, may have done so, or is going to (queued)."""
        reached = isinstance(self.problem, BoardGone | BoardRefused | CallTimedOut)
        unknown = reached and self.problem is not None and self.problem.details.get("sent") is not False
        return self.queued or self.result is not None or unknown

    @property
    def message(self) -> str:
        if self.problem is not None:
            return self.problem.message
        return text_of(self.result) if self.result is not None else ""


def line(one: CallOutcome, call: Call, now: int) -> call_log.LoggedCall:
    return call_log.LoggedCall(
        call=0,
        device=one.device,
        tool=one.tool,
        arguments=one.arguments,
        caller=call.principal.sub,
        door=call.door,
        request_id=call.request_id,
        outcome=one.outcome,
        message=one.message,
        ms=one.ms,
        at=now,
    )


def outcome(one: CallOutcome, number: int | None, until: int) -> model.DeviceOutcome:
    problem = one.problem
    blocks = one.result.content if one.result else []
    return model.DeviceOutcome(
        device=one.device,
        status="queued" if one.queued else "failed" if problem else "ok",
        text=text_of(one.result) if one.result else None,
        content=blocks if any(block.get("type") != "text" for block in blocks) else None,
        ms=one.ms,
        call=number,
        expires_at=iso(until) if one.queued else None,
        error=None
        if problem is None
        else model.CallProblem(code=problem.code, message=problem.message, guidance=problem.guidance or None),
    )


def called(tool: str, told: Sequence[model.DeviceOutcome], several: bool) -> model.Called:
    if not several:
        one = told[0]
        return model.Called(tool=tool, **one.model_dump(exclude={"error"}))
    states = {one.status for one in told}
    return model.Called(tool=tool, status=told[0].status if len(states) == 1 else "partly", results=list(told))


def for_door(called: model.Called, done: Sequence[CallOutcome], call: Call, *, structured: bool) -> Any:
    """Adapt the answer to the door. Over MCP, images are content blocks of their own, and a board's own tool answers as
    the board did. If several boards were called and all failed, raise an error."""
    if called.results and called.status == "failed":
        raise _of_all({one.device: one.error for one in called.results if one.error}, done)
    if call.door != "mcp":
        return called
    told = called.results or [called]
    blocks = [block for one in told for block in one.content or []]
    binary = [block for block in blocks if block.get("type") != "text"]
    if structured and not binary:
        return called
    plain = called.model_dump(mode="json", exclude_none=True)
    for one in plain.get("results", [plain]):
        one["content"] = [{k: v for k, v in block.items() if k != "data"} for block in one.pop("content", [])]
    return _as_mcp(called, plain, binary, structured=structured)


def _of_all(told: dict[str, model.CallProblem], done: Sequence[CallOutcome]) -> KhoError:
    """Return one error for all boards: their common error if they share it, else one with the reason of each."""
    codes, messages = {one.code for one in told.values()}, {one.message for one in told.values()}
    alike = [one.problem for one in done if one.problem is not None and codes == {one.problem.code}]
    if len(told) == 1 and alike:
        return alike[0]
    guidance = {one.guidance for one in told.values()}
    advice = (guidance.pop() if len(guidance) == 1 else None) or "Call one of them alone to see what to do."
    if not alike:
        each = [{"device": device, "code": one.code, "message": one.message} for device, one in told.items()]
        return DeviceFailed(NONE, devices=each, guidance=advice)
    problem = alike[0]
    problem.guidance = advice
    if len(messages) == 1:
        problem.message, problem.details = f"{NONE} {problem.message}", {**problem.details, "devices": [*told]}
        problem.details.pop("device", None)
    else:
        each = [{"device": device, "message": one.message} for device, one in told.items()]
        problem.message, problem.details = NONE, {"devices": each}
    problem.args = (problem.message,)
    return problem


def _as_mcp(called: model.Called, plain: dict[str, Any], binary: list[dict[str, Any]], *, structured: bool) -> Any:
    # Imported lazily: the MCP door has loaded it already, and the CLI never needs it.
    import mcp_types
    import orjson

    text = called.text if called.results is None and not structured else orjson.dumps(plain).decode()
    content = [*([{"type": "text", "text": text}] if text else []), *binary]
    body = {"content": content, "isError": called.status == "failed"}
    return mcp_types.CallToolResult.model_validate({**body, "structuredContent": plain} if structured else body)
