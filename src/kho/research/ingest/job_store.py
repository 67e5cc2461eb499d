"""The SQL of jobs: what is to be done, who is at it, how far it is.

A running job belongs to the process that holds its lease. Each step renews the lease and says how far it is, and learns
at the same time whether somebody cancelled the job or took it over.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from kho.kernel.ports import Lease, Leases, Tx
from kho.lib import sql
from kho.lib.sql import Table, to_json
from kho.research.errors import JobNotFound

MAX_FAILURES = 100
"""Files whose failure a job reports one by one; the others are counted."""
MAX_FINISHED = 500
"""Finished jobs that a tenant keeps."""
UNFINISHED = "state IN ('queued', 'running')"

State = Literal["queued", "running", "done", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class Counts:
    done: int = 0
    total: int | None = None
    """None until it is known."""
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
    """Who asked for it."""
    created_at: int
    updated_at: int
    report: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    """Files that failed: path, reason and code."""
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


JOBS = Table("research_jobs", Job, json=("request", "report"))
_SELECT = f"SELECT {JOBS.columns} FROM research_jobs"


def lease(leases: Leases, duration: int) -> Lease:
    """The right to work on a job: its key is the tenant and the id."""
    return leases.rows("research_jobs", ("tenant", "id"), duration, until="lease_until", where=UNFINISHED)


def create(tx: Tx, job: Job) -> None:
    """A new job. The oldest finished ones of its tenant make room."""
    JOBS.insert(tx, job)
    tx.run(
        "DELETE FROM research_jobs WHERE tenant = $1 AND id IN (SELECT id FROM research_jobs WHERE tenant = $1 "
        "AND finished_at IS NOT NULL ORDER BY created_at DESC, id DESC LIMIT 1000 OFFSET $2)",
        job.tenant,
        MAX_FINISHED,
    )


def get(tx: Tx, tenant: str, id: str) -> Job | None:
    row = tx.one(f"{_SELECT} WHERE tenant = $1 AND id = $2", tenant, id)
    return JOBS.read(row) if row else None


def need(tx: Tx, tenant: str, id: str) -> Job:
    job = get(tx, tenant, id)
    if job is None:
        raise JobNotFound(f"There is no job '{id}'.")
    return job


def newest(tx: Tx, tenant: str, limit: int, collection_id: str | None = None) -> list[Job]:
    only, values = sql.where({"tenant =": tenant, "collection_id =": collection_id})
    order = f"ORDER BY created_at DESC, id DESC LIMIT ${len(values) + 1}"
    return JOBS.read_all(tx.all(f"{_SELECT} WHERE {only} {order}", *values, limit))


def abandoned(tx: Tx, now: int, limit: int) -> list[Job]:
    """Jobs of all tenants that nobody is at: never begun, or left by a process that fell silent. Oldest first."""
    rows = tx.all(
        f"{_SELECT} WHERE {UNFINISHED} AND lease_until <= $1 ORDER BY created_at, id LIMIT $2",
        now,
        limit,
    )
    return JOBS.read_all(rows)


def claim(tx: Tx, lease: Lease, tenant: str, id: str, now: int) -> Job | None:
    """The job, now this process's and running; None if another has it or it is over."""
    if not lease.take(tx, tenant, id):
        return None
    sql.update(tx, "research_jobs", {"state": "running", "updated_at": now}, tenant=tenant, id=id)
    return need(tx, tenant, id)


def advance(tx: Tx, lease: Lease, job: Job, counts: Counts, report: Sequence[dict[str, str]], now: int) -> bool:
    """Says how far the job is, and keeps it. False: it was cancelled or taken over, so this process has to stop."""
    if not lease.hold(tx, job.tenant, job.id):
        return False
    changes = {**asdict(counts), "report": to_json(report[:MAX_FAILURES]), "updated_at": now}
    return sql.update(tx, "research_jobs", changes, tenant=job.tenant, id=job.id) == 1


def finish(tx: Tx, lease: Lease, job: Job, state: Literal["done", "failed"], error: str | None, now: int) -> Job | None:
    """The job as it ended; None if it was not this process's to end."""
    if not lease.hold(tx, job.tenant, job.id):
        return None
    ended = {"finished_at": now, "updated_at": now, "lease_until": 0, "owner": None}
    sql.update(tx, "research_jobs", {"state": state, "error": error, **ended}, tenant=job.tenant, id=job.id)
    return need(tx, job.tenant, job.id)


def cancel(tx: Tx, tenant: str, id: str, now: int) -> Job | None:
    """The job as it ended; whoever is at it notices at its next step. None if it was over already."""
    changed = tx.run(
        f"UPDATE research_jobs SET state = 'cancelled', finished_at = $1, updated_at = $1 "
        f"WHERE tenant = $2 AND id = $3 AND {UNFINISHED}",
        now,
        tenant,
        id,
    )
    return need(tx, tenant, id) if changed else None
