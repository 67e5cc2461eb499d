"""Experience records: problem, cause, solution; ranked by relevance, use and freshness (contract 003)."""

from functools import partial
from pathlib import Path

from kho.experiences.operations import operations
from kho.experiences.prompts import PROMPTS
from kho.experiences.service import Limits, Service
from kho.experiences.store import SPACE, Store, all_documents
from kho.experiences.usage import Usage
from kho.kernel.background import Background
from kho.kernel.capability import Capability, Transfer
from kho.kernel.ports import Database
from kho.lib.clock import Clock
from kho.search.index import Index
from kho.search.query import Searcher
from kho.search.refile import refile

__all__ = ["MIGRATIONS", "Limits", "capability"]

MIGRATIONS = Path(__file__).parent / "migrations"


FORM = 1
"""Goes up when records are filed differently (other fields, other weights): they are then filed anew."""


def capability(
    db: Database, index: Index, searcher: Searcher, background: Background, clock: Clock, limits: Limits
) -> Capability:
    store = Store(index)
    service = Service(db, store, searcher, Usage(db, store, background, clock), clock, limits)
    return Capability(
        "experiences",
        "experiences-server",
        operations(service),
        "Problems that were solved before: find, record, rate.",
        PROMPTS,
        instructions="Before solving a problem, call query_experiences with the error message or a short description; "
        "after solving one, offer to record it with submit_experience.",
        migrations=MIGRATIONS,
        start=(partial(refile, db, index, background, SPACE, FORM, all_documents),),
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
