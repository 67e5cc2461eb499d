"""Wiring of experience records into the hub."""

from dataclasses import replace
from functools import partial
from pathlib import Path

from kho.experiences import INSTRUCTIONS
from kho.experiences.contract import EXPERIENCES
from kho.experiences.integrity import FORM, UPKEEP
from kho.experiences.prompts import PROMPTS
from kho.experiences.review import Review
from kho.experiences.searchable import searchable
from kho.experiences.service import ExperienceService, Limits, UsageCounter
from kho.experiences.settings import ExperienceSettings
from kho.experiences.store import SPACE, Store, all_documents
from kho.experiences.transfer import ExperienceTransfer
from kho.kernel.capability import Capability, Transfer
from kho.search.core import Core
from kho.search.indexing.reindex import reindex

MIGRATIONS = Path(__file__).parent / "migrations"


def described(
    service: ExperienceService | type[ExperienceService] = ExperienceService,
    transfer: ExperienceTransfer | type[ExperienceTransfer] = ExperienceTransfer,
    review: Review | type[Review] = Review,
) -> Capability:
    """Return the capability's description and operations; classes instead of instances are enough for help texts."""
    return Capability(
        "experiences",
        "experiences-server",
        EXPERIENCES.bind(service, transfer, review),
        "Problems that were solved before: find, record, rate.",
        PROMPTS,
        instructions=INSTRUCTIONS,
        transfers=(
            Transfer(
                "experiences",
                "export_experiences",
                "import_experiences",
                "experiences",
                {"imported": "imported", "unchanged": "existed already"},
                complete={"everything": True},
            ),
        ),
    )


def capability(core: Core, settings: ExperienceSettings, limits: Limits | None = None) -> Capability:
    store = Store(core.index)
    usage = UsageCounter(core.db, store, core.background, core.clock)
    service = ExperienceService(
        db=core.db,
        store=store,
        searcher=core.searcher,
        usage=usage,
        clock=core.clock,
        settings=settings,
        limits=limits or Limits(),
    )
    return replace(
        described(
            service,
            ExperienceTransfer(db=core.db, store=store, clock=core.clock, settings=settings),
            Review(db=core.db, store=store, clock=core.clock, settings=settings),
        ),
        migrations=MIGRATIONS,
        upkeep=UPKEEP,
        searchable=(searchable(core.db, store, settings.query_timeout),),
        start=(partial(reindex, core.db, core.index, core.background, SPACE, FORM, all_documents),),
    )
