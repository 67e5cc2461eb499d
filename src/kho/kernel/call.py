"""The call: caller, deadline, audit, and work to do after the answer."""

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol, TypeVar

from kho.kernel.access import BY_NAME, Access, Open, names
from kho.kernel.audit import AuditEvent, record
from kho.kernel.errors import Forbidden, Timeout, each_text
from kho.kernel.limits.allowance import carried
from kho.kernel.ports import Database, Tx
from kho.kernel.toolset import Choosable, Selection
from kho.lib.dataclass import dataclass

T = TypeVar("T")
U = TypeVar("U")
Progress = Callable[[float, float | None, str | None], Awaitable[None]]
Work = Callable[[], Awaitable[None]]


Rights = tuple[frozenset[str], Selection | None, bool]


class Guarded(Choosable, Protocol):
    """The part of an operation that decides who may call it."""

    @property
    def scope(self) -> Access: ...
    @property
    def effect(self) -> str: ...
    @property
    def hands_on(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller, as given by the credential (never by the request's body)."""

    sub: str
    tenant: str
    scopes: frozenset[str]
    kind: str = "local"
    """local (this machine's user) | key | anonymous"""
    key: str = ""
    """Id of its API key."""
    expires_at: int | None = None
    """When the credential expires, if it does."""
    tools: Selection | None = None
    """What its key is limited to; None: whatever its scopes allow."""
    read_only: bool = False

    @property
    def rights(self) -> Rights:
        """What it may do, whoever it is: two callers with the same rights see the same of a tenant."""
        return self.scopes, self.tools, self.read_only

    def may_call(self, operation: Guarded) -> bool:
        """True if scope, tools and read-only mode all allow the operation."""
        return self.allows(operation.scope) and not self.lacks(operation)

    def lacks(self, operation: Guarded) -> str:
        """Return why a limit of the key keeps it from an operation that its scopes allow; empty if none does."""
        if operation.hands_on:
            return ""
        if self.read_only and operation.effect != "read":
            return "This key is read-only: it can look things up, but not change anything."
        if self.tools is not None and not self.tools.covers(operation):
            return self._limit
        return ""

    def may_have(self, capability: str, access: Access) -> bool:
        """True if it may have a resource, a prompt, a stream, a page or a notice of the capability."""
        return self.allows(access) and not self.lacks_all_of(capability)

    def lacks_all_of(self, capability: str) -> str:
        """Return why a limit of the key keeps it from what a capability, or with "" the hub as a whole, serves beside
        operations; empty if none does."""
        return "" if self.tools is None or self.tools.covers_capability(capability) else self._limit

    @property
    def _limit(self) -> str:
        return f"This key is limited to {', '.join(self.tools.names if self.tools else ())}."

    def allows(self, access: Access) -> bool:
        """True if it has the scope. '*' is every scope but those that must be given by name."""
        if isinstance(access, str):
            return access in self.scopes or ("*" in self.scopes and access not in BY_NAME)
        return isinstance(access, Open) or any(map(self.allows, access))


class Receipt(Protocol):
    """Makes a write idempotent: claims its key and stores its answer in the write's own transaction."""

    def claim(self, tx: Tx) -> None: ...

    def keep(self, tx: Tx, result: Any) -> None: ...


async def _no_progress(done: float, total: float | None, message: str | None) -> None:
    return None


async def _nothing_stated() -> None:
    return None


@dataclass(slots=True)
class Call:
    principal: Principal
    door: str = "memory"
    request_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    deadline: float | None = None
    """On the monotonic clock."""
    progress: Progress = _no_progress
    receipt: Receipt | None = None
    roots: Callable[[], Awaitable[Sequence[str] | None]] = _nothing_stated
    """Asks the client which folders it allows, as file:// URLs; None if it does not say."""
    peer: Any = None
    """The door's own handle on the client, for capabilities that use one door's features."""
    operation: str = ""
    """Current operation as `capability/name`; set by the registry."""
    afterwards: list[Work] = field(default_factory=list[Work])
    warnings: list[str] = field(default_factory=list[str])
    """What the caller should know beside the answer; each door says it in its own way."""
    sightings: list[str] = field(default_factory=list[str])
    """Where the call brought secrets, and of which kind; never the secrets."""
    masked: Callable[[str], str] = str
    """Masks what the sanitizer found in a text of this call; the audit trail gets no other."""

    @property
    def tenant(self) -> str:
        return self.principal.tenant

    @property
    def shared(self) -> bool:
        """True if the hub serves others than this machine's user (stricter rules apply)."""
        return self.principal.kind != "local"

    def need_right(self, operation: Guarded, command: str = "") -> None:
        """Raise Forbidden if scope, tools or read-only mode of the credential keep the caller from an operation."""
        self.need(operation.scope, command)
        self._need_none(self.principal.lacks(operation))

    def need_all_of(self, capability: str, access: Access) -> None:
        """Raise Forbidden if scope or tools of the credential keep the caller from what a capability, or with "" the
        hub as a whole, serves beside operations."""
        self.need(access)
        self._need_none(self.principal.lacks_all_of(capability))

    def _need_none(self, lack: str) -> None:
        if lack:
            raise Forbidden(lack, guidance="Use another key ('kho keys create NAME').", key=self.principal.key)

    def need(self, access: Access, command: str = "") -> None:
        """Raise Forbidden without the scope. `command` does the same on the hub's machine, where its user may do
        everything."""
        if isinstance(access, Open) or self.principal.allows(access):
            return
        scope = " or ".join(names(access))
        lacking = "the credential does not have" if self.shared else "this machine's user has only on the command line"
        key = f"a key that has it ('kho keys create NAME --scope {names(access)[0]}')"
        raise Forbidden(
            f"This needs the scope '{scope}', which {lacking}.",
            guidance=f"Type 'kho {command}' on the hub's machine, or use {key}." if command else f"Use {key}.",
            scope=scope,
        )

    def audit(
        self,
        tx: Tx,
        subject: str,
        *,
        at: int,
        reason: str | None = None,
        operation: str = "",
        also: Iterable[tuple[str, Mapping[str, Any]]] = (),
        **details: Any,
    ) -> AuditEvent:
        """Write the one audit row of a call that changes something, in the transaction of the change. A call that turns
        out to change nothing (a replay, the same again) writes none."""
        event = self.audit_event(subject, at=at, reason=reason, operation=operation, **details)
        record(tx, event, [(self.masked(subject), each_text(more, self.masked)) for subject, more in also])
        return event

    def audit_event(
        self, subject: str, *, at: int, reason: str | None = None, operation: str = "", **details: Any
    ) -> AuditEvent:
        """Build the event that `audit` records, for work shared by calls and background tasks."""
        capability, _, name = self.operation.partition("/")
        if self.masked is not str:
            details = each_text(details, self.masked)
        if self.sightings:
            details = {**details, "secrets": self.sightings}
        return AuditEvent(
            tenant=self.tenant,
            operation=operation or name,
            capability=capability,
            subject=self.masked(subject),
            actor=self.principal.sub,
            reason=self.masked(reason or ""),
            request_id=self.request_id,
            details=details,
            at=at,
        )

    def take_warnings(self) -> list[str]:
        """Return the warnings for an answer that says them itself, so that the door does not say them again."""
        taken, self.warnings = self.warnings, []
        return taken

    def remaining(self, default: float) -> float:
        """Return the seconds left until the caller's deadline, at most `default`."""
        if self.deadline is None:
            return default
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise Timeout
        return min(left, default)

    def after(self, work: Work) -> None:
        """Run `work` once the answer is on its way; the hub waits for it before it stops."""
        self.afterwards.append(work)

    async def commit(self, db: Database, work: Callable[[Tx], T]) -> T:
        """Run the one write of an operation. `work` returns the operation's result, so that an idempotent caller's
        receipt can be stored in the same transaction."""
        result, _ = await self.commit_with(db, lambda tx: (work(tx), None))
        return result

    async def commit_with(self, db: Database, work: Callable[[Tx], tuple[T, U]]) -> tuple[T, U]:
        """Same, for work that returns more than the result, such as what to do after the commit."""
        receipt, work = self.receipt, carried(work)
        if receipt is None:
            return await db.write(work)

        def with_receipt(tx: Tx) -> tuple[T, U]:
            receipt.claim(tx)
            result, more = work(tx)
            receipt.keep(tx, result)
            return result, more

        return await db.write(with_receipt)


Left = Callable[[], float]
"""Seconds until the deadline; raises Timeout when there are none."""


def until(seconds: float) -> Left:
    """Return a deadline that many seconds from now."""
    deadline = time.monotonic() + seconds

    def left() -> float:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise Timeout
        return remaining

    return left


async def within(timeout: float | None, work: Awaitable[T]) -> T:
    """Await the work, or raise `Timeout` after that many seconds. A timeout inside the work is raised unchanged."""
    deadline = asyncio.timeout(timeout)
    try:
        async with deadline:
            return await work
    except TimeoutError as error:
        if not deadline.expired():
            raise
        raise Timeout from error


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    digest: str
    """Digest of the request, to distinguish a retry from another request with the same id."""
    answer: bytes


class Receipts(Protocol):
    async def find(self, tenant: str, request_id: str) -> KeptAnswer | None: ...

    def issue(self, tenant: str, request_id: str, digest: str, render: Callable[[Any], bytes]) -> Receipt:
        """Return a receipt to put on a Call. Claiming it fails with UniqueViolation if the id is taken."""
        ...
