"""Wiring of documents into the hub."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from kho.documents import INSTRUCTIONS, indexing
from kho.documents.archive import Archive
from kho.documents.contract import ADMIN, DOCUMENTS
from kho.documents.deletion import CurrentReads, Deletions
from kho.documents.folder_sync.export import Export
from kho.documents.folder_sync.importer import Import
from kho.documents.integrity import UPKEEP
from kho.documents.knowledge import Knowledge, WebSearch
from kho.documents.purge import Purge
from kho.documents.reads import Reads
from kho.documents.resources import DocumentResources
from kho.documents.searchable import searchable
from kho.documents.service import DocumentService
from kho.documents.settings import DocumentSettings
from kho.documents.store import SPACE
from kho.documents.webhooks import delivery
from kho.documents.webhooks.addresses import WebhookAddresses, always
from kho.documents.webhooks.delivery import Deliveries, WebhookPolicy
from kho.documents.webhooks.service import Webhooks
from kho.kernel import Capability, Llm
from kho.kernel.capability import Gauge, Transfer
from kho.kernel.upkeep.erasure import Vacuum
from kho.lib.addresses import SYSTEM, Allowed, Network
from kho.lib.dataclass import dataclass
from kho.search.core import Core
from kho.search.indexing.reindex import reindex

MIGRATIONS = Path(__file__).parent / "migrations"
CONTRACT_000 = ("create_document", "update_document", "delete_document", "move_document", "query_knowledge")
"""Operations of contract 000; they are listed before all others."""


@dataclass(frozen=True, slots=True)
class Services:
    """The objects whose methods are the operations; the classes instead of instances are enough for help texts."""

    service: DocumentService | type[DocumentService] = DocumentService
    knowledge: Knowledge | type[Knowledge] = Knowledge
    reads: Reads | type[Reads] = Reads
    export: Export | type[Export] = Export
    import_: Import | type[Import] = Import
    webhooks: Webhooks | type[Webhooks] = Webhooks
    purge: Purge | type[Purge] = Purge
    archive: Archive | type[Archive] = Archive


def described(services: Services = Services()) -> Capability:  # noqa: B008 (frozen, and made of classes)
    """Return the capability's description and operations."""
    operations = DOCUMENTS.bind(services.service, services.knowledge, services.reads, services.export, services.import_)
    return Capability(
        "documents",
        "documents-server",
        (
            *(one for one in operations if one.tool in CONTRACT_000),
            *(one for one in operations if one.tool not in CONTRACT_000),
            *ADMIN.bind(services.webhooks, services.purge, services.archive),
        ),
        "Documents: a tree with revisions, an audit log and answered questions.",
        instructions=INSTRUCTIONS,
        transfers=(
            Transfer(
                "docs",
                "save_documents",
                "load_documents",
                told={"imported": "imported", "unchanged": "existed already"},
                what="documents with all their revisions, scheduled deletions and webhooks, as JSON Lines,",
                words=("save", "load"),
            ),
        ),
    )


def capability(
    core: Core,
    settings: DocumentSettings,
    *,
    llm: Llm | None = None,
    web_search: WebSearch | None = None,
    vacuum: Vacuum | None = None,
    shared: Callable[[], Awaitable[bool]] = always,
    network: Network = SYSTEM,
    read_only: bool = False,
) -> Capability:
    """Wire the slice. `llm` writes the answers; without it passages are quoted. `web_search` is used when a caller asks
    for it. `vacuum` rewrites the database file, if that keeps deleted text. `shared` says whether the hub serves others
    than this machine's user: then webhooks go to public addresses, by `network`. With `read_only` no read carries out
    a deletion."""
    db, index, clock, timeout = core.db, core.index, core.clock, settings.timeout
    deletions = Deletions(db=db, index=index, background=core.background, clock=clock)
    reads = CurrentReads(db=db, deletions=deletions, timeout=timeout, read_only=read_only)
    policy = WebhookPolicy(settings.webhook_timeout, tuple(settings.webhook_backoff))
    addresses = WebhookAddresses(Allowed.of(settings.webhook_hosts), shared, network)
    deliveries = Deliveries(
        db=db, background=core.background, clock=clock, leases=core.leases, policy=policy, addresses=addresses
    )
    service = DocumentService(
        db=db, index=index, clock=clock, deletions=deletions, reads=reads, on_event=deliveries.nudge
    )
    services = Services(
        service,
        Knowledge(searcher=core.searcher, reads=reads, llm=llm, web_search=web_search),
        Reads(reads=reads),
        Export(reads=reads),
        Import(service=service, reads=reads, screen=core.screen),
        Webhooks(db=db, deliveries=deliveries, addresses=addresses, clock=clock, timeout=timeout),
        Purge(db=db, deletions=deletions, clock=clock, vacuum=vacuum),
        Archive(db=db, index=index, clock=clock, timeout=timeout),
    )
    return replace(
        described(services),
        resources=DocumentResources(reads=reads),
        searchable=(searchable(reads, clock),),
        upkeep=UPKEEP,
        migrations=MIGRATIONS,
        gauges=(
            Gauge("kho_webhook_deliveries_waiting", "Events that a webhook has not received yet.", delivery.waiting),
            Gauge("kho_webhook_deliveries_given_up", "Events that no retry could deliver.", delivery.given_up),
        ),
        start=(partial(reindex, db, index, core.background, SPACE, indexing.FORM, indexing.all_documents),),
        follow=(deletions.run, deliveries.run),
    )
