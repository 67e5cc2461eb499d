"""Convert messages to search documents: collection = conversation id, key = message id."""

import asyncio

from kho.lib.chunking.chunker import chunks
from kho.memory.store import MESSAGES, SPACE, Labels, Message
from kho.search.indexing.index import Document, Field, Passage, Prepared, prepare
from kho.search.indexing.reindex import pages

FORM = 2
"""Index format version: increase it when messages are indexed differently, and all are reindexed."""
SHORT = 1_200
"""Longest message, in characters, that is indexed as a single passage."""
LONG = 6_000
"""Length in characters above which a message is prepared in a thread, so as not to block the event loop."""


def document(tenant: str, conversation: str, message: Message, labels: Labels = Labels()) -> Document:  # noqa: B008
    text = message.content
    texts = [text] if len(text) <= SHORT else [chunk.text for chunk in chunks(text)]
    passages = [Passage((Field(one),)) for one in texts]
    return Document(SPACE, tenant, message.id, passages, conversation, message.role, labels.tags, message.created_at)


async def prepared(tenant: str, conversation: str, message: Message) -> Prepared:
    def work() -> Prepared:
        return prepare(document(tenant, conversation, message))

    return work() if len(message.content) <= LONG else await asyncio.to_thread(work)


all_documents = pages(
    f"c.user_id, c.agent_id, {MESSAGES.select('m')}",
    "messages AS m JOIN conversations AS c ON c.tenant = m.tenant AND c.id = m.conversation",
    lambda _, row: document(row[0], row[1], MESSAGES.read(row[5:]), Labels(*row[3:5])),
    place=("m.tenant", "m.conversation", "m.place"),
    start=("", "", 0),
)
"""Pages of all messages of all tenants, for `search.indexing.reindex`."""
