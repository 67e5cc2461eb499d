"""What is said of an ingest, while it runs and when it is over."""

from collections.abc import Sequence

from kho.kernel.ports import SearchFilter, Tx
from kho.lib.markdown import counted
from kho.research import store_collections, store_ingest, store_jobs, views
from kho.research.errors import DocumentError, FileNotFound, PathRefused, Unreadable
from kho.research.filing import SPACE
from kho.research.results import IngestAnswer, JobAnswer, JobsAnswer
from kho.research.store_jobs import Job
from kho.search.indexing import passages


def ingest(tx: Tx, job: Job) -> IngestAnswer:
    """Raises what is wrong with the file, if only one was named."""
    if not job.request["folder"] and job.report:
        raise _error(job.report[0])
    names, counts = _names(tx, job.tenant, [job]), job.counts
    collection_id = job.collection_id or ""
    stored = counts.added + counts.changed
    chunks = store_ingest.chunks_of_job(tx, job.tenant, collection_id, job.id) if stored else 0
    nothing = job.state == "done" and counts.failed and counts.failed == counts.done
    over = "error" if job.state in ("failed", "cancelled") or nothing else "success"
    return IngestAnswer(
        status=over if job.finished_at is not None else "running",
        message=_message(job, names),
        job=views.job(job, names),
        chunks=chunks,
        vectors_pending=passages.pending(tx, SearchFilter(SPACE, job.tenant, (collection_id,))),
    )


def job(tx: Tx, tenant: str, id: str) -> JobAnswer:
    found = store_jobs.need(tx, tenant, id)
    names = _names(tx, tenant, [found])
    return JobAnswer(message=_message(found, names), job=views.job(found, names))


def jobs(tx: Tx, tenant: str, limit: int) -> JobsAnswer:
    found = store_jobs.newest(tx, tenant, limit)
    names = _names(tx, tenant, found)
    return JobsAnswer(jobs=[views.job(one, names) for one in found])


def _error(report: dict[str, str]) -> DocumentError:
    kinds: dict[str, type[DocumentError]] = {kind.code: kind for kind in (PathRefused, FileNotFound, Unreadable)}
    kind = kinds.get(report["code"], Unreadable)
    return kind(report["reason"], guidance=report.get("advice") or None, path=report["path"])


def _names(tx: Tx, tenant: str, jobs: Sequence[Job]) -> dict[str, str]:
    ids = sorted({job.collection_id for job in jobs if job.collection_id})
    return {id: row.name for id, row in store_collections.by_ids(tx, tenant, ids).items()}


def _message(job: Job, names: dict[str, str]) -> str:
    counts = job.counts
    where = f"'{names[job.collection_id]}'" if job.collection_id in names else "a collection that was deleted since"
    if job.finished_at is None:
        done = (
            "It looks for files"
            if counts.total is None
            else f"Done: {counts.done:,} of {counted(counts.total, 'file')}"
        )
        now = "It waits for its turn." if job.state == "queued" else f"{done}; it goes on in the background."
        named = f'job_id="{job.id}"'
        return f"{now} See how far it is with ingest_status({named}); ingest_status({named}, cancel=true) stops it."
    told = [
        f"{counted(counts.added, 'document')} added",
        f"{counts.changed:,} changed",
        f"{counts.unchanged:,} unchanged",
        *([f"{counts.removed:,} removed"] if counts.removed else []),
        *([f"{counted(counts.failed, 'file')} failed"] if counts.failed else []),
    ]
    sentence = f"{', '.join(told)} in {where}."
    match job.state:
        case "failed":
            return f"The ingest failed: {job.error} Before that: {sentence}"
        case "cancelled":
            return f"The ingest was cancelled. Before that: {sentence}"
        case _ if not counts.done and not counts.removed:
            return f"No file was found that can be read; nothing changed in {where}."
        case _:
            return sentence
