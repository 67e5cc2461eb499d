"""Research collections: folders of papers and notes, ingested, asked, grouped into projects (contract 004)."""

from functools import partial
from pathlib import Path

from kho.kernel.background import Background
from kho.kernel.capability import Capability, Transfer
from kho.kernel.ports import Database
from kho.lib.clock import Clock
from kho.parsers import Worker
from kho.research import prompts, resources, standing, transfer
from kho.research.augment import Augment
from kho.research.collections import Collections
from kho.research.defining import Services
from kho.research.documents import Documents
from kho.research.feedback import Feedback
from kho.research.filing import FORM, SPACE
from kho.research.history import History
from kho.research.ingest import Ingest
from kho.research.limits import Limits
from kho.research.operations import operations
from kho.research.projects import Projects
from kho.research.queries import Queries
from kho.research.roots import Openings
from kho.research.store_documents import DocumentStore, all_documents
from kho.search.indexing.index import Index
from kho.search.indexing.reindex import reindex
from kho.search.query.searcher import Searcher

__all__ = ["MIGRATIONS", "Limits", "Openings", "capability"]

MIGRATIONS = Path(__file__).parent / "migrations"


def capability(
    db: Database,
    index: Index,
    searcher: Searcher,
    background: Background,
    clock: Clock,
    limits: Limits,
    openings: Openings,
    reader: Worker,
    model: str = "",
) -> Capability:
    """`reader` should cut what it reads; it is closed with the slice. `model` is the embedder's name; empty where
    there is keyword search only."""
    store, history = DocumentStore(index), History(db, clock)
    services = Services(
        Queries(db, searcher, history, clock, limits),
        Collections(db, store, clock, model),
        Projects(db, clock),
        Ingest(db, store, reader, openings, background, clock, limits),
        Augment(db, store, reader, clock, limits),
        Documents(db, store, clock, model),
        transfer.Transfer(db, store, clock),
        Feedback(db, clock),
        history,
        limits,
    )
    return Capability(
        "research",
        "research-server",
        operations(services),
        "Collections of documents: add them, ask them.",
        prompts.prompts(services.queries),
        resources.ResearchResources(services.collections, services.documents, history),
        instructions="Before answering a question that the user's own papers, notes or code may answer, call "
        "query_knowledge_base, and cite what it finds; add files with ingest_documents and findings with "
        "augment_knowledge.",
        migrations=MIGRATIONS,
        start=(partial(reindex, db, index, background, SPACE, FORM, all_documents), services.ingest.resume),
        stop=(reader.aclose,),
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
                },
            ),
        ),
        upkeep=standing.Standing(index),
    )
