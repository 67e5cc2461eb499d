"""Counting how often records are returned: after the answer, in batches, each return exactly once."""

from collections import Counter
from collections.abc import Callable, Iterable

from kho.experiences.store import Store
from kho.kernel.background import Background
from kho.kernel.errors import DatabaseError
from kho.kernel.ports import Database, Tx
from kho.lib.clock import Clock

INTERVAL = 0.5
"""Seconds that counts gather before they are written; a crash loses at most these."""

RETRIES = 5


class Usage:
    def __init__(self, db: Database, store: Store, background: Background, clock: Clock) -> None:
        self._db = db
        self._store = store
        self._background = background
        self._clock = clock
        self._waiting: Counter[tuple[str, str]] = Counter()
        self._flushing = False

    def add(self, tenant: str, ids: Iterable[str]) -> None:
        self._waiting.update((tenant, id) for id in ids)
        if self._waiting and not self._flushing:
            self._flushing = True
            self._background.add(self._flush)

    async def _flush(self) -> None:
        failures = 0
        try:
            while self._waiting and failures < RETRIES:
                await self._background.pause(INTERVAL)
                taken, self._waiting = self._waiting, Counter()
                try:
                    await self._db.write(self._work(taken))
                except DatabaseError:
                    failures += 1
                    self._waiting.update(taken)
        finally:
            self._flushing = False

    def _work(self, taken: Counter[tuple[str, str]]) -> Callable[[Tx], None]:
        now = self._clock()
        uses = [(tenant, id, times) for (tenant, id), times in taken.items()]

        def work(tx: Tx) -> None:
            self._store.count_uses(tx, uses, now)

        return work
