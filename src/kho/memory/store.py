"""The SQL of conversations. Every statement names the tenant."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kho.kernel.ports import Tx
from kho.lib import sql
from kho.lib.sql import NOTHING, Table, among
from kho.search.indexing.index import Index

SPACE = "memory"


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


@dataclass(frozen=True, slots=True)
class Message:
    place: int
    id: str
    role: str
    content: str
    metadata: dict[str, Any] | None
    created_at: int


CONVERSATIONS = Table("conversations", Conversation)
MESSAGES = Table("messages", Message, json=("metadata",))


def create(tx: Tx, tenant: str, id: str, now: int) -> bool:
    """Whether it is new."""
    new = Conversation(id, "", 0, 0, "", "kho", 0, None, None, now, now)
    return bool(CONVERSATIONS.insert(tx, new, conflict=NOTHING, tenant=tenant, leased_until=0))


def get(tx: Tx, tenant: str, id: str) -> Conversation | None:
    row = tx.one(f"SELECT {CONVERSATIONS.columns} FROM conversations WHERE tenant = $1 AND id = $2", tenant, id)
    return None if row is None else CONVERSATIONS.read(row)


def next_place(tx: Tx, tenant: str, id: str, title: str, now: int) -> int | None:
    """The place of a new message, or None if there is no such conversation. Whoever comes second waits here, so that
    places are in the order of the commits."""
    row = tx.one(
        "UPDATE conversations SET newest = newest + 1, messages = messages + 1, updated_at = $1, "
        "title = CASE WHEN title = '' THEN $2 ELSE title END WHERE tenant = $3 AND id = $4 RETURNING newest",
        now,
        title,
        tenant,
        id,
    )
    return None if row is None else row[0]


def add(tx: Tx, tenant: str, conversation: str, message: Message) -> None:
    MESSAGES.insert(tx, message, tenant=tenant, conversation=conversation)


def by_id(tx: Tx, tenant: str, conversation: str, id: str) -> Message | None:
    row = tx.one(
        f"SELECT {MESSAGES.columns} FROM messages WHERE tenant = $1 AND conversation = $2 AND id = $3",
        tenant,
        conversation,
        id,
    )
    return None if row is None else MESSAGES.read(row)


def newest(tx: Tx, tenant: str, conversation: str, limit: int, skip: int = 0) -> list[Message]:
    """The last ones, but for the very last `skip`, in the order in which they were said."""
    rows = tx.all(
        f"SELECT {MESSAGES.columns} FROM messages WHERE tenant = $1 AND conversation = $2 "
        "ORDER BY place DESC LIMIT $3 OFFSET $4",
        tenant,
        conversation,
        limit,
        skip,
    )
    return MESSAGES.read_all(reversed(rows))


def between(tx: Tx, tenant: str, conversation: str, after: int, limit: int) -> list[Message]:
    rows = tx.all(
        f"SELECT {MESSAGES.columns} FROM messages WHERE tenant = $1 AND conversation = $2 AND place > $3 "
        "ORDER BY place LIMIT $4",
        tenant,
        conversation,
        after,
        limit,
    )
    return MESSAGES.read_all(rows)


def by_ids(tx: Tx, tenant: str, wanted: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Message]:
    """Messages of several conversations, by the conversation's id and their own."""
    ids: dict[str, list[str]] = {}
    for conversation, id in wanted:
        ids.setdefault(conversation, []).append(id)
    found: dict[tuple[str, str], Message] = {}
    select = f"SELECT {MESSAGES.columns} FROM messages WHERE tenant = $1 AND conversation = $2 AND id"
    for conversation, some in ids.items():
        messages = MESSAGES.read_all(among(tx, select, some, tenant, conversation))
        found |= {(conversation, message.id): message for message in messages}
    return found


def page(tx: Tx, tenant: str, after: tuple[int, str] | None, limit: int) -> list[Conversation]:
    """Conversations, the limit lately used first, behind a place in that order."""
    at, id = after or (2**63 - 1, "")
    rows = tx.all(
        f"SELECT {CONVERSATIONS.columns} FROM conversations WHERE tenant = $1 AND "
        "(updated_at < $2 OR (updated_at = $3 AND id > $4)) ORDER BY updated_at DESC, id LIMIT $5",
        tenant,
        at,
        at,
        id,
        limit,
    )
    return CONVERSATIONS.read_all(rows)


def by_name(tx: Tx, tenant: str, after: str, limit: int) -> list[Conversation]:
    """In an order that nobody's writing changes."""
    rows = tx.all(
        f"SELECT {CONVERSATIONS.columns} FROM conversations WHERE tenant = $1 AND id > $2 ORDER BY id LIMIT $3",
        tenant,
        after,
        limit,
    )
    return CONVERSATIONS.read_all(rows)


def beginning_with(tx: Tx, tenant: str, beginning: str, limit: int) -> list[str]:
    rows = tx.all(
        "SELECT id FROM conversations WHERE tenant = $1 AND id >= $2 AND id < $3 ORDER BY id LIMIT $4",
        tenant,
        beginning,
        beginning + "\U0010ffff",
        limit,
    )
    return [row[0] for row in rows]


def set_summary(tx: Tx, tenant: str, id: str, summary: str, by: str, summarised: int | None, now: int) -> bool:
    """Whether there is such a conversation. `summarised` None: it covers all there is."""
    return bool(
        tx.run(
            "UPDATE conversations SET summary = $1, summary_by = $2, summarised = coalesce($3, newest), "
            "summary_at = $4, waits_since = NULL WHERE tenant = $5 AND id = $6",
            summary,
            by,
            summarised,
            now,
            tenant,
            id,
        )
    )


def empty(tx: Tx, index: Index, tenant: str, id: str, now: int) -> bool:
    """Takes every message, their index entries and the summary out. Whether there is such a conversation."""
    gone = tx.run(
        "UPDATE conversations SET messages = 0, title = '', summary = '', summary_by = 'kho', summarised = newest, "
        "summary_at = NULL, waits_since = NULL, updated_at = $1 WHERE tenant = $2 AND id = $3",
        now,
        tenant,
        id,
    )
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
    """Keeps what a summary lets go of."""
    tx.run(
        "INSERT INTO folded_summaries (tenant, conversation, number, text, created_at) "
        "SELECT $1, $2, 1 + coalesce(max(number), 0), $3, $4 FROM folded_summaries "
        "WHERE tenant = $5 AND conversation = $6",
        tenant,
        conversation,
        text,
        now,
        tenant,
        conversation,
    )


def folded(tx: Tx, tenant: str, conversation: str) -> list[str]:
    rows = tx.all(
        "SELECT text FROM folded_summaries WHERE tenant = $1 AND conversation = $2 ORDER BY number",
        tenant,
        conversation,
    )
    return [row[0] for row in rows]


def wait_for_summary(tx: Tx, tenant: str, id: str, threshold: int, now: int) -> bool:
    """Marks a conversation of which more than `threshold` messages are not summarised, unless a client does it."""
    return bool(
        tx.run(
            "UPDATE conversations SET waits_since = $1 WHERE tenant = $2 AND id = $3 AND waits_since IS NULL "
            "AND summary_by = 'kho' AND messages > $4 AND newest - summarised > $5",
            now,
            tenant,
            id,
            threshold,
            threshold,
        )
    )


def any_waiting(tx: Tx) -> bool:
    return tx.one("SELECT 1 FROM conversations WHERE waits_since IS NOT NULL LIMIT 1") is not None


def claim_waiting(tx: Tx, now: int, until: int) -> tuple[str, Conversation] | None:
    """A conversation that waits for its summary, for this process alone."""
    row = tx.one(
        f"UPDATE conversations SET leased_until = $1 WHERE (tenant, id) IN (SELECT tenant, id FROM conversations "
        f"WHERE waits_since IS NOT NULL AND leased_until < $2 ORDER BY waits_since LIMIT 1) AND leased_until < $3 "
        f"RETURNING tenant, {CONVERSATIONS.columns}",
        until,
        now,
        now,
    )
    return None if row is None else (row[0], CONVERSATIONS.read(row[1:]))


def release(tx: Tx, tenant: str, id: str, due: int | None) -> None:
    """Nobody is at it any more. `due` None: nothing is left to do."""
    sql.update(tx, "conversations", {"leased_until": 0, "waits_since": due}, tenant=tenant, id=id)


def count_up_to(tx: Tx, tenant: str, conversation: str, place: int) -> int:
    row = tx.one(
        "SELECT count(*) FROM messages WHERE tenant = $1 AND conversation = $2 AND place <= $3",
        tenant,
        conversation,
        place,
    )
    return row[0] if row else 0


def settle(tx: Tx, tenant: str, conversation: str) -> None:
    """After messages from elsewhere: the conversation was last used when its last message was said."""
    tx.run(
        "UPDATE conversations SET updated_at = coalesce((SELECT max(created_at) FROM messages "
        "WHERE tenant = $1 AND conversation = $2), updated_at) WHERE tenant = $3 AND id = $4",
        tenant,
        conversation,
        tenant,
        conversation,
    )
