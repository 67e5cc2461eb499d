"""Rows as results: what callers see of collections, documents and jobs."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from kho.kernel import paging
from kho.kernel.errors import InvalidParams
from kho.research import results
from kho.research.errors import ResearchError
from kho.research.ingest.indexing import Doc
from kho.research.ingest.job_store import Job
from kho.research.library.collection_store import Collection, Size


def place(cursor: str | None, refuse: type[ResearchError], *parts: type) -> tuple[Any, ...] | None:
    """Where a page begins. A cursor from elsewhere is refused with an error of the contract's."""
    try:
        return paging.place(cursor, *parts)
    except InvalidParams as problem:
        raise refuse(problem.message, parameter="cursor") from None


def collection(row: Collection, size: Size, projects: list[str]) -> results.Collection:
    return results.Collection.of(row, **asdict(size), projects=projects)


def brief(doc: Doc, names: Mapping[str, str]) -> results.Brief:
    """`names` are those of the collections, by id."""
    return results.Brief.of(doc, collection=names[doc.collection_id], size_bytes=doc.size)


def job(row: Job, names: Mapping[str, str]) -> results.Job:
    name = names.get(row.collection_id) if row.collection_id else None
    return results.Job.of(row, job_id=row.id, collection=name, failures=row.report)


def amount(bytes: int) -> str:
    """As people say it."""
    size, unit = float(bytes), "B"
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
