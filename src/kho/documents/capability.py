"""Documents, as the hub plugs them in."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from kho.documents import indexing
from kho.documents.contract import ADMIN, DOCUMENTS
from kho.documents.deletion import CurrentReads, Deletions
from kho.documents.folder_sync.export import Export
from kho.documents.folder_sync.importer import Import
from kho.documents.folder_sync.manifest import MAX_FOLDERS
from kho.documents.knowledge import Knowledge, WebSearch
from kho.documents.purge import Purge, Vacuum
from kho.documents.reads import Reads
from kho.documents.resources import DocumentResources
from kho.documents.service import Service
from kho.documents.settings import DocumentSettings
from kho.documents.store import SPACE
from kho.documents.webhooks.delivery import Deliveries, WebhookPolicy
from kho.documents.webhooks.service import Webhooks
from kho.kernel.capability import Capability
from kho.kernel.ports import Llm
from kho.search.core import Core
from kho.search.indexing.reindex import reindex

MIGRATIONS = Path(__file__).parent / "migrations"


@dataclass(frozen=True, slots=True)
class Services:
    """The parts whose methods carry the operations; the classes themselves are enough for help texts."""

    service: Service | type[Service] = Service
    knowledge: Knowledge | type[Knowledge] = Knowledge
    reads: Reads | type[Reads] = Reads
    export: Export | type[Export] = Export
    import_: Import | type[Import] = Import
    webhooks: Webhooks | type[Webhooks] = Webhooks
    purge: Purge | type[Purge] = Purge


def described(services: Services = Services()) -> Capability:  # noqa: B008 (frozen, and made of classes)
    """The operations, and what is said about them."""
    changes = DOCUMENTS.bind(services.service)
    of_the_contract = 4
    """A question, the fifth operation of contract 000, follows the four that change something."""
    return Capability(
        "documents",
        "documents-server",
        (
            *changes[:of_the_contract],
            *DOCUMENTS.bind(services.knowledge),
            *changes[of_the_contract:],
            *DOCUMENTS.bind(services.reads, services.export, services.import_),
            *ADMIN.bind(services.webhooks, services.purge),
        ),
        "Documents: a tree with revisions, an audit log and answered questions.",
        instructions="The team's own documents are a tree: ask it with query_knowledge, and send last_known_revision "
        "when you change one.",
    )


def capability(
    core: Core,
    settings: DocumentSettings,
    *,
    llm: Llm | None = None,
    web_search: WebSearch | None = None,
    vacuum: Vacuum | None = None,
    max_folders: int = MAX_FOLDERS,
) -> Capability:
    """`llm` writes the answers; without one they are quoted. `web_search` is for callers who ask for it. `vacuum`
    rewrites the database's file, where that keeps what was deleted."""
    db, index, clock, timeout = core.db, core.index, core.clock, settings.timeout
    deletions = Deletions(db=db, index=index, background=core.background, clock=clock)
    reads = CurrentReads(db=db, deletions=deletions, timeout=timeout)
    policy = WebhookPolicy(settings.webhook_timeout, tuple(settings.webhook_backoff))
    deliveries = Deliveries(db=db, background=core.background, clock=clock, leases=core.leases, policy=policy)
    service = Service(db=db, index=index, clock=clock, deletions=deletions, reads=reads, on_event=deliveries.nudge)
    services = Services(
        service,
        Knowledge(searcher=core.searcher, reads=reads, llm=llm, web_search=web_search),
        Reads(reads=reads),
        Export(db=db, reads=reads, max_folders=max_folders),
        Import(db=db, service=service, reads=reads, max_folders=max_folders),
        Webhooks(db=db, deliveries=deliveries, clock=clock, timeout=timeout),
        Purge(db=db, deletions=deletions, clock=clock, vacuum=vacuum),
    )
    return replace(
        described(services),
        resources=DocumentResources(reads=reads),
        migrations=MIGRATIONS,
        start=(
            partial(reindex, db, index, core.background, SPACE, indexing.FORM, indexing.all_documents),
            deletions.run,
            deliveries.run,
        ),
    )
