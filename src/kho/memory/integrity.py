"""Checks of conversations against their messages."""

from kho.kernel.upkeep.checks import Checks, Rule
from kho.memory import indexing
from kho.memory.store import SPACE
from kho.search.indexing.integrity import SliceUpkeep

_LOST = "NOT EXISTS (SELECT 1 FROM conversations AS c WHERE c.tenant = t.tenant AND c.id = t.conversation)"
_HELD = "(SELECT count(*) FROM messages AS m WHERE m.tenant = t.tenant AND m.conversation = t.id)"
_LAST = "coalesce((SELECT max(m.place) FROM messages AS m WHERE m.tenant = t.tenant AND m.conversation = t.id), 0)"

_RULES = (
    Rule(
        "messages",
        "message",
        "of no conversation",
        f"FROM messages AS t WHERE {_LOST}",
        (
            "INSERT INTO conversations (tenant, id, title, messages, newest, summary, summary_by, summarised, "
            "leased_until, created_at, updated_at) SELECT t.tenant, t.conversation, 'Salvaged', count(*), "
            f"max(t.place), '', 'kho', 0, 0, min(t.created_at), max(t.created_at) FROM messages AS t WHERE {_LOST} "
            "GROUP BY t.tenant, t.conversation",
        ),
    ),
    Rule(
        "conversations",
        "conversation",
        "said to have another number of messages than are there",
        f"FROM conversations AS t WHERE t.messages <> {_HELD}",
        (f"UPDATE conversations AS t SET messages = {_HELD} WHERE t.messages <> {_HELD}",),
    ),
    Rule(
        "conversations",
        "conversation",
        "older than its last message",
        f"FROM conversations AS t WHERE t.newest < {_LAST}",
        (f"UPDATE conversations AS t SET newest = {_LAST} WHERE t.newest < {_LAST}",),
    ),
    Rule(
        "folded_summaries",
        "part of a summary",
        "of no conversation",
        f"FROM folded_summaries AS t WHERE {_LOST}",
        (f"DELETE FROM folded_summaries AS t WHERE {_LOST}",),
    ),
)

UPKEEP = SliceUpkeep(
    space=SPACE,
    form=indexing.FORM,
    pages=indexing.all_documents,
    checks=Checks(rules=_RULES, json=(("messages", ("tenant", "conversation", "place"), ("metadata",)),)),
)
