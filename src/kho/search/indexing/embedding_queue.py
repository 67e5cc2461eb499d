"""Vectors for the passages that wait for one: in the background, by one process at a time, surviving a restart.

The queue is a table, so nothing is forgotten; the lease is a row, so that of several processes only one loads the model
and works. A failing provider is asked again later, and words answer meanwhile.
"""

import asyncio
import logging
import os
import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kho.kernel.background import Background
from kho.kernel.errors import DatabaseError, KhoError
from kho.kernel.hub import Settled
from kho.kernel.ports import Database, Embedder, SearchFilter, Tx, Vectors
from kho.lib.clock import SECOND, Clock
from kho.search.calibration.calibrate import is_current, measure, numbers_at_hand
from kho.search.indexing import passages
from kho.search.indexing.passages import MODEL, StoredPassage

if TYPE_CHECKING:
    from kho.kernel.ports import Vector

log = logging.getLogger("kho.search")

LEASE = "vectors"
LEASE_DURATION = 60 * SECOND
"""How long a process that fell silent keeps the lease. A batch takes a few seconds."""
BATCH = 24
"""Passages at a time: a second or two of work on one core."""
POLL = 5.0
"""Seconds after which the queue is looked at although nothing was written here: another process may have."""
COMMITTING = 0.2
"""Seconds between the news that something waits and a look at the queue: the news comes before the commit."""
FIRST_RETRY, LAST_RETRY = 5.0, 600.0


def calibration_row(model: str) -> str:
    return f"calibration:{model}"


class EmbeddingQueue:
    def __init__(
        self,
        db: Database,
        vectors: Vectors,
        embedder: Embedder,
        background: Background,
        clock: Clock,
        engine: str = "",
    ) -> None:
        """`engine` names where the vectors are kept: a new one has none of them yet."""
        self._db = db
        self._vectors = vectors
        self._embedder = embedder
        self._background = background
        self._clock = clock
        self._kept = f"{embedder.model} {engine}".strip()
        self._owner = f"{os.getpid()}:{uuid.uuid4()}"
        self._written = asyncio.Event()
        self._one_at_a_time = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._leased = False
        self._chosen = False
        """Whether the passages were made to wait for vectors of this model, or had them already."""
        self._ready = False

    def nudge(self) -> None:
        """Something waits. May be called from any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._written.set)

    async def run(self) -> None:
        """Works until the hub stops."""
        self._loop = asyncio.get_running_loop()
        while not self._background.stopping:
            if await self._wait():
                await self._background.pause(COMMITTING)
            self._written.clear()
            try:
                while await self._background.unless_stopping(self._step()):
                    pass
                await self._background.unless_stopping(self._deliver())
            except KhoError as problem:  # the database is away, or the model cannot be had; words go on
                log.warning("vectors wait: %s", problem.message)

    async def pending(self) -> int:
        return await self._db.read(passages.pending)

    async def settle(self, progress: Callable[[int, int], None]) -> Settled:
        try:
            return await self._settle(progress)
        finally:
            await self._let_go()

    async def aclose(self) -> None:
        await self._let_go()
        await self._embedder.aclose()
        await self._vectors.aclose()

    async def _settle(self, progress: Callable[[int, int], None]) -> Settled:
        done, left = 0, await self._db.read(self._left)
        if not left:
            await self._step()  # nothing waits, but what the cosines mean may have to be measured anew
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
            total = max(total, done + left)  # others write meanwhile
            if not worked and left:
                return Settled(done, left, problem=await self._db.read(passages.problem))
        try:
            await self._deliver()
        except KhoError as failure:
            return Settled(done, 0, problem=failure.message)
        progress(done, total)
        return Settled(done, 0)

    async def _wait(self) -> bool:
        """Until there is news, which is True, or it is time to look without any."""
        await self._background.pause_until(self._written, POLL)
        return self._written.is_set()

    async def _step(self) -> int:
        """One batch: how many passages got a vector. 0 when there is nothing to do here."""
        async with self._one_at_a_time:  # `run` and `settle` may both be at it
            return await self._batch()

    async def _batch(self) -> int:
        if not await self._db.read(self._has_work) or not await self._take_lease():
            return 0
        batch = await self._db.write(self._claim)
        self._chosen = True
        try:
            await self._get_ready()
            rows = await self._vectors_of(batch)
            if rows:
                await self._db.write(lambda tx: self._file(tx, rows))
            return len(rows)
        except DatabaseError:
            raise
        except KhoError as failure:
            await self._put_off(batch, failure.message)
            return 0

    def _has_work(self, tx: Tx) -> bool:
        model = self._embedder.model
        chosen = passages.state(tx, MODEL)
        # Another process may have come with another model. The last one has its way, or they would never end.
        if chosen and chosen != self._kept and self._chosen:
            return False
        if chosen != self._kept or not (self._ready or is_current(passages.state(tx, calibration_row(model)))):
            return tx.one("SELECT 1 FROM passages LIMIT 1") is not None
        return tx.one("SELECT 1 FROM vector_queue WHERE due_at <= $1 LIMIT 1", self._clock()) is not None

    def _left(self, tx: Tx) -> int:
        if passages.state(tx, MODEL) == self._kept:
            return passages.pending(tx)
        row = tx.one("SELECT count(*) FROM passages")
        return row[0] if row else 0

    def _claim(self, tx: Tx) -> list[StoredPassage]:
        """The passages whose turn it is. All of them wait if the model is new."""
        chosen = passages.state(tx, MODEL)
        if chosen != self._kept:
            if chosen and self._chosen:
                return []
            passages.enqueue_all(tx, self._clock())
            passages.set_state(tx, MODEL, self._kept)
            passages.changed_for_all(tx)
        return passages.due(tx, self._clock(), BATCH)

    async def _get_ready(self) -> None:
        """The index of this model, and what its cosines mean."""
        if self._ready:
            return
        await numbers_at_hand()
        model = self._embedder.model
        await self._vectors.prepare(model, await self._embedder.dimension())
        if not is_current(await self._db.read(lambda tx: passages.state(tx, calibration_row(model)))):
            measured = (await measure(self._embedder)).dump()

            def keep(tx: Tx) -> None:
                passages.set_state(tx, calibration_row(model), measured)
                passages.changed_for_all(tx)

            await self._db.write(keep)
        self._ready = True

    async def _deliver(self) -> None:
        if await self._vectors.deliver():  # an index server has them only now
            await self._db.write(passages.changed_for_all)

    async def _vectors_of(self, batch: Sequence[StoredPassage]) -> "dict[int, tuple[str, Vector]]":
        """By number, with the digest of the text that each vector is of. What has one already is not embedded again:
        the passage itself (only its tags changed), or another with the same text."""
        model = self._embedder.model
        known: dict[str, Vector] = {}
        twins = await self._db.read(lambda tx: passages.twins(tx, [stored.digest for stored in batch]))
        candidates = {one.seq: (stored.digest, one) for stored in batch for one in (stored.ref, *twins[stored.digest])}
        for space, tenant in {(one.space, one.tenant) for _, one in candidates.values()}:
            mine = [seq for seq, (_, one) in candidates.items() if (one.space, one.tenant) == (space, tenant)]
            found = await self._vectors.get(model, SearchFilter(space, tenant), mine)
            known.update({candidates[seq][0]: vector for seq, vector in found.items()})
        new = list({stored.digest: stored for stored in batch if stored.digest not in known}.values())
        if new:
            rows = await self._embedder.passages([text_of(stored) for stored in new])
            known.update({stored.digest: row for stored, row in zip(new, rows, strict=True)})
        return {stored.ref.seq: (stored.digest, known[stored.digest]) for stored in batch}

    def _file(self, tx: Tx, rows: "dict[int, tuple[str, Vector]]") -> None:
        filed = passages.still_there(tx, list(rows))
        self._vectors.put(tx, self._embedder.model, [(file, rows[seq][1]) for seq, file in filed.items()])
        passages.done(tx, list(rows))
        for space, tenant in sorted({(file.space, file.tenant) for file in filed.values()}):
            passages.changed(tx, space, tenant)

    async def _put_off(self, batch: Sequence[StoredPassage], problem: str) -> None:
        log.warning("vectors wait: %s", problem)
        if not batch:
            return

        def work(tx: Tx) -> None:
            row = tx.one("SELECT attempts FROM vector_queue WHERE seq = $1", batch[0].ref.seq)
            delay = min(LAST_RETRY, FIRST_RETRY * 2 ** (row[0] if row else 0))
            passages.failed(tx, [one.ref.seq for one in batch], self._clock() + int(delay * SECOND), problem)

        await self._db.write(work)

    async def _take_lease(self) -> bool:
        now = self._clock()

        def work(tx: Tx) -> bool:
            changed = tx.run(
                "INSERT INTO leases (name, owner, until) VALUES ($1, $2, $3) ON CONFLICT (name) DO UPDATE "
                "SET owner = excluded.owner, until = excluded.until WHERE leases.owner = $2 OR leases.until < $4",
                LEASE,
                self._owner,
                now + LEASE_DURATION,
                now,
            )
            return changed == 1

        self._leased = await self._db.write(work)
        return self._leased

    async def _let_go(self) -> None:
        """Lets another process go on at once."""
        if self._leased:
            await self._db.write(
                lambda tx: tx.run("DELETE FROM leases WHERE name = $1 AND owner = $2", LEASE, self._owner)
            )
            self._leased = False


def text_of(stored: StoredPassage) -> str:
    """What the model reads."""
    return f"{stored.heading}\n{stored.text}" if stored.heading else stored.text
