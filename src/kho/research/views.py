"""Rows as results: what callers see of collections, documents and jobs."""

from collections.abc import Mapping
from typing import Any

from kho.kernel import paging
from kho.kernel.errors import InvalidParams
from kho.lib.clock import iso
from kho.research import results
from kho.research.errors import ResearchError
from kho.research.filing import Doc
from kho.research.store_collections import Collection, Size
from kho.research.store_jobs import Job


def place(cursor: str | None, refuse: type[ResearchError], *parts: type) -> tuple[Any, ...] | None:
    """Where a page begins. A cursor from elsewhere is refused with an error of the contract's."""
    try:
        return paging.place(cursor, *parts)
    except InvalidParams as problem:
        raise refuse(problem.message, parameter="cursor") from None


def collection(row: Collection, size: Size, projects: list[str]) -> results.Collection:
    return results.Collection(
        name=row.name,
        type=row.type,
        description=row.description,
        documents=size.documents,
        chunks=size.chunks,
        size_bytes=size.bytes,
        projects=projects,
        created_at=iso(row.created_at),
        updated_at=iso(row.updated_at),
    )


def brief(doc: Doc, names: Mapping[str, str]) -> results.Brief:
    """`names` are those of the collections, by id."""
    return results.Brief(
        id=doc.id,
        title=doc.title,
        collection=names[doc.collection_id],
        origin=doc.origin,
        path=doc.path,
        source=doc.source,
        format=doc.format,
        size_bytes=doc.size,
        chunks=doc.chunks,
        tags=[*doc.tags],
        updated_at=iso(doc.updated_at),
    )


def document(doc: Doc, names: Mapping[str, str], text: str | None) -> results.Document:
    return results.Document(
        **brief(doc, names).model_dump(),
        hash=doc.hash,
        language=doc.language,
        author=doc.author,
        published=doc.published,
        modified_at=None if doc.mtime is None else iso(doc.mtime),
        created_at=iso(doc.created_at),
        content_types=doc.content_types(),
        text=text,
    )


def job(row: Job, names: Mapping[str, str]) -> results.Job:
    counts = row.counts
    return results.Job(
        job_id=row.id,
        kind=row.kind,
        state=row.state,
        collection=names.get(row.collection_id) if row.collection_id else None,
        done=counts.done,
        total=counts.total,
        added=counts.added,
        changed=counts.changed,
        unchanged=counts.unchanged,
        removed=counts.removed,
        failed=counts.failed,
        failures=[
            results.FileFailure(path=one["path"], reason=one["reason"], code=one.get("code")) for one in row.report
        ],
        error=row.error,
        created_at=iso(row.created_at),
        updated_at=iso(row.updated_at),
        finished_at=None if row.finished_at is None else iso(row.finished_at),
    )


def amount(bytes: int) -> str:
    """As people say it."""
    size, unit = float(bytes), "B"
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
