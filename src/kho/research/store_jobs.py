"""The SQL of jobs: what is to be done, who is at it, how far it is.

A running job belongs to the process that holds its lease. Each step renews the lease and says how far it is, and learns
at the same time whether somebody cancelled the job or took it over.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson

from kho.kernel.ports import Row, Tx
from kho.research.errors import JobNotFound

MOST_FAILURES = 100
"""Files whose failure a job reports one by one; the others are counted."""
KEPT = 500
"""Finished jobs that a tenant keeps."""

State = Literal["queued", "running", "done", "failed", "cancelled"]
_COLUMNS = (
    "tenant, id, kind, state, request, collection_id, sub, done, total, added, changed, unchanged, removed, failed, "
    "report, error, owner, lease_until, created_at, updated_at, finished_at"
)


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
    counts: Counts
    created_at: int
    updated_at: int
    report: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    """Files that failed: path, reason and code."""
    error: str | None = None
    owner: str | None = None
    lease_until: int = 0
    finished_at: int | None = None


def create(tx: Tx, job: Job) -> None:
    """A new job. The oldest finished ones of its tenant make room."""
    tx.run(
        f"INSERT INTO research_jobs ({_COLUMNS}) VALUES ({', '.join(f'${n}' for n in range(1, 22))})",
        job.tenant,
        job.id,
        job.kind,
        job.state,
        orjson.dumps(job.request).decode(),
        job.collection_id,
        job.sub,
        *_numbers(job.counts),
        _json(job.report),
        job.error,
        job.owner,
        job.lease_until,
        job.created_at,
        job.updated_at,
        job.finished_at,
    )
    tx.run(
        "DELETE FROM research_jobs WHERE tenant = $1 AND id IN (SELECT id FROM research_jobs WHERE tenant = $1 "
        "AND finished_at IS NOT NULL ORDER BY created_at DESC, id DESC LIMIT 1000 OFFSET $2)",
        job.tenant,
        KEPT,
    )


def get(tx: Tx, tenant: str, id: str) -> Job | None:
    row = tx.one(f"SELECT {_COLUMNS} FROM research_jobs WHERE tenant = $1 AND id = $2", tenant, id)
    return _job(row) if row else None


def need(tx: Tx, tenant: str, id: str) -> Job:
    job = get(tx, tenant, id)
    if job is None:
        raise JobNotFound(f"There is no job '{id}'.")
    return job


def newest(tx: Tx, tenant: str, limit: int, collection_id: str | None = None) -> list[Job]:
    only = "" if collection_id is None else " AND collection_id = $2"
    values = () if collection_id is None else (collection_id,)
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM research_jobs WHERE tenant = $1{only} "
        f"ORDER BY created_at DESC, id DESC LIMIT ${len(values) + 2}",
        tenant,
        *values,
        limit,
    )
    return [_job(row) for row in rows]


def abandoned(tx: Tx, now: int, limit: int) -> list[Job]:
    """Jobs of all tenants that nobody is at: never begun, or left by a process that fell silent. Oldest first."""
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM research_jobs WHERE state IN ('queued', 'running') AND lease_until < $1 "
        "ORDER BY created_at, id LIMIT $2",
        now,
        limit,
    )
    return [_job(row) for row in rows]


def claim(tx: Tx, tenant: str, id: str, owner: str, now: int, until: int) -> Job | None:
    """The job, now this owner's and running; None if another has it or it is over."""
    taken = tx.run(
        "UPDATE research_jobs SET state = 'running', owner = $1, lease_until = $2, updated_at = $3 "
        "WHERE tenant = $4 AND id = $5 AND state IN ('queued', 'running') AND (owner = $1 OR lease_until < $3)",
        owner,
        until,
        now,
        tenant,
        id,
    )
    return get(tx, tenant, id) if taken else None


def advance(
    tx: Tx, job: Job, owner: str, counts: Counts, report: Sequence[dict[str, str]], now: int, until: int
) -> bool:
    """Says how far the job is, and keeps it. False: it was cancelled or taken over, so the owner has to stop."""
    changed = tx.run(
        "UPDATE research_jobs SET done = $1, total = $2, added = $3, changed = $4, unchanged = $5, removed = $6, "
        "failed = $7, report = $8, updated_at = $9, lease_until = $10 "
        "WHERE tenant = $11 AND id = $12 AND owner = $13 AND state = 'running'",
        *_numbers(counts),
        _json(report),
        now,
        until,
        job.tenant,
        job.id,
        owner,
    )
    return changed == 1


def renew(tx: Tx, job: Job, owner: str, until: int) -> bool:
    """Keeps the job while a step takes long. False as with `advance`."""
    changed = tx.run(
        "UPDATE research_jobs SET lease_until = $1 WHERE tenant = $2 AND id = $3 AND owner = $4 AND state = 'running'",
        until,
        job.tenant,
        job.id,
        owner,
    )
    return changed == 1


def finish(tx: Tx, job: Job, owner: str, state: Literal["done", "failed"], error: str | None, now: int) -> bool:
    changed = tx.run(
        "UPDATE research_jobs SET state = $1, error = $2, finished_at = $3, updated_at = $3, lease_until = 0, "
        "owner = NULL WHERE tenant = $4 AND id = $5 AND owner = $6 AND state = 'running'",
        state,
        error,
        now,
        job.tenant,
        job.id,
        owner,
    )
    return changed == 1


def release(tx: Tx, job: Job, owner: str) -> None:
    """Lets another process go on at once: this one stops."""
    tx.run(
        "UPDATE research_jobs SET lease_until = 0, owner = NULL "
        "WHERE tenant = $1 AND id = $2 AND owner = $3 AND state = 'running'",
        job.tenant,
        job.id,
        owner,
    )


def cancel(tx: Tx, tenant: str, id: str, now: int) -> bool:
    """Its owner notices at its next step. False if it was over already."""
    changed = tx.run(
        "UPDATE research_jobs SET state = 'cancelled', finished_at = $1, updated_at = $1 "
        "WHERE tenant = $2 AND id = $3 AND state IN ('queued', 'running')",
        now,
        tenant,
        id,
    )
    return changed == 1


def _numbers(counts: Counts) -> tuple[int | None, ...]:
    return (
        counts.done,
        counts.total,
        counts.added,
        counts.changed,
        counts.unchanged,
        counts.removed,
        counts.failed,
    )


def _json(report: Sequence[dict[str, str]]) -> str:
    return orjson.dumps(list(report[:MOST_FAILURES])).decode()


def _job(row: Row) -> Job:
    tenant, id, kind, state, request, collection_id, sub = row[:7]
    report, error, owner, lease_until, created_at, updated_at, finished_at = row[14:]
    return Job(
        tenant,
        id,
        kind,
        state,
        orjson.loads(request),
        collection_id,
        sub,
        Counts(*row[7:14]),
        created_at,
        updated_at,
        orjson.loads(report),
        error,
        owner,
        lease_until,
        finished_at,
    )
