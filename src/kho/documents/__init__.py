"""Documents: a tenanted tree with revisions, optimistic locking, soft delete and audit, and answered questions
(contract 000)."""

from functools import partial
from pathlib import Path

from kho.documents import filing, operations_webhooks
from kho.documents.deleting import Deleting
from kho.documents.deliveries import Deliveries, Telling
from kho.documents.knowledge import External, Knowledge, WebSearch
from kho.documents.operations import operations
from kho.documents.purge import Purging, Wipe
from kho.documents.reading import Reading
from kho.documents.resources import DocumentResources
from kho.documents.service import Service
from kho.documents.store import SPACE
from kho.documents.transfer_export import Export
from kho.documents.transfer_import import Import
from kho.documents.webhooks import Webhooks
from kho.kernel.background import Background
from kho.kernel.capability import Capability
from kho.kernel.ports import Database, Llm
from kho.lib.clock import Clock
from kho.search.indexing.index import Index
from kho.search.indexing.reindex import reindex
from kho.search.query.searcher import Searcher

__all__ = ["MIGRATIONS", "External", "Telling", "capability"]

MIGRATIONS = Path(__file__).parent / "migrations"


def capability(
    db: Database,
    index: Index,
    searcher: Searcher,
    background: Background,
    clock: Clock,
    timeout: float,
    llm: Llm | None = None,
    web: WebSearch | None = None,
    telling: Telling | None = None,
    wipe: Wipe | None = None,
) -> Capability:
    """`llm` writes the answers; without one they are quoted. `web` is searched by those who ask for it. `telling` is
    how webhooks are told. `wipe` rewrites the database's file, where it keeps what was deleted."""
    deleting = Deleting(db, index, background, clock)
    deliveries = Deliveries(db, background, clock, telling or Telling())
    service = Service(db, index, clock, deleting, timeout, deliveries.nudge)
    admin = operations_webhooks.operations(Webhooks(db, deliveries, clock, timeout), Purging(db, deleting, clock, wipe))
    return Capability(
        "documents",
        "documents-server",
        (
            *operations(
                service,
                Reading(deleting, timeout),
                Knowledge(searcher, deleting, timeout, llm, web),
                Export(db, deleting, timeout),
                Import(db, service, deleting, timeout),
            ),
            *admin,
        ),
        "Documents: a tree with revisions, an audit log and answered questions.",
        resources=DocumentResources(deleting, timeout),
        instructions="The team's own documents are a tree: ask it with query_knowledge, and send last_known_revision "
        "when you change one.",
        migrations=MIGRATIONS,
        start=(
            partial(reindex, db, index, background, SPACE, filing.FORM, filing.all_documents),
            deleting.run,
            deliveries.run,
        ),
    )
