"""What experience records hold of tenants and people. A record is everybody's: of whoever wrote it only the name
leaves; verdicts, and records that still wait for an approval, are their author's own."""

from collections.abc import Sequence

from kho.experiences.store import SPACE, tally
from kho.kernel.ports import Row, Tx
from kho.kernel.upkeep.erasure import Erasure, Rows
from kho.search.core import Core

SLICE = "experiences"


def erasures(core: Core) -> list[Erasure]:
    def unfiled(tx: Tx, tenant: str, rows: Sequence[Row]) -> None:
        core.index.drop(tx, SPACE, tenant, [row[0] for row in rows])

    def counted(tx: Tx, tenant: str, rows: Sequence[Row]) -> None:
        for id in sorted({row[0] for row in rows}):
            tally(tx, tenant, id)

    below = ("experience_uses", "experience_revisions", "experience_feedback")
    return [
        Rows(
            slice=SLICE,
            table="experiences",
            authors=("created_by",),
            aged="deleted_at < {before}",
            below=tuple((table, "id") for table in below),
            derived=unfiled,
            known=True,
        ),
        Rows(slice=SLICE, table="experience_revisions", key=("id", "revision"), authors=("replaced_by",)),
        Rows(slice=SLICE, table="experience_feedback", key=("id", "sub"), owners=("sub",), derived=counted),
        Rows(slice=SLICE, table="experience_submissions", owners=("submitted_by",), known=True),
    ]
