"""Who calls, on whose behalf, until when, and what is left to do once they have their answer."""

import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from kho.kernel.access import Access, Open, names
from kho.kernel.audit import AuditEvent, record
from kho.kernel.errors import Forbidden, Timeout
from kho.kernel.ports import Database, Tx

T = TypeVar("T")
U = TypeVar("U")
Progress = Callable[[float, float | None, str | None], Awaitable[None]]
Work = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller, as the credential says (never the request's body)."""

    sub: str
    tenant: str
    scopes: frozenset[str]
    kind: str = "local"
    """local (this machine's user) | key | anonymous"""

    def allows(self, access: Access) -> bool:
        """'*' is every scope but admin, which is only ever given by name."""
        if isinstance(access, str):
            return access in self.scopes or ("*" in self.scopes and access != "admin")
        return isinstance(access, Open) or any(map(self.allows, access))


class Receipt(Protocol):
    """Makes a write idempotent: its key is claimed and its answer kept in the write's own transaction."""

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
    """Asks the other side which folders it opens to us, as file:// addresses; None where it says nothing of them."""
    peer: Any = None
    """The door's own handle on the other side, for capabilities that speak one door's dialect."""
    operation: str = ""
    """What is being done, as `capability/name`; the registry says so."""
    afterwards: list[Work] = field(default_factory=list[Work])

    @property
    def tenant(self) -> str:
        return self.principal.tenant

    @property
    def shared(self) -> bool:
        """Whether the hub serves others than this machine's user (stricter rules apply)."""
        return self.principal.kind != "local"

    def need(self, access: Access, command: str = "") -> None:
        """`command` is what does the same on the hub's machine, where its user may do everything."""
        if isinstance(access, Open) or self.principal.allows(access):
            return
        scope = " or ".join(names(access))
        lacking = "the credential does not have" if self.shared else "this machine's user has at the command line alone"
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
        """The one row in the audit trail of a call that changes something, in the transaction of the change. A call
        that turns out to change nothing (a replay, the same again) leaves none."""
        event = self.audit_event(subject, at=at, reason=reason, operation=operation, **details)
        record(tx, event, also)
        return event

    def audit_event(
        self, subject: str, *, at: int, reason: str | None = None, operation: str = "", **details: Any
    ) -> AuditEvent:
        """What `audit` records, for work that calls and the background share."""
        capability, _, name = self.operation.partition("/")
        return AuditEvent(
            tenant=self.tenant,
            operation=operation or name,
            capability=capability,
            subject=subject,
            actor=self.principal.sub,
            reason=reason or "",
            request_id=self.request_id,
            details=details,
            at=at,
        )

    def remaining(self, default: float) -> float:
        """Seconds left for a piece of work: the caller's deadline, `default` at most."""
        if self.deadline is None:
            return default
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise Timeout
        return min(left, default)

    def after(self, work: Work) -> None:
        """Runs `work` once the answer is on its way; the hub waits for it before it stops."""
        self.afterwards.append(work)

    async def commit(self, db: Database, work: Callable[[Tx], T]) -> T:
        """The one write of an operation. What `work` returns is the operation's result, so that an
        idempotent caller's receipt can be kept in the same transaction."""
        result, _ = await self.commit_with(db, lambda tx: (work(tx), None))
        return result

    async def commit_with(self, db: Database, work: Callable[[Tx], tuple[T, U]]) -> tuple[T, U]:
        """The same for work that has more to say than the result, such as what to do after the commit."""
        receipt = self.receipt
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
    """So many seconds from now."""
    deadline = time.monotonic() + seconds

    def left() -> float:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise Timeout
        return remaining

    return left


@dataclass(frozen=True, slots=True)
class Kept:
    digest: str
    """Of the request, to tell a retry from another request under the same id."""
    answer: bytes


class Receipts(Protocol):
    async def find(self, tenant: str, request_id: str) -> Kept | None: ...

    def issue(self, tenant: str, request_id: str, digest: str, render: Callable[[Any], bytes]) -> Receipt:
        """A receipt to put on a Call. Claiming it fails with UniqueViolation if the id is taken."""
        ...
