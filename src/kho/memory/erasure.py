"""What conversations hold of tenants and people.

A conversation with a person, or held by it, leaves as a whole. What a person said in another one leaves message by
message, and with it the summary, which may repeat it: Kho writes another one.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

from kho.kernel.ports import Row, Tx, Value
from kho.kernel.upkeep.erasure import Erasure, Gone, Nameless, Whom, distinct, holds, quoted
from kho.lib.dataclass import dataclass
from kho.lib.sql import delete, number
from kho.memory import attribution, indexing, store
from kho.memory.service import title_of
from kho.memory.settings import MemorySettings
from kho.memory.store import MESSAGES, SPACE, Message
from kho.search.core import Core
from kho.search.indexing.index import Index, prepare

OWNED, AGED = "user_id IN ({names}) OR agent_id IN ({names})", "updated_at < {before}"
BELOW = ("messages", "folded_summaries")
PAGE = 500


def erasures(core: Core, settings: MemorySettings) -> list[Erasure]:
    return [Conversations(core.index, settings.keep_days), Sayings(core.index)]


@dataclass(frozen=True, slots=True)
class Conversations(Nameless):
    index: Index
    keep_days: int | None = None
    """Since the last message."""
    slice: str = "memory"
    tables: Sequence[str] = ("conversations", *BELOW)

    def tenants(self, tx: Tx) -> Sequence[str]:
        return [tenant for (tenant,) in tx.all("SELECT DISTINCT tenant FROM conversations")]

    def names(self, tx: Tx, tenant: str) -> Iterator[str]:
        for column in ("user_id", "agent_id"):
            yield from distinct(tx, "conversations", column, tenant)

    def count(self, tx: Tx, whom: Whom) -> dict[str, int]:
        if (meant := whom.where(OWNED, AGED)) is None:
            return {}
        condition, values = meant
        found = {"conversations": number(tx, f"SELECT count(*) FROM conversations WHERE {condition}", *values)}
        for table in BELOW:
            ids = f"SELECT id FROM conversations WHERE {condition}"
            sql = f"SELECT count(*) FROM {table} WHERE tenant = $1 AND conversation IN ({ids})"
            found[table] = number(tx, sql, *values)
        return found

    def erase(self, tx: Tx, whom: Whom, limit: int) -> Gone:
        """Take conversations whole, as long as few messages are taken; of a very long one the oldest go first."""
        if (meant := whom.where(OWNED, AGED)) is None:
            return Gone()
        condition, values = meant
        sql = f"SELECT id FROM conversations WHERE {condition} ORDER BY id LIMIT ${len(values) + 1}"
        rows, gone = 0, list[str]()
        for (id,) in tx.all(sql, *values, limit):
            messages = store.between(tx, whom.tenant, id, 0, limit)
            rows += len(messages) + 1
            if len(messages) == limit:
                ids = [one.id for one in messages]
                self.index.drop(tx, SPACE, whom.tenant, ids, id)
                tx.many(
                    "DELETE FROM messages WHERE tenant = $1 AND conversation = $2 AND place = $3",
                    [(whom.tenant, id, one.place) for one in messages],
                )
                break
            store.delete(tx, self.index, whom.tenant, id, 0)
            gone.append(id)
            if rows >= limit:
                break
        return Gone(rows, gone)


@dataclass(frozen=True, slots=True)
class Sayings(Nameless):
    """What a person said in conversations of others, by the name that stands with a message."""

    index: Index
    slice: str = "memory"
    tables: Sequence[str] = ()

    def names(self, tx: Tx, tenant: str) -> Iterator[str]:
        yield from distinct(tx, "messages", "speaker", tenant)
        for _, message in _messages(tx, tenant, "metadata IS NOT NULL", []):
            if (name := attribution.speaker(message)) is not None:
                yield name

    def count(self, tx: Tx, whom: Whom) -> dict[str, int]:
        return {"messages": sum(1 for _ in _said(tx, whom))} if _is_one(whom) else {}

    def erase(self, tx: Tx, whom: Whom, limit: int) -> Gone:
        if not _is_one(whom):
            return Gone()
        said: list[tuple[str, Message]] = []
        for one in _said(tx, whom):
            said.append(one)
            if len(said) == limit:
                break
        for conversation, messages in groupby(said, lambda one: one[0]):
            self._forget(tx, whom.tenant, conversation, [message for _, message in messages])
        return Gone(len(said))

    def _forget(self, tx: Tx, tenant: str, id: str, gone: Sequence[Message]) -> None:
        self.index.drop(tx, SPACE, tenant, [one.id for one in gone], id)
        tx.many(
            "DELETE FROM messages WHERE tenant = $1 AND conversation = $2 AND place = $3",
            [(tenant, id, one.place) for one in gone],
        )
        conversation = store.get(tx, tenant, id)
        assert conversation is not None
        # An answer is indexed with the question before it.
        for place in sorted({one.place + 1 for one in gone} - {one.place for one in gone}):
            for message in store.between(tx, tenant, id, place - 1, 1):
                if message.place == place:
                    found = indexing.document(tenant, id, message, conversation.labels)
                    self.index.put(tx, [prepare(found)])
        first = store.between(tx, tenant, id, 0, 1)
        titled = conversation.title in {title_of(one.content) for one in gone}
        title = conversation.title if not titled else title_of(first[0].content) if first else ""
        tx.run(
            "UPDATE conversations SET messages = messages - $1, title = $2, summary = '', summary_by = 'kho', "
            "summarised = 0, summary_at = NULL, waits_since = CASE WHEN summary = '' THEN waits_since ELSE updated_at "
            "END WHERE tenant = $3 AND id = $4",
            len(gone),
            title,
            tenant,
            id,
        )
        delete(tx, "folded_summaries", tenant=tenant, conversation=id)


def _is_one(whom: Whom) -> bool:
    return bool(whom.names) and whom.before is None


def _said(tx: Tx, whom: Whom) -> Iterator[tuple[str, Message]]:
    """Yield the messages of a person in conversations that are not its own, with their conversation."""
    names, marks = whom.names or (), quoted(whom.names or ())
    speaker = ", ".join(f"${place}" for place in range(2, len(names) + 2))
    own = f"SELECT id FROM conversations WHERE tenant = $1 AND (user_id IN ({speaker}) OR agent_id IN ({speaker}))"
    maybe = (
        f"conversation NOT IN ({own}) "
        f"AND (speaker IN ({speaker}) OR {holds(tx, 'metadata', len(marks), len(names) + 2)})"
    )
    for conversation, message in _messages(tx, whom.tenant, maybe, [*names, *marks]):
        if attribution.speaker(message) in names:
            yield conversation, message


def _messages(tx: Tx, tenant: str, condition: str, values: Sequence[Value]) -> Iterator[tuple[str, Message]]:
    after: Row = ("", 0)
    n = len(values) + 2
    sql = (
        f"SELECT conversation, {MESSAGES.columns} FROM messages WHERE tenant = $1 AND {condition} "
        f"AND (conversation, place) > (${n}, ${n + 1}) ORDER BY conversation, place LIMIT ${n + 2}"
    )
    while rows := tx.all(sql, tenant, *values, *after, PAGE):
        for row in rows:
            yield row[0], MESSAGES.read(row[1:])
        after = rows[-1][:2]
