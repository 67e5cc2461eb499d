"""What research holds of tenants and people. Collections and their texts are everybody's; questions and verdicts are
whose they are."""

from collections.abc import Sequence

from kho.kernel.ports import Row, Tx
from kho.kernel.upkeep.erasure import Erasure, Rows
from kho.research.ingest.indexing import SPACE
from kho.research.settings import ResearchSettings
from kho.search.core import Core
from kho.search.indexing.erasure import drop_each

SLICE = "research"


def erasures(core: Core, settings: ResearchSettings) -> list[Erasure]:
    def unfiled(tx: Tx, tenant: str, rows: Sequence[Row]) -> None:
        drop_each(core.index, tx, SPACE, tenant, rows)

    links = ("project_id", "collection_id")
    verdict = ("document_id", "digest", "sub")
    return [
        Rows(
            slice=SLICE,
            table="research_history",
            owners=("sub",),
            aged="at < {before}",
            keep_days=settings.keep_history_days,
        ),
        Rows(slice=SLICE, table="research_feedback", key=verdict, owners=("sub",)),
        Rows(slice=SLICE, table="research_jobs", authors=("sub",), aged="finished_at < {before}"),
        Rows(
            slice=SLICE,
            table="research_documents",
            more=("collection_id",),
            below=(("research_texts", "id"), ("research_feedback", "document_id")),
            derived=unfiled,
        ),
        Rows(slice=SLICE, table="research_project_collections", key=links),
        Rows(slice=SLICE, table="research_projects"),
        Rows(slice=SLICE, table="research_collections", authors=("created_by",)),
    ]
