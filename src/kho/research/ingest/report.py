"""Reports on ingests, running and finished."""

from kho.kernel import Call, Command, Hint, Op, SearchFilter, Tx
from kho.lib.dataclass import dataclass
from kho.lib.markdown import counted
from kho.research import errors, markdown, model, views
from kho.research.contract import READ, RESEARCH, SOME_ID, WRITE, ResearchService, simple
from kho.research.errors import DocumentError, FileNotFound, PathRefused, Unreadable
from kho.research.ingest import job_store, plan
from kho.research.ingest.indexing import SPACE
from kho.research.ingest.job_store import Job
from kho.research.ingest.jobs import Jobs
from kho.research.library import collection_store
from kho.research.model import IngestAnswer, JobAnswer, JobsAnswer
from kho.search.indexing import passages


def ingest(tx: Tx, job: Job) -> IngestAnswer:
    """Return the answer of an ingest. If a single file was named and failed, raise its error."""
    if not job.request["folder"] and job.report:
        raise _error(job.report[0])
    names, counts = collection_store.names_of(tx, job.tenant, [job]), job.counts
    collection_id = job.collection_id or ""
    stored = counts.added + counts.changed
    chunks = plan.chunks_of_job(tx, job.tenant, collection_id, job.id) if stored else 0
    nothing = job.state == "done" and counts.failed and counts.failed == counts.done
    over = "error" if job.state in ("failed", "cancelled") or nothing else "success"
    return IngestAnswer(
        status=over if job.finished_at is not None else "running",
        message=_message(job, names),
        job=views.job(job, names),
        chunks=chunks,
        vectors_pending=passages.pending(tx, SearchFilter(SPACE, job.tenant, (collection_id,))),
    )


def failed_in_part(answer: IngestAnswer | JobAnswer) -> bool:
    return answer.job.failed > 0


@dataclass(slots=True, kw_only=True)
class Reports(ResearchService):
    """Progress and cancelling of ingests. Only one operation is an MCP tool: models do not need more tools."""

    jobs: Jobs

    @RESEARCH.write(
        "ingest_status",
        name="jobs",
        scope=READ,
        invalid=errors.invalid_documents,
        text=markdown.jobs,
        example={"limit": 5},
    )
    @simple
    async def ingest_status(self, params: model.IngestStatus, call: Call) -> JobsAnswer:
        """How far ingests are; or stop one.

        Call it after ingest_documents answered with a job: how far it is, and what failed and why. Without a job_id it
        lists the newest jobs.
        """
        if params.cancel:
            call.need(WRITE)
        if params.job_id is None:
            if params.cancel:
                raise errors.missing(errors.InvalidDocumentRequest, "job_id", "cancel")
            return await self.list_jobs(model.ListJobs(limit=params.limit), call)
        if params.cancel:
            answer = await self.cancel_job(model.JobById(job_id=params.job_id), call)
        else:
            answer = await self.job_status(model.JobById(job_id=params.job_id), call)
        return JobsAnswer(jobs=[answer.job])

    @RESEARCH.read(
        "job_status",
        tool=False,
        invalid=errors.invalid_documents,
        text=markdown.job,
        cli=Command("kb job-status", ("job_id",), stands_for=("ingest_status", {})),
        example={"job_id": SOME_ID},
    )
    @simple
    async def job_status(self, params: model.JobById, call: Call) -> JobAnswer:
        """How far an ingest is."""
        return await self.db.read(lambda tx: _answer(tx, job_store.need(tx, call.tenant, params.job_id)))

    @RESEARCH.read(
        "list_jobs",
        tool=False,
        invalid=errors.invalid_documents,
        text=markdown.jobs,
        cli=Command("kb jobs", stands_for=("ingest_status", {"limit": 20})),
        example={"limit": 5},
    )
    @simple
    async def list_jobs(self, params: model.ListJobs, call: Call) -> JobsAnswer:
        """The newest ingests."""

        def work(tx: Tx) -> JobsAnswer:
            found = job_store.newest(tx, call.tenant, params.limit)
            names = collection_store.names_of(tx, call.tenant, found)
            return JobsAnswer(jobs=[views.job(one, names) for one in found])

        return await self.db.read(work)

    @RESEARCH.write(
        "cancel_job",
        tool=False,
        invalid=errors.invalid_documents,
        text=markdown.job,
        cli=Command("kb cancel-job", ("job_id",), stands_for=("ingest_status", {"cancel": True})),
        example={"job_id": SOME_ID},
    )
    @simple
    async def cancel_job(self, params: model.JobById, call: Call) -> JobAnswer:
        """Stop an ingest; what it has stored so far stays."""
        cancelled = await self.jobs.cancel(call.tenant, params.job_id, call)
        answer = await self.db.read(lambda tx: _answer(tx, job_store.need(tx, call.tenant, params.job_id)))
        if not cancelled:
            return answer.model_copy(update={"message": Hint("It had already ended. ", answer.message)})
        return answer


def _answer(tx: Tx, job: Job) -> JobAnswer:
    names = collection_store.names_of(tx, job.tenant, [job])
    return JobAnswer(message=_message(job, names), job=views.job(job, names))


def _error(report: dict[str, str]) -> DocumentError:
    kinds: dict[str, type[DocumentError]] = {kind.code: kind for kind in (PathRefused, FileNotFound, Unreadable)}
    kind = kinds.get(report["code"], Unreadable)
    return kind(report["reason"], guidance=report.get("advice") or None, path=report["path"])


def _message(job: Job, names: dict[str, str]) -> str:
    counts = job.counts
    where = f"'{names[job.collection_id]}'" if job.collection_id in names else "a collection that was deleted since"
    if job.finished_at is None:
        done = (
            "It looks for files"
            if counts.total is None
            else f"Done: {counts.done:,} of {counted(counts.total, 'file')}"
        )
        now = "It is waiting in the queue." if job.state == "queued" else f"{done}; it continues in the background."
        status = Op("ingest_status", job_id=job.id)
        stop = Op("ingest_status", job_id=job.id, cancel=True)
        return Hint(f"{now} See how far it is with ", status, "; ", stop, " stops it.")
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
