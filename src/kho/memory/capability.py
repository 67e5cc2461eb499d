"""Wiring of conversation memory into the hub."""

from dataclasses import replace
from functools import partial
from pathlib import Path

from kho.kernel.capability import Capability, Changes, Transfer
from kho.kernel.ports import Llm
from kho.memory import attribution, indexing
from kho.memory.contract import MEMORY
from kho.memory.integrity import UPKEEP
from kho.memory.resources import ConversationResources
from kho.memory.searchable import searchable
from kho.memory.service import MemoryService
from kho.memory.settings import MemorySettings
from kho.memory.store import SPACE
from kho.memory.summarizer import Summarizer
from kho.memory.transfer import MemoryTransfer
from kho.search.core import Core
from kho.search.indexing.reindex import reindex

MIGRATIONS = Path(__file__).parent / "migrations"


def described(*services: object) -> Capability:
    """Return the capability's description and operations; without services, the classes are enough for help texts."""
    return Capability(
        "memory",
        "memory-server",
        MEMORY.bind(*(services or (MemoryService, ConversationResources, MemoryTransfer))),
        "Conversations: messages, and a summary that is kept up to date.",
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
    )


def capability(core: Core, settings: MemorySettings, *, llm: Llm | None = None) -> Capability:
    """Wire the slice. `llm` writes the summaries; without it they are extracted from the conversation."""
    resources = ConversationResources(core.db, settings.timeout)
    changes = Changes(scope=resources.scope)
    summarizer = Summarizer(
        db=core.db, background=core.background, clock=core.clock, settings=settings, changes=changes, llm=llm
    )
    service = MemoryService(
        db=core.db,
        index=core.index,
        searcher=core.searcher,
        clock=core.clock,
        settings=settings,
        changes=changes,
        on_waiting=summarizer.nudge,
    )
    core.searcher.spoken[SPACE] = attribution.names
    transfer = MemoryTransfer(db=core.db, index=core.index, settings=settings, changes=changes, clock=core.clock)
    return replace(
        described(service, resources, transfer),
        resources=resources,
        resource_changes=changes,
        searchable=(searchable(core.db, settings.timeout),),
        upkeep=UPKEEP,
        migrations=MIGRATIONS,
        start=(partial(reindex, core.db, core.index, core.background, SPACE, indexing.FORM, indexing.all_documents),),
        follow=(summarizer.run,),
    )
