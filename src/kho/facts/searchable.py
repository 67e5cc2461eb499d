"""Facts in `search`, `fetch` and `recent`."""

from collections.abc import Sequence
from dataclasses import replace

from kho.facts import KIND
from kho.facts.model import FactRecord
from kho.facts.resources import title_of
from kho.facts.service import FACTS
from kho.facts.store import SPACE, Fact, Store
from kho.facts.topic import topic_of
from kho.kernel.call import Call
from kho.kernel.operation import plain
from kho.kernel.ports import Database, SearchFilter, Tx
from kho.kernel.searchable import FoundPassage, Item, Narrowing, Searchable
from kho.lib.clock import Clock
from kho.lib.dataclass import dataclass


def narrow(where: SearchFilter, wanted: Narrowing) -> SearchFilter | None:
    if wanted.speaker is not None:
        return None
    return where if wanted.about is None else replace(where, collections=(topic_of(wanted.about),))


@dataclass(frozen=True, slots=True)
class FactSearch:
    db: Database
    store: Store
    clock: Clock
    timeout: float

    def described(self, tx: Tx, tenant: str, found: Sequence[FoundPassage]) -> list[Item | None]:
        """Without those that expired since they were indexed, or changed since they were found."""
        now = self.clock()
        facts = self.store.get_many(tx, tenant, [*{one.key for one in found}])
        return [_item(fact) if (fact := facts.get(one.key)) and fact.is_current(now) else None for one in found]

    async def fetch(self, call: Call, id: str) -> Item | None:
        """Also one that was replaced or has expired: its metadata says so. Nothing that was forgotten."""

        def work(tx: Tx) -> tuple[Fact, int] | None:
            fact = self.store.get(tx, call.tenant, id)
            if fact is None or fact.forgotten_at is not None:
                return None
            chain = [one.id for one in self.store.chain(tx, call.tenant, id)]
            return fact, len(chain) - 1 + len(self.store.revisions(tx, call.tenant, chain))

        found = await self.db.read(work, timeout=call.remaining(self.timeout))
        if found is None:
            return None
        fact, earlier = found
        record = plain(FactRecord.of(fact))
        metadata = {name: value for name, value in record.items() if name not in ("id", "text")}
        return _item(fact, {**metadata, "earlier_versions": earlier})

    def recent(self, tx: Tx, where: SearchFilter, limit: int) -> list[Item]:
        topic = where.collections[0] if where.collections else None
        return [_item(fact) for fact in self.store.recent(tx, where.tenant, where.since, limit, self.clock(), topic)]

    def declared(self) -> Searchable:
        return Searchable(
            KIND,
            SPACE,
            FACTS.read_scope,
            described=self.described,
            fetch=self.fetch,
            recent=self.recent,
            narrow=narrow,
        )


def _item(fact: Fact, metadata: dict[str, object] | None = None) -> Item:
    about = f"{fact.about}: " if fact.about and fact.about.casefold() not in fact.text.casefold() else ""
    return Item(fact.id, about + title_of(fact), fact.updated_at, fact.text, metadata or {})
