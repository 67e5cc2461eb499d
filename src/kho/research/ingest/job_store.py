"""SQL of ingest jobs: request, lease, progress.

A running job belongs to the process that holds its lease. Each step renews the lease and stores the progress, and so
learns whether the job was cancelled or taken over.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, field, fields
from typing import Any, Literal

from kho.kernel.ports import Lease, Leases, Tx
from kho.lib import sql
from kho.lib.dataclass import dataclass
from kho.lib.sql import Table, to_json
from kho.research.errors import JobNotFound

MAX_FAILURES = 100
"""Maximum failed files that a job reports one by one; the rest are only counted."""
MAX_FINISHED = 500
"""Maximum finished jobs kept per tenant."""
UNFINISHED = "state IN ('queued', 'running')"

State = Literal["queued", "running", "done", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class Counts:
    done: int = 0
    total: int | None = None
    """None until the folder was scanned."""
    added: int = 0
    changed: int = 0
    unchanged: int = 0
    removed: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Job:
    tenant: str
    id: str
    kind: str
    state: State
    request: dict[str, Any]
    collection_id: str | None
    sub: str
    """Subject of the caller who started it."""
    created_at: int
    updated_at: int
    report: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    """Files that failed: path, reason and code."""
    skipped: dict[str, int] = field(default_factory=dict[str, int])
    """Files of kinds that Kho cannot read, by name ending; empty for none."""
    error: str | None = None
    owner: str | None = None
    lease_until: int = 0
    finished_at: int | None = None
    done: int = 0
    total: int | None = None
    added: int = 0
    changed: int = 0
    unchanged: int = 0
    removed: int = 0
    failed: int = 0

    @property
    def counts(self) -> Counts:
        return Counts(*(getattr(self, one.name) for one in fields(Counts)))


JOBS = Table("research_jobs", Job, json=("request", "report", "skipped"))


def lease(leases: Leases, duration: int) -> Lease:
    """Return the lease for working on jobs; its key is tenant and id."""
    return leases.rows("research_jobs", ("tenant", "id"), duration, until="lease_until", where=UNFINISHED)


def create(tx: Tx, job: Job) -> None:
    """Insert a job and delete the tenant's oldest finished ones beyond MAX_FINISHED."""
    JOBS.insert(tx, job)
    statement = (
        "DELETE FROM research_jobs WHERE tenant = $1 AND id IN (SELECT id FROM research_jobs WHERE tenant = $1 "
        "AND finished_at IS NOT NULL ORDER BY created_at DESC, id DESC LIMIT 1000 OFFSET $2)"
    )
    tx.run(statement, job.tenant, MAX_FINISHED)


def get(tx: Tx, tenant: str, id: str) -> Job | None:
    return JOBS.find(tx, tenant=tenant, id=id)


def need(tx: Tx, tenant: str, id: str) -> Job:
    job = get(tx, tenant, sql.full_id(tx, "research_jobs", tenant, id))
    if job is None:
        raise JobNotFound(f"There is no job '{id}'.")
    return job


def newest(tx: Tx, tenant: str, limit: int, collection_id: str | None = None) -> list[Job]:
    only, values = sql.where({"tenant =": tenant, "collection_id =": collection_id})
    order = f"ORDER BY created_at DESC, id DESC LIMIT ${len(values) + 1}"
    return JOBS.all(tx, f"{only} {order}", *values, limit)


def abandoned(tx: Tx, now: int, limit: int) -> list[Job]:
    """Return unfinished jobs of all tenants without a live lease: never started, or left by a process that died. Oldest
    first."""
    return JOBS.all(tx, f"{UNFINISHED} AND lease_until <= $1 ORDER BY created_at, id LIMIT $2", now, limit)


def claim(tx: Tx, lease: Lease, tenant: str, id: str, now: int) -> Job | None:
    """Take the lease and mark the job as running. None if another process has it or it is finished."""
    if not lease.take(tx, tenant, id):
        return None
    sql.update(tx, "research_jobs", {"state": "running", "updated_at": now}, tenant=tenant, id=id)
    return need(tx, tenant, id)


def advance(tx: Tx, lease: Lease, job: Job, counts: Counts, report: Sequence[dict[str, str]], now: int) -> bool:
    """Store the progress and renew the lease. False if the job was cancelled or taken over: this process must stop."""
    if not lease.hold(tx, job.tenant, job.id):
        return False
    changes = {**asdict(counts), "report": to_json(report[:MAX_FAILURES]), "updated_at": now}
    return sql.update(tx, "research_jobs", changes, tenant=job.tenant, id=job.id) == 1


def skip(tx: Tx, job: Job, skipped: Mapping[str, int]) -> None:
    """Store the files that are not read."""
    sql.update(tx, "research_jobs", {"skipped": to_json(skipped)}, tenant=job.tenant, id=job.id)


def unfinished(tx: Tx, tenant: str) -> int:
    """Return how many jobs of the tenant run or wait."""
    return sql.number(tx, f"SELECT count(*) FROM research_jobs WHERE tenant = $1 AND {UNFINISHED}", tenant)


def finish(tx: Tx, lease: Lease, job: Job, state: Literal["done", "failed"], error: str | None, now: int) -> Job | None:
    """Mark the job as finished and return it; None if this process no longer holds the lease."""
    if not lease.hold(tx, job.tenant, job.id):
        return None
    ended = {"finished_at": now, "updated_at": now, "lease_until": 0, "owner": None}
    sql.update(tx, "research_jobs", {"state": state, "error": error, **ended}, tenant=job.tenant, id=job.id)
    return need(tx, job.tenant, job.id)


def cancel(tx: Tx, tenant: str, id: str, now: int) -> Job | None:
    """Mark the job as cancelled and return it; the process that runs it notices at its next step. None if it was
    already finished."""
    statement = (
        f"UPDATE research_jobs SET state = 'cancelled', finished_at = $1, updated_at = $1 "
        f"WHERE tenant = $2 AND id = $3 AND {UNFINISHED}"
    )
    changed = tx.run(statement, now, tenant, id)
    return need(tx, tenant, id) if changed else None
