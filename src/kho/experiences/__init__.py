"""Experience records: problem, cause, solution; ranked by relevance, use and freshness (contract 003)."""

from pathlib import Path

from kho.experiences.operations import operations
from kho.experiences.prompts import PROMPTS
from kho.experiences.service import Limits, Service
from kho.experiences.store import Store
from kho.experiences.usage import Usage
from kho.kernel.background import Background
from kho.kernel.capability import Capability
from kho.kernel.clock import Clock
from kho.kernel.ports import Database, Words

__all__ = ["MIGRATIONS", "Limits", "capability"]

MIGRATIONS = Path(__file__).parent / "migrations"


def capability(db: Database, words: Words, background: Background, clock: Clock, limits: Limits) -> Capability:
    store = Store(words)
    service = Service(db, store, Usage(db, store, background, clock), clock, limits)
    return Capability(
        "experiences",
        "experiences-server",
        operations(service),
        "Problems that were solved before: find, record, rate.",
        PROMPTS,
        migrations=MIGRATIONS,
    )
