"""Facts, as the hub plugs them in."""

from dataclasses import replace
from functools import partial
from pathlib import Path

from kho.facts import INSTRUCTIONS
from kho.facts.integrity import FORM, UPKEEP
from kho.facts.resources import FactResources
from kho.facts.searchable import FactSearch
from kho.facts.service import FACTS, FactService
from kho.facts.settings import FactSettings
from kho.facts.store import SPACE, Store, all_documents
from kho.kernel.capability import Capability, Changes, Transfer
from kho.search.core import Core
from kho.search.indexing.reindex import reindex

MIGRATIONS = Path(__file__).parent / "migrations"


def described(service: FactService | type[FactService] = FactService) -> Capability:
    """What it offers; with the class itself, for help texts."""
    return Capability(
        "facts",
        "facts-server",
        FACTS.bind(service),
        "Facts: short things worth knowing later.",
        instructions=INSTRUCTIONS,
        transfers=(
            Transfer(
                "facts",
                "export_facts",
                "import_facts",
                "lines",
                {"imported": "imported", "unchanged": "existed already"},
                complete={"everything": True},
            ),
        ),
    )


def capability(core: Core, settings: FactSettings) -> Capability:
    store = Store(core.index)
    changes = Changes(scope=FACTS.read_scope)
    service = FactService(
        db=core.db, store=store, searcher=core.searcher, clock=core.clock, settings=settings, changes=changes
    )
    return replace(
        described(service),
        resources=FactResources(db=core.db, store=store, clock=core.clock, timeout=settings.timeout),
        resource_changes=changes,
        searchable=(FactSearch(core.db, store, core.clock, settings.timeout).declared(),),
        migrations=MIGRATIONS,
        upkeep=UPKEEP,
        start=(partial(reindex, core.db, core.index, core.background, SPACE, FORM, all_documents),),
    )
