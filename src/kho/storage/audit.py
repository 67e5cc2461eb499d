"""Refused requests in the audit trail: who asked for what their credential does not allow."""

from dataclasses import replace

from kho.kernel.audit import AuditEvent, record
from kho.kernel.background import Background
from kho.kernel.call import Call
from kho.kernel.errors import Forbidden
from kho.kernel.operation import Operation
from kho.kernel.ports import Database
from kho.kernel.registry import Observer, Outcome
from kho.lib.clock import Clock


def refusals(db: Database, background: Background, clock: Clock) -> Observer:
    """Watches the registry and adds a row for each call that was FORBIDDEN, after the answer: the caller does not wait,
    and there is no change whose transaction it could be part of."""

    def observe(operation: Operation, call: Call, outcome: Outcome, seconds: float) -> None:
        if isinstance(outcome.error, Forbidden):
            event = replace(
                call.audit_event("", at=clock(), door=call.door, **outcome.error.details), outcome="refused"
            )
            background.add(lambda: _add(db, event))

    return observe


async def _add(db: Database, event: AuditEvent) -> None:
    await db.write(lambda tx: record(tx, event))
