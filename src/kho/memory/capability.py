"""Conversation memory, as the hub plugs it in."""

from dataclasses import replace
from functools import partial
from pathlib import Path

from kho.kernel.capability import Capability, Changes
from kho.kernel.capability import Transfer as Transferred
from kho.kernel.ports import Llm
from kho.memory import indexing
from kho.memory.contract import MEMORY
from kho.memory.resources import ConversationResources
from kho.memory.service import Service
from kho.memory.settings import MemorySettings
from kho.memory.store import SPACE
from kho.memory.summarizer import Summarizer
from kho.memory.transfer import Transfer
from kho.search.core import Core
from kho.search.indexing.reindex import reindex

MIGRATIONS = Path(__file__).parent / "migrations"


def described(*services: object) -> Capability:
    """What it offers; without services, for help texts."""
    return Capability(
        "memory",
        "memory-server",
        MEMORY.bind(*(services or (Service, ConversationResources, Transfer))),
        "Conversations: messages that stay, and a summary that grows with them.",
        lists_tools=False,
        transfers=(
            Transferred(
                "memory",
                "memory/export",
                "memory/import",
                "lines",
                {"conversations": "conversations begun", "messages": "messages taken", "unchanged": "there already"},
            ),
        ),
    )


def capability(core: Core, settings: MemorySettings, *, llm: Llm | None = None) -> Capability:
    """`llm` writes the summaries; without one they are made of the conversation's own sentences."""
    resources = ConversationResources(core.db, settings.timeout)
    changes = Changes(scope=resources.scope)
    summarizer = Summarizer(
        db=core.db, background=core.background, clock=core.clock, settings=settings, changes=changes, llm=llm
    )
    service = Service(
        db=core.db,
        index=core.index,
        searcher=core.searcher,
        clock=core.clock,
        settings=settings,
        changes=changes,
        on_waiting=summarizer.nudge,
    )
    transfer = Transfer(db=core.db, index=core.index, settings=settings, changes=changes, clock=core.clock)
    return replace(
        described(service, resources, transfer),
        resources=resources,
        resource_changes=changes,
        migrations=MIGRATIONS,
        start=(
            partial(reindex, core.db, core.index, core.background, SPACE, indexing.FORM, indexing.all_documents),
            summarizer.run,
        ),
    )
