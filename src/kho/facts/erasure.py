"""What facts hold of tenants and people: a fact is its subject's, and whoever's that said it."""

from collections.abc import Sequence

from kho.facts.store import SPACE
from kho.kernel.ports import Row, Tx
from kho.kernel.upkeep.erasure import Erasure, Rows
from kho.search.core import Core
from kho.search.indexing.erasure import drop_each

PEOPLE = ("about", "said_by")
AGED = "forgotten_at < {before} OR expires_at < {before} OR (replaced_by IS NOT NULL AND updated_at < {before})"


def erasures(core: Core) -> list[Erasure]:
    def unfiled(tx: Tx, tenant: str, rows: Sequence[Row]) -> None:
        drop_each(core.index, tx, SPACE, tenant, rows)

    facts = Rows(
        slice="facts",
        table="facts",
        more=("topic",),
        owners=PEOPLE,
        aged=AGED,
        below=(("fact_revisions", "id"),),
        derived=unfiled,
        known=True,
    )
    return [facts, Rows(slice="facts", table="fact_revisions", key=("id", "revision"), owners=PEOPLE)]
