"""A message as the search core files it: under its conversation, by its id."""

import asyncio

from kho.lib.chunking.chunker import chunks
from kho.memory.store import MESSAGES, SPACE, Message
from kho.search.indexing.index import Document, Field, Passage, Prepared, prepare
from kho.search.indexing.reindex import pages

FORM = 1
"""Goes up when messages are filed differently: they are then filed anew."""
SHORT = 1_200
"""Characters of a message that is one passage."""
LONG = 6_000
"""Characters from which folding a message would hold up the others."""


def document(tenant: str, conversation: str, message: Message) -> Document:
    text = message.content
    texts = [text] if len(text) <= SHORT else [chunk.text for chunk in chunks(text)]
    passages = [Passage((Field(one),)) for one in texts]
    return Document(SPACE, tenant, message.id, passages, conversation, message.role, (), message.created_at)


async def prepared(tenant: str, conversation: str, message: Message) -> Prepared:
    def work() -> Prepared:
        return prepare(document(tenant, conversation, message))

    return work() if len(message.content) <= LONG else await asyncio.to_thread(work)


all_documents = pages(
    MESSAGES.columns,
    "messages",
    lambda _, row: document(row[0], row[1], MESSAGES.read(row[3:])),
    place=("tenant", "conversation", "place"),
    start=("", "", 0),
)
"""All messages of all tenants, for `search.indexing.reindex`."""
