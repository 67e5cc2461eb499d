"""Conversation memory: messages that stay, a summary that grows with them, and search over all of it (contract 002)."""

from functools import partial
from pathlib import Path

from kho.kernel.background import Background
from kho.kernel.capability import Capability, Changes, Transfer
from kho.kernel.ports import Database, Llm
from kho.lib.clock import Clock
from kho.memory import filing, transfer
from kho.memory.operations import operations
from kho.memory.resources import Shelf
from kho.memory.service import Limits, Service
from kho.memory.store import SPACE
from kho.memory.summaries import Summaries
from kho.search.indexing.index import Index
from kho.search.indexing.reindex import refile
from kho.search.query.searcher import Searcher

__all__ = ["MIGRATIONS", "Limits", "capability"]

MIGRATIONS = Path(__file__).parent / "migrations"


def capability(
    db: Database,
    index: Index,
    searcher: Searcher,
    background: Background,
    clock: Clock,
    limits: Limits,
    llm: Llm | None = None,
) -> Capability:
    """`llm` writes the summaries; without one they are made of the conversation's own sentences."""
    changes = Changes()
    summaries = Summaries(db, background, clock, limits, changes, llm)
    service = Service(db, index, searcher, clock, limits, changes, summaries.nudge)
    shelf = Shelf(db, limits.timeout)
    return Capability(
        "memory",
        "memory-server",
        operations(service, shelf, transfer.Transfer(db, index, clock, limits, changes)),
        "Conversations: messages that stay, and a summary that grows with them.",
        resources=shelf,
        resource_changes=changes,
        lists_tools=False,
        transfers=(
            Transfer(
                "memory",
                "memory/export",
                "memory/import",
                "lines",
                {"conversations": "conversations begun", "messages": "messages taken", "unchanged": "there already"},
            ),
        ),
        migrations=MIGRATIONS,
        start=(
            partial(refile, db, index, background, SPACE, filing.FORM, filing.all_documents),
            summaries.run,
        ),
    )
