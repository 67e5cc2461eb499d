"""Operations on jobs and documents, and what keeps the knowledge base in order. All but one are for programs and
people: models get by without more tools."""

from collections.abc import Sequence
from typing import Any

from kho.kernel.call import Call
from kho.kernel.command import Command
from kho.kernel.operation import Operation
from kho.research import errors, markdown, model, results
from kho.research.defining import READ, SOME_ID, WRITE, Services, define, within


def operations(services: Services) -> Sequence[Operation]:
    return (*_jobs(services), *_documents(services), *_upkeep(services))


def _jobs(services: Services) -> Sequence[Operation]:
    ingest = services.ingest

    async def jobs(params: model.IngestStatus, call: Call) -> results.JobsAnswer:
        if params.cancel:
            call.need(WRITE)
        if params.job_id is None:
            if params.cancel:
                raise errors.missing(errors.InvalidDocumentRequest, "job_id", "cancel")
            return await ingest.jobs(model.ListJobs(limit=params.limit), call)
        if params.cancel:
            answer = await ingest.cancel(model.CancelJob(job_id=params.job_id), call)
        else:
            answer = await ingest.status(model.JobStatus(job_id=params.job_id), call)
        return results.JobsAnswer(jobs=[answer.job])

    def job(name: str, summary: str, wire: str, command: Command, **rest: Any) -> Operation:
        return define(name=name, summary=summary, wire=wire, cli=(command,), invalid=errors.invalid_documents, **rest)

    brief = services.limits.simple_timeout
    return (
        define(
            name="research.jobs",
            summary="How far ingests are; or stop one.",
            description="How far an ingest is, what failed in it and why. Left without a job_id it lists the newest.",
            params=model.IngestStatus,
            result=results.JobsAnswer,
            run=within(brief, jobs),
            scope=READ,
            effect="write",
            invalid=errors.invalid_documents,
            text=markdown.jobs,
            wire="ingest_status",
            tool=True,
            example={"limit": 5},
        ),
        job(
            "research.job_status",
            "How far an ingest is.",
            "job_status",
            Command("kb job-status", ("job_id",), stands_for=("ingest_status", {})),
            params=model.JobStatus,
            result=results.JobAnswer,
            run=within(brief, ingest.status),
            scope=READ,
            text=markdown.job,
            example={"job_id": SOME_ID},
        ),
        job(
            "research.list_jobs",
            "The newest ingests.",
            "list_jobs",
            Command("kb jobs", stands_for=("ingest_status", {"limit": "20"})),
            params=model.ListJobs,
            result=results.JobsAnswer,
            run=within(brief, ingest.jobs),
            scope=READ,
            text=markdown.jobs,
            example={"limit": 5},
        ),
        job(
            "research.cancel_job",
            "Stop an ingest; what it has stored so far stays.",
            "cancel_job",
            Command("kb cancel-job", ("job_id",), stands_for=("ingest_status", {"cancel": True})),
            params=model.CancelJob,
            result=results.JobAnswer,
            run=within(brief, ingest.cancel),
            scope=WRITE,
            effect="write",
            text=markdown.job,
            example={"job_id": SOME_ID},
        ),
    )


def _documents(services: Services) -> Sequence[Operation]:
    brief, documents = services.limits.simple_timeout, services.documents
    return (
        define(
            name="research.list_documents",
            summary="List documents, the last changed first.",
            params=model.ListDocuments,
            result=results.DocumentsAnswer,
            run=within(brief, documents.list),
            scope=READ,
            invalid=errors.invalid_documents,
            text=markdown.documents,
            wire="list_kb_documents",
            cli=(Command("kb list-documents"),),
            example={"collection": "papers", "limit": 20},
        ),
        define(
            name="research.get_document",
            summary="Show a document, with its text if asked for.",
            params=model.GetDocument,
            result=results.DocumentAnswer,
            run=within(brief, documents.get),
            scope=READ,
            invalid=errors.invalid_documents,
            text=markdown.document,
            wire="get_kb_document",
            cli=(Command("kb show-document", ("document",), documents=("document",)),),
            example={"document": "reading.md", "text": True},
        ),
        define(
            name="research.remove_document",
            summary="Remove a document from its collection; a file itself stays.",
            params=model.RemoveDocument,
            result=results.Removed,
            run=within(brief, documents.remove),
            scope=WRITE,
            effect="destructive",
            invalid=errors.invalid_documents,
            text=markdown.removed,
            wire="remove_kb_document",
            cli=(
                Command(
                    "kb remove-document",
                    ("document",),
                    documents=("document",),
                    final=True,
                    looks=("get_kb_document", {}),
                ),
            ),
            example={"document": "reading.md", "collection": "papers"},
        ),
    )


def _upkeep(services: Services) -> Sequence[Operation]:
    documents, transfer = services.documents, services.transfer
    return (
        define(
            name="research.status",
            summary="How the knowledge base is: what is in it, what waits for vectors, the last jobs.",
            params=model.KbStatus,
            result=results.Status,
            run=within(services.limits.simple_timeout, documents.status),
            scope=READ,
            invalid=errors.invalid_collections,
            text=markdown.status,
            wire="knowledge_base_status",
            cli=(Command("kb status"),),
            example={"collection": "papers"},
        ),
        define(
            name="research.rebuild",
            summary="File all documents anew from their stored texts.",
            params=model.RebuildIndex,
            result=results.Rebuilt,
            run=documents.rebuild,
            scope=WRITE,
            effect="write",
            invalid=errors.invalid_collections,
            text=markdown.rebuilt,
            wire="rebuild_index",
            cli=(Command("kb rebuild-index"),),
            example={"collection": "papers"},
        ),
        define(
            name="research.export",
            summary="Collections and documents, a page at a time, in the form that import takes.",
            params=model.ExportKnowledge,
            result=results.Exported,
            run=transfer.export,
            scope=READ,
            invalid=errors.invalid_documents,
            text=markdown.exported,
            wire="export_knowledge",
            example={"limit": 100},
        ),
        define(
            name="research.import",
            summary="Take what export gave; documents that are here already stay, unless they are to be replaced.",
            params=model.ImportKnowledge,
            result=results.Imported,
            run=transfer.import_,
            scope=WRITE,
            effect="write",
            invalid=errors.invalid_documents,
            text=markdown.imported,
            wire="import_knowledge",
            example={"lines": [{"kind": "collection", "id": SOME_ID, "name": "papers"}]},
        ),
    )
