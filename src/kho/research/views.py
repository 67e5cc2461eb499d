"""Converts rows of collections, documents and jobs into result models."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from kho.kernel import InvalidParams, paging
from kho.research import model
from kho.research.errors import ResearchError
from kho.research.ingest.indexing import Doc
from kho.research.ingest.job_store import Job
from kho.research.library.collection_store import Collection, Size


def place(cursor: str | None, refuse: type[ResearchError], *parts: type) -> tuple[Any, ...] | None:
    """Decode a cursor; None for the first page. An invalid cursor raises `refuse`, an error of the contract."""
    try:
        return paging.place(cursor, *parts)
    except InvalidParams as problem:
        raise refuse(problem.message, parameter="cursor") from None


def collection(row: Collection, size: Size, projects: list[str]) -> model.CollectionSummary:
    return model.CollectionSummary.of(row, **asdict(size), projects=projects)


def brief(doc: Doc, names: Mapping[str, str]) -> model.Brief:
    """`names` maps collection ids to names."""
    return model.Brief.of(doc, collection=names[doc.collection_id])


def job(row: Job, names: Mapping[str, str]) -> model.JobReport:
    name = names.get(row.collection_id) if row.collection_id else None
    return model.JobReport.of(row, job_id=row.id, collection=name, failures=row.report, skipped=row.skipped or None)


def amount(bytes: int) -> str:
    """Format a number of bytes for people, e.g. "1.5 MB"."""
    size, unit = float(bytes), "B"
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
