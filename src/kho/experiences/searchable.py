"""Experience records, as `search`, `fetch` and `recent` show them."""

from collections.abc import Sequence

from kho.experiences import KIND
from kho.experiences.contract import EXPERIENCES
from kho.experiences.store import SPACE, Experience, Store
from kho.kernel import Call, Database, FoundPassage, Item, Searchable, SearchFilter, Tx, split_passage

HEADINGS = {
    "problem_description": "Problem",
    "root_cause": "Root cause",
    "solution": "Solution",
    "context": "Context",
}


def searchable(db: Database, store: Store, timeout: float) -> Searchable:
    """Reading a record here raises no `query_count`."""

    def described(tx: Tx, tenant: str, found: Sequence[FoundPassage]) -> list[Item | None]:
        records = {record.id: record for record in store.get_many(tx, tenant, [one.key for one in found])}
        return [_item(records[one.key]) if one.key in records else None for one in found]

    async def fetch(call: Call, id: str) -> Item | None:
        whole, passage = split_passage(id)
        if passage:  # a record is one passage
            return None
        found = await db.read(lambda tx: store.get_many(tx, call.tenant, [whole]), timeout=call.remaining(timeout))
        return _item(found[0]) if found else None

    def recent(tx: Tx, where: SearchFilter, limit: int) -> list[Item]:
        return list(map(_item, store.recent(tx, where.tenant, where.since, limit)))

    return Searchable(
        KIND,
        SPACE,
        EXPERIENCES.read_scope,
        described=described,
        fetch=fetch,
        recent=recent,
    )


def _item(record: Experience) -> Item:
    parts = [(title, getattr(record, name)) for name, title in HEADINGS.items()]
    text = "\n\n".join(f"{title}: {said}" for title, said in parts if said)
    known = {
        "keywords": record.keywords,
        "created_by": record.created_by,
        "revision": record.revision,
        "query_count": record.query_count,
        "helpful": record.helpful,
        "unhelpful": record.unhelpful,
    }
    return Item(record.id, record.title, record.changed_at, text, known)
