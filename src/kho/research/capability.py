"""Wires the research slice into the hub (contract 004)."""

from dataclasses import replace
from functools import partial
from pathlib import Path

from kho.kernel.capability import Capability, Changes, Transfer
from kho.parsers import Worker
from kho.research import INSTRUCTIONS, prompts
from kho.research.contract import READ_TIMEOUT, RESEARCH
from kho.research.ingest.allowed_paths import AllowedPaths
from kho.research.ingest.indexing import FORM, SPACE
from kho.research.ingest.report import Reports
from kho.research.ingest.service import Ingest
from kho.research.integrity import UPKEEP
from kho.research.library.added_text import Augment
from kho.research.library.collections import Collections
from kho.research.library.document_store import DocumentStore, all_documents
from kho.research.library.documents import Documents
from kho.research.library.projects import Projects
from kho.research.library.transfer import KnowledgeTransfer
from kho.research.query.feedback import Feedback
from kho.research.query.history import History
from kho.research.query.service import Queries
from kho.research.query.similar import Similarity
from kho.research.resources import ResearchResources
from kho.research.searchable import searchable
from kho.research.settings import ResearchSettings
from kho.search.core import Core
from kho.search.indexing.reindex import reindex

MIGRATIONS = Path(__file__).parent / "migrations"
SERVICES = (
    Queries,
    Collections,
    Projects,
    Ingest,
    Augment,
    Feedback,
    Similarity,
    History,
    Reports,
    Documents,
    KnowledgeTransfer,
)
"""In the order of their operations."""


def described(*services: object) -> Capability:
    """Return the capability's description: operations, instructions, transfers. Without services it is for help texts
    only."""
    return Capability(
        "research",
        "research-server",
        RESEARCH.bind(*(services or SERVICES)),
        "Collections of documents: add and search them.",
        instructions=INSTRUCTIONS,
        transfers=(
            Transfer(
                "kb",
                "export_knowledge",
                "import_knowledge",
                "lines",
                {
                    "imported": "imported",
                    "replaced": "replaced",
                    "skipped": "skipped",
                    "collections": "collection|collections",
                    "related": "project or verdict|projects and verdicts",
                },
                complete={"everything": True},
            ),
        ),
    )


def capability(core: Core, settings: ResearchSettings, *, allowed_paths: AllowedPaths, reader: Worker) -> Capability:
    """Build the capability. `reader` should cut the texts it reads into passages; it is closed with the slice."""
    db, clock, store = core.db, core.clock, DocumentStore(core.index)
    changes = Changes(scope=RESEARCH.read_scope)
    history = History(db=db, clock=clock, settings=settings)
    queries = Queries(db=db, searcher=core.searcher, history=history, clock=clock, settings=settings)
    collections = Collections(db=db, store=store, clock=clock, settings=settings, model=core.model, changes=changes)
    documents = Documents(db=db, store=store, clock=clock, settings=settings, model=core.model)
    ingest = Ingest(
        db=db,
        store=store,
        reader=reader,
        allowed_paths=allowed_paths,
        background=core.background,
        leases=core.leases,
        clock=clock,
        settings=settings,
        changes=changes,
        quotas=core.quotas,
        screen=core.screen,
    )
    return replace(
        described(
            queries,
            collections,
            Projects(db=db, clock=clock, settings=settings),
            ingest,
            Augment(
                db=db, store=store, reader=reader, screen=core.screen, clock=clock, settings=settings, changes=changes
            ),
            Feedback(db=db, clock=clock, settings=settings),
            Similarity(db=db, searcher=core.searcher, clock=clock, settings=settings),
            history,
            Reports(db=db, jobs=ingest.jobs, clock=clock, settings=settings),
            documents,
            KnowledgeTransfer(db=db, store=store, clock=clock, settings=settings, changes=changes),
        ),
        prompts=prompts.prompts(queries),
        resources=ResearchResources(collections=collections, documents=documents, history=history),
        resource_changes=changes,
        migrations=MIGRATIONS,
        searchable=(searchable(db, READ_TIMEOUT),),
        start=(partial(reindex, db, core.index, core.background, SPACE, FORM, all_documents),),
        follow=(ingest.resume,),
        stop=(reader.aclose,),
        upkeep=UPKEEP,
    )
