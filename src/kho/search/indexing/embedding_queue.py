"""Computes the vectors of queued passages: in the background, in one process at a time, surviving a restart.

The queue is a table, so nothing is forgotten. The lease is a row, so that of several processes only one loads the model
and works. A failing provider is retried later, and keyword search works meanwhile.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from kho.kernel import Background, Database, DatabaseError, Embedder, KhoError, Lease, Leases, SearchFilter, Tx, Vectors
from kho.kernel.hub import Settled
from kho.lib.clock import SECOND, Clock
from kho.lib.dataclass import dataclass
from kho.lib.sql import number
from kho.lib.tenancy import in_all_tenants
from kho.search.calibration.calibrate import is_current, measure, numbers_at_hand
from kho.search.indexing import passages
from kho.search.indexing.passages import MODEL, Due, StoredPassage
from kho.search.text.marks import with_marks

if TYPE_CHECKING:
    from kho.kernel.ports import Vector

log = logging.getLogger("kho.search.vectors")

LEASE = "vectors"
LEASE_DURATION = 60 * SECOND
"""How long a process that stopped responding keeps the lease. A batch takes a few seconds."""
BATCH = 24
"""Passages per batch: a second or two of work on one core."""
POLL = 5.0
"""Seconds between polls of the queue without a nudge: another process may have written."""
COMMITTING = 0.2
"""Seconds between a nudge and the poll of the queue: the nudge comes before the commit."""
FIRST_RETRY, LAST_RETRY = 5.0, 600.0


def calibration_row(model: str) -> str:
    return f"calibration:{model}"


@dataclass(slots=True, eq=False, repr=False)
class EmbeddingQueue:
    db: Database
    vectors: Vectors
    embedder: Embedder
    background: Background
    clock: Clock
    leases: Leases
    engine: str = ""
    """Name of the vector store: a new one has none of the vectors yet."""
    written: asyncio.Event = field(default_factory=asyncio.Event)
    one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock)
    loop: asyncio.AbstractEventLoop | None = None
    leased: bool = False
    chosen: bool = False
    """True if this process has queued the passages for this model, or they had its vectors already."""
    ready: bool = False
    failures: int = 0
    """How often the model failed before it was ready."""
    turn: str = ""
    """The tenant whose passages came last."""
    calibrate_at: int = 0
    """When to calibrate again after such a failure, even if no passage is due."""

    @property
    def kept(self) -> str:
        """The model and the store of its vectors, as recorded in search_state."""
        return f"{self.embedder.model} {self.engine}".strip()

    @property
    def lease(self) -> Lease:
        return self.leases.named(LEASE, LEASE_DURATION)

    def nudge(self) -> None:
        """Signal that passages are waiting. May be called from any thread."""
        if self.loop is not None:
            self.loop.call_soon_threadsafe(self.written.set)

    async def run(self) -> None:
        """Work until the hub stops."""
        self.loop = asyncio.get_running_loop()
        while not self.background.stopping:
            await self.background.pause_until(self.written, POLL)
            if self.written.is_set():
                await self.background.pause(COMMITTING)
            self.written.clear()
            try:
                while await self.background.unless_stopping(self._step()):
                    pass
                await self.background.unless_stopping(self._deliver())
            except KhoError as problem:  # the database or the model is not available; keyword search goes on
                log.warning("vectors wait: %s", problem.message)

    async def pending(self) -> int:
        with in_all_tenants():
            return await self.db.read(passages.pending)

    async def retry(self) -> None:
        with in_all_tenants():
            await self.db.write(lambda tx: passages.retry(tx, self.clock()))

    async def settle(self, progress: Callable[[int, int], None]) -> Settled:
        try:
            with in_all_tenants():
                return await self._settle(progress)
        finally:
            await self._let_go()

    async def aclose(self) -> None:
        await self._let_go()
        await self.embedder.aclose()
        await self.vectors.aclose()

    async def _settle(self, progress: Callable[[int, int], None]) -> Settled:
        done, left = 0, await self.db.read(self._left)
        if not left:
            await self._step()  # nothing waits, but the model may have to be calibrated again
        total = left
        while left:
            progress(done, total)
            if not await self._take_lease():
                return Settled(done, left, elsewhere=True)
            try:
                worked = await self._step()
            except KhoError as failure:
                return Settled(done, left, problem=failure.message)
            left = await self.pending()
            done += worked
            total = max(total, done + left)  # others may write meanwhile
            if not worked and left:
                return Settled(done, left, problem=await self.db.read(passages.problem))
        try:
            await self._deliver()
        except KhoError as failure:
            return Settled(done, 0, problem=failure.message)
        progress(done, total)
        return Settled(done, 0)

    async def _step(self) -> int:
        """Process one batch. Return how many passages got a vector; 0 if there is nothing to do here."""
        async with self.one_at_a_time:  # `run` and `settle` may both call this
            return await self._batch()

    async def _batch(self) -> int:
        if not await self.db.read(self._has_work) or not await self._take_lease():
            return 0
        batch, self.turn = await self.db.write(self._claim)
        self.chosen = True
        try:
            await self._get_ready()
            rows = await self._vectors_of(batch)
            if rows:
                await self.db.write(lambda tx: self._file(tx, rows))
            return len(rows)
        except DatabaseError:
            raise
        except KhoError as failure:
            await self._put_off(batch, failure.message)
            return 0

    def _has_work(self, tx: Tx) -> bool:
        model = self.embedder.model
        chosen = passages.state(tx, MODEL)
        # Another process may have started with another model. The last one wins, or they would alternate for ever.
        if chosen and chosen != self.kept and self.chosen:
            return False
        if chosen == self.kept:
            if tx.one("SELECT 1 FROM vector_queue WHERE due_at <= $1 LIMIT 1", self.clock()):
                return True
            calibrated = self.ready or is_current(passages.state(tx, calibration_row(model)))
            if calibrated or self.clock() < self.calibrate_at:
                return False
        return tx.one("SELECT 1 FROM passages LIMIT 1") is not None

    def _left(self, tx: Tx) -> int:
        if passages.state(tx, MODEL) == self.kept:
            return passages.pending(tx)
        return number(tx, "SELECT count(*) FROM passages")

    def _claim(self, tx: Tx) -> Due:
        """Return the passages that are due. If the model is new, all passages are queued first."""
        chosen = passages.state(tx, MODEL)
        if chosen != self.kept:
            if chosen and self.chosen:
                return Due([], self.turn)
            passages.enqueue_all(tx, self.clock())
            passages.set_state(tx, MODEL, self.kept)
            passages.changed_for_all(tx)
        return passages.due(tx, self.clock(), BATCH, self.turn)

    async def _get_ready(self) -> None:
        """Prepare the vector index of this model, and calibrate it."""
        if self.ready:
            return
        await numbers_at_hand()
        model = self.embedder.model
        await self.vectors.prepare(model, await self.embedder.dimension())
        if not is_current(await self.db.read(lambda tx: passages.state(tx, calibration_row(model)))):
            measured = (await measure(self.embedder)).dump()

            def keep(tx: Tx) -> None:
                passages.set_state(tx, calibration_row(model), measured)
                passages.changed_for_all(tx)

            await self.db.write(keep)
        self.ready = True

    async def _deliver(self) -> None:
        if await self.vectors.deliver():  # an index server has them only now
            await self.db.write(passages.changed_for_all)

    async def _vectors_of(self, batch: Sequence[StoredPassage]) -> "dict[int, tuple[str, Vector]]":
        """Return the vectors by passage number, each with the digest of its text. Existing vectors are reused: those of
        the passage itself (if only its tags changed), or of another with the same text."""
        model = self.embedder.model
        known: dict[str, Vector] = {}
        twins = await self.db.read(lambda tx: passages.twins(tx, [stored.digest for stored in batch]))
        candidates = {one.seq: (stored.digest, one) for stored in batch for one in (stored.ref, *twins[stored.digest])}
        for space, tenant in {(one.space, one.tenant) for _, one in candidates.values()}:
            mine = [seq for seq, (_, one) in candidates.items() if (one.space, one.tenant) == (space, tenant)]
            found = await self.vectors.get(model, SearchFilter(space, tenant), mine)
            known.update({candidates[seq][0]: vector for seq, vector in found.items()})
        new = list({stored.digest: stored for stored in batch if stored.digest not in known}.values())
        if new:
            texts = await asyncio.to_thread(lambda: [text_of(stored) for stored in new])
            rows = await self.embedder.passages(texts)
            known.update({stored.digest: row for stored, row in zip(new, rows, strict=True)})
        return {stored.ref.seq: (stored.digest, known[stored.digest]) for stored in batch}

    def _file(self, tx: Tx, rows: "dict[int, tuple[str, Vector]]") -> None:
        filed = passages.still_there(tx, list(rows))
        self.vectors.put(tx, self.embedder.model, [(file, rows[seq][1]) for seq, file in filed.items()])
        passages.done(tx, list(rows))
        for space, tenant in sorted({(file.space, file.tenant) for file in filed.values()}):
            passages.changed(tx, space, tenant)

    async def _put_off(self, batch: Sequence[StoredPassage], problem: str) -> None:
        log.warning("vectors wait: %s", problem)
        if not self.ready:
            self.calibrate_at = self._again(self.failures)
            self.failures += 1
        if not batch:
            return

        def work(tx: Tx) -> None:
            row = tx.one("SELECT attempts FROM vector_queue WHERE seq = $1", batch[0].ref.seq)
            passages.failed(tx, [one.ref.seq for one in batch], self._again(row[0] if row else 0), problem)

        await self.db.write(work)

    def _again(self, failures: int) -> int:
        """Return when to try again after one more failure."""
        return self.clock() + int(min(LAST_RETRY, FIRST_RETRY * 2**failures) * SECOND)

    async def _take_lease(self) -> bool:
        self.leased = await self.db.write(self.lease.take)
        return self.leased

    async def _let_go(self) -> None:
        """Release the lease, so that another process can continue at once."""
        if self.leased:
            await self.db.write(self.lease.release)
            self.leased = False


def text_of(stored: StoredPassage) -> str:
    """Return the text that the model reads."""
    text = with_marks(stored.text) if stored.language == "vi" else stored.text
    return f"{stored.heading}\n{text}" if stored.heading else text
