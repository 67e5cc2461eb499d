"""SQL of conversations and messages. Statements filter by tenant, except the queue of summaries, which spans all."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from kho.kernel.ports import Tx
from kho.lib import sql
from kho.lib.dataclass import dataclass
from kho.lib.name_key import name_key
from kho.lib.sql import NOTHING, Table, Value, among, pairs
from kho.search.indexing.index import Index, Prepared

SPACE = "memory"
PAGE = 100


@dataclass(frozen=True, slots=True)
class Conversation:
    id: str
    title: str
    messages: int
    newest: int
    summary: str
    summary_by: str
    summarised: int
    waits_since: int | None
    summary_at: int | None
    created_at: int
    updated_at: int
    user_id: str | None = None
    agent_id: str | None = None

    @property
    def labels(self) -> "Labels":
        return Labels(self.user_id, self.agent_id)


class Labels(NamedTuple):
    """Who a conversation is with, and which agent holds it. They narrow lists and searches and hide nothing."""

    user_id: str | None = None
    agent_id: str | None = None

    def over(self, others: "Labels") -> "Labels":
        """These, and where one is missing that of the others."""
        return Labels(*(own if own is not None else other for own, other in zip(self, others, strict=True)))

    def given(self) -> dict[str, str]:
        return {name: id for name, id in self._asdict().items() if id is not None}

    @property
    def tags(self) -> tuple[str, ...]:
        """How the messages of the conversation are marked in the index."""
        named = (("user", self.user_id), ("agent", self.agent_id))
        return tuple(f"{kind}:{name_key(id)}" for kind, id in named if id is not None)


@dataclass(frozen=True, slots=True)
class Message:
    place: int
    id: str
    role: str
    content: str
    metadata: dict[str, Any] | None
    created_at: int
    """When it came here; that is the order."""
    speaker: str | None = None
    at: int | None = None
    """When it was said where it came from."""
    at_offset: int | None = None
    """How many minutes the clock was ahead of UTC there."""


CONVERSATIONS = Table("conversations", Conversation)
MESSAGES = Table("messages", Message, json=("metadata",))


def create(
    tx: Tx,
    tenant: str,
    id: str,
    now: int,
    labels: Labels = Labels(),  # noqa: B008 (a tuple)
    title: str = "",
    used: int | None = None,
) -> bool:
    """Insert an empty conversation, last used at `used`. Return False if it exists already."""
    new = Conversation(id, title, 0, 0, "", "kho", 0, None, None, now, now if used is None else used, *labels)
    return bool(CONVERSATIONS.insert(tx, new, conflict=NOTHING, tenant=tenant, leased_until=0, **_keys(labels)))


def _keys(labels: Labels) -> dict[str, Value]:
    user, agent = (None if id is None else name_key(id) for id in labels)
    return {"user_key": user, "agent_key": agent}


def label(
    tx: Tx, index: Index, tenant: str, id: str, labels: Labels, prepared: Callable[[Message, str], Prepared]
) -> None:
    """Set the labels of a conversation, also those of its messages in the index. That takes about half a millisecond
    per message; labels seldom change."""
    sql.update(tx, "conversations", {**labels._asdict(), **_keys(labels)}, tenant=tenant, id=id)
    place, last = 0, ""
    while messages := between(tx, tenant, id, place, PAGE):
        before = [last, *(message.content for message in messages)]
        index.put(tx, [prepared(message, text) for message, text in zip(messages, before, strict=False)])
        place, last = messages[-1].place, before[-1]


def get(tx: Tx, tenant: str, id: str) -> Conversation | None:
    return CONVERSATIONS.find(tx, tenant=tenant, id=id)


def place_for(
    tx: Tx,
    tenant: str,
    id: str,
    title: str,
    now: int,
    labels: Labels = Labels(),  # noqa: B008 (a tuple)
) -> tuple[int, Labels, bool]:
    """Reserve the place of a new message and return it with the conversation's labels, and True if the conversation
    had to be begun. The UPDATE locks the row: a concurrent writer waits here, so that places are in commit order."""
    statement = (
        "UPDATE conversations SET newest = newest + 1, messages = messages + 1, "
        "updated_at = CASE WHEN updated_at > $1 THEN updated_at ELSE $1 END, "
        "title = CASE WHEN title = '' THEN $2 ELSE title END WHERE tenant = $3 AND id = $4 "
        "RETURNING newest, user_id, agent_id"
    )
    row = tx.one(statement, now, title, tenant, id)
    opened = row is None and create(tx, tenant, id, now, labels)
    row = row or tx.one(statement, now, title, tenant, id)
    assert row is not None
    return row[0], Labels(*row[1:]), opened


def add(tx: Tx, tenant: str, conversation: str, message: Message) -> None:
    MESSAGES.insert(tx, message, tenant=tenant, conversation=conversation)


def by_id(tx: Tx, tenant: str, conversation: str, id: str) -> Message | None:
    return MESSAGES.find(tx, tenant=tenant, conversation=conversation, id=id)


def newest(tx: Tx, tenant: str, conversation: str, limit: int, skip: int = 0) -> list[Message]:
    """Return the newest `limit` messages, without the very last `skip`, in chronological order."""
    newest_first = "tenant = $1 AND conversation = $2 ORDER BY place DESC LIMIT $3 OFFSET $4"
    return MESSAGES.all(tx, newest_first, tenant, conversation, limit, skip)[::-1]


def between(tx: Tx, tenant: str, conversation: str, after: int, limit: int) -> list[Message]:
    behind = "tenant = $1 AND conversation = $2 AND place > $3 ORDER BY place LIMIT $4"
    return MESSAGES.all(tx, behind, tenant, conversation, after, limit)


def around(tx: Tx, tenant: str, conversation: str, place: int, reach: int) -> list[Message]:
    """The message at a place, with as many before and after it."""
    near = "tenant = $1 AND conversation = $2 AND place BETWEEN $3 AND $4 ORDER BY place"
    return MESSAGES.all(tx, near, tenant, conversation, place - reach, place + reach)


def by_ids(tx: Tx, tenant: str, wanted: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Message]:
    """Return messages of several conversations, keyed by (conversation id, message id)."""
    select = f"SELECT conversation, {MESSAGES.columns} FROM messages WHERE tenant = $1 AND (conversation, id)"
    found = [(row[0], MESSAGES.read(row[1:])) for row in pairs(tx, select, wanted, tenant)]
    return {(conversation, message.id): message for conversation, message in found}


def content_at(tx: Tx, tenant: str, conversation: str, place: int) -> str:
    """The text of the message at a place; empty if there is none."""
    sql = "SELECT content FROM messages WHERE tenant = $1 AND conversation = $2 AND place = $3"
    row = tx.one(sql, tenant, conversation, place)
    return row[0] if row else ""


def get_all(tx: Tx, tenant: str, ids: Iterable[str]) -> dict[str, Conversation]:
    """Those that exist, by id."""
    select = f"SELECT {CONVERSATIONS.columns} FROM conversations WHERE tenant = $1 AND id"
    return {one.id: one for one in CONVERSATIONS.read_all(among(tx, select, sorted({*ids}), tenant))}


def last_messages(
    tx: Tx, tenant: str, since: int, limit: int, label: str | None = None
) -> list[tuple[Conversation, Message]]:
    """The last message of each conversation that was used since then, the latest first; of all conversations, or of
    those with this user or agent."""
    values: list[Value] = [tenant, since] if label is None else [tenant, since, name_key(label)]
    labelled = "" if label is None else "AND (c.user_key = $3 OR c.agent_key = $3)"
    rows = tx.all(
        f"SELECT {CONVERSATIONS.select('c')}, {MESSAGES.select('m')} FROM conversations AS c "
        "JOIN messages AS m ON m.tenant = c.tenant AND m.conversation = c.id AND m.place = c.newest "
        f"WHERE c.tenant = $1 AND c.updated_at >= $2 {labelled} "
        f"ORDER BY c.updated_at DESC, c.id LIMIT ${len(values) + 1}",
        *values,
        limit,
    )
    width = len(CONVERSATIONS.fields)
    return [(CONVERSATIONS.read(row[:width]), MESSAGES.read(row[width:])) for row in rows]


def page(
    tx: Tx,
    tenant: str,
    after: tuple[int, str] | None,
    limit: int,
    labels: Labels = Labels(),  # noqa: B008 (a tuple)
) -> list[Conversation]:
    """Return up to `limit` conversations, most recently used first, after the position `after` = (updated_at, id)."""
    narrowed, values = sql.where({"tenant =": tenant, **{f"{name} =": key for name, key in _keys(labels).items()}})
    n = len(values) + 1
    behind = f"(updated_at < ${n} OR (updated_at = ${n} AND id > ${n + 1})) ORDER BY updated_at DESC, id LIMIT ${n + 2}"
    return CONVERSATIONS.all(tx, f"{narrowed} AND {behind}", *values, *(after or (2**63 - 1, "")), limit)


def by_name(tx: Tx, tenant: str, after: str, limit: int) -> list[Conversation]:
    """Return conversations ordered by id: unlike `page`, an order that new messages do not change."""
    return CONVERSATIONS.all(tx, "tenant = $1 AND id > $2 ORDER BY id LIMIT $3", tenant, after, limit)


def beginning_with(tx: Tx, tenant: str, beginning: str, limit: int) -> list[str]:
    statement = "SELECT id FROM conversations WHERE tenant = $1 AND id >= $2 AND id < $3 ORDER BY id LIMIT $4"
    rows = tx.all(statement, tenant, beginning, beginning + "\U0010ffff", limit)
    return [row[0] for row in rows]


def set_summary(tx: Tx, tenant: str, id: str, summary: str, by: str, summarised: int | None, now: int) -> bool:
    """Store a summary. `summarised` None: it covers all messages. Return False if there is no such conversation."""
    statement = (
        "UPDATE conversations SET summary = $1, summary_by = $2, summarised = coalesce($3, newest), "
        "summary_at = $4, waits_since = NULL WHERE tenant = $5 AND id = $6"
    )
    return bool(tx.run(statement, summary, by, summarised, now, tenant, id))


def empty(tx: Tx, index: Index, tenant: str, id: str, now: int) -> bool:
    """Delete all messages, their index entries and the summary. Return False if there is no such conversation."""
    statement = (
        "UPDATE conversations SET messages = 0, title = '', summary = '', summary_by = 'kho', summarised = newest, "
        "summary_at = NULL, waits_since = NULL, updated_at = $1 WHERE tenant = $2 AND id = $3"
    )
    gone = tx.run(statement, now, tenant, id)
    if not gone:
        return False
    rows = tx.all("SELECT id FROM messages WHERE tenant = $1 AND conversation = $2", tenant, id)
    index.drop(tx, SPACE, tenant, [row[0] for row in rows], id)
    sql.delete(tx, "messages", tenant=tenant, conversation=id)
    sql.delete(tx, "folded_summaries", tenant=tenant, conversation=id)
    return True


def delete(tx: Tx, index: Index, tenant: str, id: str, now: int) -> bool:
    if not empty(tx, index, tenant, id, now):
        return False
    sql.delete(tx, "conversations", tenant=tenant, id=id)
    return True


def fold(tx: Tx, tenant: str, conversation: str, text: str, now: int) -> None:
    """Store the full text of condensed paragraphs of a summary."""
    statement = (
        "INSERT INTO folded_summaries (tenant, conversation, number, text, created_at) "
        "SELECT $1, $2, 1 + coalesce(max(number), 0), $3, $4 FROM folded_summaries "
        "WHERE tenant = $1 AND conversation = $2"
    )
    tx.run(statement, tenant, conversation, text, now)


def folded(tx: Tx, tenant: str, conversation: str) -> list[str]:
    statement = "SELECT text FROM folded_summaries WHERE tenant = $1 AND conversation = $2 ORDER BY number"
    rows = tx.all(statement, tenant, conversation)
    return [row[0] for row in rows]


def wait_for_summary(tx: Tx, tenant: str, id: str, threshold: int, now: int) -> bool:
    """Mark a conversation as due if more than `threshold` messages are unsummarised and no client set its summary."""
    statement = (
        "UPDATE conversations SET waits_since = $1 WHERE tenant = $2 AND id = $3 AND waits_since IS NULL "
        "AND summary_by = 'kho' AND messages > $4 AND newest - summarised > $4"
    )
    return bool(tx.run(statement, now, tenant, id, threshold))


def any_waiting(tx: Tx) -> bool:
    return tx.one("SELECT 1 FROM conversations WHERE waits_since IS NOT NULL LIMIT 1") is not None


def claim_waiting(tx: Tx, now: int, until: int) -> tuple[str, Conversation] | None:
    """Lease the conversation that has waited longest for its summary, until `until`; None if there is none."""
    statement = (
        f"UPDATE conversations SET leased_until = $1 WHERE (tenant, id) IN (SELECT tenant, id FROM conversations "
        f"WHERE waits_since IS NOT NULL AND leased_until < $2 ORDER BY waits_since LIMIT 1) AND leased_until < $2 "
        f"RETURNING tenant, {CONVERSATIONS.columns}"
    )
    row = tx.one(statement, until, now)
    return None if row is None else (row[0], CONVERSATIONS.read(row[1:]))


def release(tx: Tx, tenant: str, id: str, due: int | None) -> None:
    """Release the lease. `due`: when to try again; None: nothing is left to do."""
    sql.update(tx, "conversations", {"leased_until": 0, "waits_since": due}, tenant=tenant, id=id)


def count_after(tx: Tx, tenant: str, conversation: str, place: int) -> int:
    after = "SELECT count(*) FROM messages WHERE tenant = $1 AND conversation = $2 AND place > $3"
    return sql.number(tx, after, tenant, conversation, place)


def count_up_to(tx: Tx, tenant: str, conversation: str, place: int) -> int:
    up_to = "SELECT count(*) FROM messages WHERE tenant = $1 AND conversation = $2 AND place <= $3"
    return sql.number(tx, up_to, tenant, conversation, place)
