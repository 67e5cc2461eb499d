"""Experience records, as the hub plugs them in."""

from dataclasses import replace
from functools import partial
from pathlib import Path

from kho.experiences.prompts import PROMPTS
from kho.experiences.service import EXPERIENCES, Limits, Service
from kho.experiences.settings import ExperienceSettings
from kho.experiences.store import SPACE, Store, all_documents
from kho.experiences.usage_counter import Usage
from kho.kernel.capability import Capability, Transfer
from kho.search.core import Core
from kho.search.indexing.reindex import reindex

MIGRATIONS = Path(__file__).parent / "migrations"
FORM = 1
"""Goes up when records are indexed differently (other fields, other weights): they are then indexed again."""


def described(service: Service | type[Service] = Service) -> Capability:
    """What it offers; with the class itself, for help texts."""
    return Capability(
        "experiences",
        "experiences-server",
        EXPERIENCES.bind(service),
        "Problems that were solved before: find, record, rate.",
        PROMPTS,
        instructions="Before solving a problem, call query_experiences with the error message or a short description; "
        "after solving one, offer to record it with submit_experience.",
        transfers=(
            Transfer(
                "experiences",
                "export_experiences",
                "import_experiences",
                "experiences",
                {"imported": "imported", "unchanged": "were here already"},
            ),
        ),
    )


def capability(core: Core, settings: ExperienceSettings, limits: Limits | None = None) -> Capability:
    store = Store(core.index)
    usage = Usage(core.db, store, core.background, core.clock)
    service = Service(
        db=core.db,
        store=store,
        searcher=core.searcher,
        usage=usage,
        clock=core.clock,
        settings=settings,
        limits=limits or Limits(),
    )
    return replace(
        described(service),
        migrations=MIGRATIONS,
        start=(partial(reindex, core.db, core.index, core.background, SPACE, FORM, all_documents),),
    )
