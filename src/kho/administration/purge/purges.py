"""Carries out purges, in batches: each is a transaction with everything that belongs to its rows, so others go on
meanwhile, and one that is cut short goes on where it was."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from kho.administration.purge import ledger
from kho.administration.purge.ledger import Purge
from kho.kernel import Background, Database, DatabaseError, KhoError, Tx, UniqueViolation
from kho.kernel.call import Progress, Work
from kho.kernel.upkeep.erasure import LEFT_IN_FILE, LEFT_IN_POSTGRES, Erasure, Gone, Vacuum, Whom
from kho.lib.clock import Clock
from kho.lib.dataclass import dataclass
from kho.lib.name_key import name_key
from kho.lib.tenancy import in_all_tenants, in_tenant

log = logging.getLogger("kho.purge")

BATCH = 200
ROUNDS = 20
"""How often all is asked anew while something is found: others may write meanwhile."""
Erasures = Callable[[], Sequence[Erasure]]


@dataclass(frozen=True, slots=True)
class Wiped:
    done: bool
    problem: str | None = None
    left: str | None = None


@dataclass(slots=True, kw_only=True)
class Purges:
    db: Database
    background: Background
    clock: Clock
    erasures: Erasures
    """In the order in which they are asked."""
    vacuum: Vacuum | None = None
    """Rewrites the database file; None if the database manages its files itself."""

    async def spellings(self, tenant: str, subject: str) -> tuple[str, ...]:
        """Return how a person's name is spelt in the store, as far as only case tells the spellings apart."""
        wanted = name_key(subject)
        return await self._names(tenant, lambda name: name_key(name) == wanted)

    async def count(self, whom: Whom) -> dict[tuple[str, str], int]:
        """Return how many rows would leave, by part of Kho and table."""

        def work(tx: Tx) -> dict[tuple[str, str], int]:
            found: Counter[tuple[str, str]] = Counter()
            for erasure in self.erasures():
                for table, rows in erasure.count(tx, whom).items():
                    place = erasure.slice, table
                    # Of everything, two that know the same table have counted the same rows.
                    found[place] = max(found[place], rows) if whom.everything else found[place] + rows
            return {place: rows for place, rows in found.items() if rows}

        with in_all_tenants():  # of keys it has to know all; every statement names the tenant
            return await self.db.read(work)

    async def resume(self) -> None:
        """Bring purges to their end that were cut short."""
        with in_all_tenants():
            left = await self.db.read(ledger.unfinished)
        for purge in left:
            await self._go_on(purge)
        if left and not self.background.stopping:
            await self.wipe()

    async def resume_in(self, tenant: str) -> str | None:
        """The same in one tenant, without rewriting the database. Return the id of the last, if there were any."""
        with in_tenant(tenant):
            left = await self.db.read(lambda tx: ledger.unfinished(tx, tenant))
        for purge in left:
            await self._go_on(purge)
        return left[-1].id if left else None

    async def _go_on(self, purge: Purge) -> None:
        log.warning("A purge in the tenant %s that was cut short goes on.", purge.tenant)
        await self._finish(purge, await self._whom(purge))

    async def reapply(self, since: int) -> int:
        """Purge again what was purged after a time: for a store that a backup from that time came back into. Return how
        many purges that were."""
        with in_all_tenants():
            purges = await self.db.read(lambda tx: ledger.since(tx, since))
        for purge in purges:
            await self._erase(purge, await self._whom(purge))
        if purges:
            await self.wipe()
        return len(purges)

    async def carry_out(
        self, purge: Purge, whom: Whom, record: Work, *, wipe: bool, progress: Progress | None = None, total: int = 0
    ) -> Wiped | None:
        """Record a purge, erase all that it means, then rewrite the database with `wipe`. It goes on when whoever waits
        for it goes away, as an admin does whose key is purged. None if the hub stops before it is done: it goes on at
        the next start."""
        ended: asyncio.Future[Wiped | None] = asyncio.get_running_loop().create_future()

        async def report(done: float, most: float | None, message: str | None) -> None:
            if progress is not None and not ended.done():
                await progress(done, most, message)

        async def work() -> None:
            failure = KhoError()
            try:
                await record()
                finished = await self._finish(purge, whom, report, total)
                wiped = (await self.wipe() if wipe else Wiped(False, left=self._unwiped)) if finished else None
                if not ended.done():
                    ended.set_result(wiped)
            except KhoError as problem:
                failure = problem
                log.warning("a purge could not go on: %s", problem.message)
            finally:
                if not ended.done():
                    ended.set_exception(failure)

        self.background.add(work)
        return await ended

    async def wipe(self) -> Wiped:
        """Rewrite the database file, so that nothing is left of deleted rows."""
        try:
            if self.vacuum is not None:
                await self.vacuum()
                return Wiped(True)
            if self.db.engine == "postgres":
                for table in sorted({table for erasure in self.erasures() for table in erasure.tables}):
                    await self.db.maintain(f"VACUUM {table}")
                return Wiped(True, left=LEFT_IN_POSTGRES)
        except KhoError as failure:
            log.warning("the database was not rewritten after a purge: %s", failure.message)
            return Wiped(False, failure.message, self._unwiped)
        return Wiped(False)

    @property
    def _unwiped(self) -> str:
        return LEFT_IN_POSTGRES if self.db.engine == "postgres" else LEFT_IN_FILE

    async def _finish(self, purge: Purge, whom: Whom, progress: Progress | None = None, total: int = 0) -> bool:
        if not await self._erase(purge, whom, progress, total):
            return False
        with in_tenant(purge.tenant):
            await self.db.write(lambda tx: ledger.finish(tx, purge, self.clock()))
        return True

    async def _whom(self, purge: Purge) -> Whom:
        names = await self._names(purge.tenant, purge.is_about) if purge.of_person else ()
        return purge.whom(names)

    async def _names(self, tenant: str, meant: Callable[[str], bool]) -> tuple[str, ...]:
        def work(tx: Tx) -> set[str]:
            candidates: Iterable[str] = (name for erasure in self.erasures() for name in erasure.names(tx, tenant))
            return {name for name in candidates if name and meant(name)}

        with in_tenant(tenant):
            return tuple(sorted(await self.db.read(work)))

    async def _erase(self, purge: Purge, whom: Whom, progress: Progress | None = None, total: int = 0) -> bool:
        done = 0
        for _ in range(ROUNDS):
            before = done
            for erasure in self.erasures():
                while rows := (await self._batch(purge, whom, erasure)).rows:
                    done += rows
                    if progress is not None:
                        await progress(done, max(done, total), "Erasing")
                    if self.background.stopping:
                        return False
            if done == before:
                break
        return True

    async def _batch(self, purge: Purge, whom: Whom, erasure: Erasure) -> Gone:
        def work(tx: Tx) -> Gone:
            gone = erasure.erase(tx, whom, BATCH)
            if gone.rows:
                ledger.add_counts(tx, purge, {erasure.slice: gone.rows})
            if gone.subjects and whom.names is not None:
                for other in self.erasures():
                    other.forget(tx, whom.tenant, gone.subjects)
            return gone

        for _ in range(ROUNDS):
            try:
                with in_all_tenants() if erasure.wide else in_tenant(whom.tenant):
                    return await self.db.write(work)
            except UniqueViolation:  # the sealer of the audit trail wrote at the same moment
                continue
        raise DatabaseError
