"""POST /actions: the action envelope. `request_id` makes writes idempotent."""

import hashlib
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Annotated, Any, NamedTuple, cast

import orjson
from pydantic import AfterValidator, Field, StringConstraints, ValidationError
from pydantic_core import PydanticCustomError

from kho.doors.http.asgi import error_headers
from kho.kernel import validation
from kho.kernel.call import Call, Principal
from kho.kernel.errors import Conflict, Forbidden, InvalidParams, KhoError, UniqueViolation, UnknownOperation, about
from kho.kernel.hub import Hub
from kho.kernel.operation import Operation
from kho.kernel.params import Params
from kho.kernel.validation import Problem, found, in_words
from kho.lib import jsonrpc
from kho.lib.dataclass import dataclass

NAME = in_words(
    r"^[A-Za-z0-9._:/@+-]{1,128}$", "must be 1 to 128 letters without accents, digits or characters of . _ : / @ + -"
)
Name = Annotated[str, StringConstraints(pattern=NAME)]
UNKNOWN = "/unknown"
"""What the audit trail calls an action that there is not: its name is the caller's text."""
VERSION = re.compile(r"2(\.\d{1,9}){0,2}")


class StatedPrincipal(Params):
    """Who the caller says it is. Believed only while the hub has no keys; roles never grant anything."""

    sub: Name | None = None
    tenant_id: Name | None = None
    roles: list[str] = Field(default_factory=list)


def _version(stated: str | float) -> str | float:
    """Another major version is another contract: its actions may mean something else."""
    if not VERSION.fullmatch(str(stated)):
        raise PydanticCustomError("version", "must be 2.0 or another 2.x: the hub speaks version 2 of the contract")
    return stated


class Envelope(Params):
    action: Annotated[str, StringConstraints(min_length=1, max_length=128)]
    request_id: Name | None = Field(None, description="Idempotency key of a write; a UUID is a good one.")
    principal: StatedPrincipal | None = None
    payload: dict[str, Any] = Field(default_factory=dict)
    version: Annotated[str | float, AfterValidator(_version)] | None = Field(
        None, description="The contract's version: 2.0, or another 2.x."
    )


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    warnings: Sequence[str] = ()
    """What the caller should know beside the answer."""


class Actions:
    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        Envelope.model_rebuild()  # a validator is built on first use, which two threads must not do at once

    async def answer(self, body: bytes, principal: Principal) -> Reply:
        envelope = await validation.read_large(len(body), partial(_envelope, body))
        if isinstance(envelope, _Unreadable):
            return await self._refused(*envelope)
        if (problem := self._secret(envelope)) is not None:
            return await self._refused(None, envelope.action, problem)
        request_id = envelope.request_id or str(uuid.uuid4())
        try:
            caller = await self._caller(principal, envelope.principal)
            operation = self._hub.registry.action(envelope.action)
            if operation is None:
                known = ", ".join(sorted(one.action for one in self._hub.registry.operations(caller) if one.action))
                raise UnknownOperation(f"There is no such action. There are: {known}.")
            call = Call(caller, "actions", request_id)
            if operation.effect == "read" or envelope.request_id is None:
                return await self._run(operation, envelope, call)
            return await self._once(operation, envelope, call)
        except KhoError as error:
            if isinstance(error, Forbidden):
                operation = self._hub.registry.action(envelope.action)
                named = operation.audited_as if operation else UNKNOWN
                self._hub.refusals.forbidden(Call(principal, "actions", request_id, operation=named), error)
            return await self._refused(request_id, envelope.action, error)

    async def _refused(self, request_id: str | None, action: str | None, error: KhoError) -> Reply:
        """Answer an error of this door, without the secrets in what it repeats."""
        registry = self._hub.registry
        await registry.redact(error)
        return _refusal(request_id and registry.masked(request_id), action and registry.masked(action), error)

    def _secret(self, envelope: Envelope) -> KhoError | None:
        """Return the error for names that look like a secret: they are kept in the log and in the audit trail."""
        stated = envelope.principal or StatedPrincipal()
        for name, text in (
            ("request_id", envelope.request_id),
            ("principal.sub", stated.sub),
            ("principal.tenant_id", stated.tenant_id),
        ):
            if text is not None and self._hub.registry.masked(text) != text:
                said = "looks like a secret, and would be in the log: send another, such as a UUID"
                return _wrong([Problem(name, "secret", said)])
        return None

    async def _caller(self, principal: Principal, stated: StatedPrincipal | None) -> Principal:
        """Return who calls. On a hub with keys the credential alone decides, also the token of this machine's user."""
        if stated is None:
            return principal
        if principal.kind == "local" and not await self._hub.keys.in_use():
            return replace(principal, sub=stated.sub or principal.sub, tenant=stated.tenant_id or principal.tenant)
        if stated.tenant_id not in (None, principal.tenant) or stated.sub not in (None, principal.sub):
            raise Forbidden("'principal' differs from the credential. Leave it out, or state the credential's own.")
        return principal

    async def _run(self, operation: Operation, envelope: Envelope, call: Call) -> Reply:
        outcome = await self._hub.registry.call(operation, envelope.payload, call)
        if outcome.error is None:
            return Reply(200, _success(call.request_id, envelope.action, outcome.value), warnings=outcome.warnings)
        if isinstance(outcome.error, UniqueViolation) and call.receipt is not None:
            raise outcome.error
        if outcome.value is None:
            return _refusal(call.request_id, envelope.action, outcome.error)
        answer = {"request_id": call.request_id, "action": envelope.action, "status": "error", "result": outcome.value}
        return Reply(outcome.error.status, orjson.dumps(answer), error_headers(outcome.error))

    async def _once(self, operation: Operation, envelope: Envelope, call: Call) -> Reply:
        """Run a write at most once for its request id, also when equal requests race."""
        wanted = _digest(envelope)
        if (reply := await self._replay(call, wanted)) is not None:
            return reply

        def render(result: Any) -> bytes:
            return _success(call.request_id, envelope.action, operation.shape(result))

        call.receipt = self._hub.receipts.issue(call.tenant, call.request_id, wanted, render)
        try:
            reply = await self._run(operation, envelope, call)
        except UniqueViolation as lost:
            # Most likely an equal request was faster, and its answer is ours too; otherwise the conflict is the slice's
            # own.
            kept = await self._replay(call, wanted)
            if kept is None:
                raise Conflict(lost.message) from None
            return kept
        if reply.status < 400:
            return reply
        # It may have failed because an equal, faster request had changed the data it depends on.
        return await self._replay(call, wanted) or reply

    async def _replay(self, call: Call, wanted: str) -> Reply | None:
        kept = await self._hub.receipts.find(call.tenant, call.request_id)
        if kept is None:
            return None
        if kept.digest != wanted:
            raise Conflict("This request_id was used for another request. Use a new one.", request_id=call.request_id)
        return Reply(200, kept.answer)


class _Unreadable(NamedTuple):
    """An envelope that is not valid. What could be read is echoed, so that the sender can match the error to its
    request."""

    request_id: str | None
    action: str | None
    error: KhoError


def _envelope(body: bytes) -> Envelope | _Unreadable:
    """Parse the body."""
    try:
        sent = jsonrpc.loads(body)
    except jsonrpc.ParseError as problem:
        return _Unreadable(None, None, InvalidParams(str(problem)))
    try:
        return Envelope.model_validate(sent)
    except ValidationError as failure:
        return _Unreadable(_readable(sent, "request_id"), _readable(sent, "action"), _wrong(found(failure)))


def _wrong(problems: Sequence[Problem]) -> KhoError:
    first = problems[0]
    said = about(f"'{first.field}'" if first.field else "it", first.message)
    return InvalidParams(
        f"The envelope is not valid: {said}.", field=first.field, problems=[problem.as_dict() for problem in problems]
    )


def _readable(sent: Any, name: str) -> str | None:
    value = cast(dict[str, Any], sent).get(name) if isinstance(sent, dict) else None
    return value[:128] if isinstance(value, str) else None


def _digest(envelope: Envelope) -> str:
    # Key order does not matter.
    body = orjson.dumps([envelope.action, envelope.payload], option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(body).hexdigest()


def _success(request_id: str, action: str, result: Any) -> bytes:
    return orjson.dumps({"request_id": request_id, "action": action, "status": "ok", "result": result})


def _refusal(request_id: str | None, action: str | None, error: KhoError) -> Reply:
    body: dict[str, Any] = {"details": {}, **error.as_dict()}
    answer = {"request_id": request_id, "action": action, "status": "error", "error": body}
    return Reply(error.status, orjson.dumps(answer), error_headers(error))
