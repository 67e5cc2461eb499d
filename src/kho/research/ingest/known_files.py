"""The SQL of an ingest: what is known of the files that a folder is compared with."""

from collections.abc import Sequence
from dataclasses import dataclass

from kho.kernel.ports import Tx
from kho.lib.sql import Table


@dataclass(frozen=True, slots=True)
class Known:
    """A file that is here already, as far as it takes to tell whether it changed."""

    id: str
    path: str
    hash: str
    size: int
    mtime: int | None
    """None if it was read so soon after it was written that a later change might not show in its time."""
    job_id: str | None
    created_at: int


KNOWN = Table("research_documents", Known)


def known(tx: Tx, tenant: str, collection_id: str) -> dict[str, Known]:
    """All files of a collection, by path."""
    rows = tx.all(
        f"SELECT {KNOWN.columns} FROM research_documents WHERE tenant = $1 AND collection_id = $2 AND path IS NOT NULL",
        tenant,
        collection_id,
    )
    return {one.path: one for one in KNOWN.read_all(rows)}


def looked_at(tx: Tx, tenant: str, times: Sequence[tuple[str, int | None]]) -> None:
    """The files of these documents (ids) have another time, but the same bytes: nothing else changes."""
    tx.many(
        "UPDATE research_documents SET mtime = $1 WHERE tenant = $2 AND id = $3",
        [(mtime, tenant, id) for id, mtime in times],
    )


def chunks_of_job(tx: Tx, tenant: str, collection_id: str, job_id: str) -> int:
    """The chunks of the documents that a job stored."""
    row = tx.one(
        "SELECT coalesce(sum(chunks), 0) FROM research_documents "
        "WHERE tenant = $1 AND collection_id = $2 AND job_id = $3",
        tenant,
        collection_id,
        job_id,
    )
    return int(row[0]) if row else 0
