"""Checks of the audit trail: the chain of every tenant, as `kho audit verify` checks one, and rows that can be read."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

from kho.audit import chain
from kho.audit.verification import Verification
from kho.kernel.ports import Database, Tx
from kho.kernel.upkeep.checks import Checks, Rule
from kho.kernel.upkeep.defect import Finding, Progress
from kho.lib.dataclass import dataclass
from kho.lib.markdown import counted

T = TypeVar("T")
_CHECKS = Checks(
    json=(("audit", ("number",), ("details",)), ("audit_subjects", ("tenant", "subject", "number"), ("details",))),
    json_cure="none",
    rules=(
        Rule(
            "audit_subjects",
            "further subject",
            "of a row of the audit trail that is not there",
            "FROM audit_subjects AS t WHERE NOT EXISTS "
            "(SELECT 1 FROM audit AS a WHERE a.tenant = t.tenant AND a.number = t.number)",
            cure="none",
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class AuditUpkeep:
    """The `Upkeep` port."""

    def quick_findings(self, tx: Tx) -> Iterator[Finding]:
        yield from _CHECKS.quick_findings(tx)

    def findings(self, tx: Tx, progress: Progress) -> Iterator[Finding]:
        yield from _CHECKS.findings(tx, progress)
        for tenant in chain.tenants(tx):

            async def told(done: int, total: int, tenant: str = tenant) -> None:
                progress(f"Audit trail of {tenant}", min(done, total), total)

            # It reads through a database; here all of it is read in the one snapshot that there is already.
            snapshot = cast(Database, _Snapshot(tx))
            trail = asyncio.run(Verification(snapshot, tenant).run(told))
            if trail.broken:
                first = f" The first: {trail.breaks[0].message}" if trail.breaks else ""
                said = f"The audit trail of {tenant} is broken in {counted(trail.broken, 'place')}.{first}"
                yield Finding(said, "audit", trail.broken, "none")

    def index_findings(self, tx: Tx, progress: Progress) -> Iterator[Finding]:
        yield from ()

    def strays(self, tx: Tx) -> Iterator[tuple[str, str, str, str]]:
        yield from ()

    def settle(self, tx: Tx) -> None:
        """Leaves the trail as it is: gaps in the chain tell what is lost, and stay."""


@dataclass(frozen=True, slots=True)
class _Snapshot:
    tx: Tx

    @property
    def engine(self) -> Any:
        return self.tx.engine

    async def read(self, work: Callable[[Tx], T], *, timeout: float | None = None) -> T:
        return work(self.tx)
