"""Convert messages to search documents: collection = conversation id, key = message id.

A message is found by its text, by who said it and on which day, and through the question that it answers, for "On
Thursday." makes sense only after what was asked. Only its text is shown.
"""

import asyncio
from dataclasses import replace

from kho.kernel.ports import Tx
from kho.lib.chunking.chunker import chunks
from kho.memory import attribution, store
from kho.memory.store import MESSAGES, SPACE, Labels, Message
from kho.search.indexing.index import Document, Field, Index, Passage, Prepared, prepare
from kho.search.indexing.reindex import pages
from kho.search.query.dialogue import zone_tag
from kho.search.query.speakers import speaker_tag
from kho.search.text.language import language
from kho.search.text.questions import asks

FORM = 4
"""Index format version: increase it when messages are indexed differently, and all are reindexed."""
SHORT = 1_200
"""Longest message, in characters, that is indexed as a single passage."""
LONG = 6_000
"""Length in characters above which a message is prepared in a thread, so as not to block the event loop."""
QUESTION = 300
"""Characters of a question, its last ones, that are indexed with the answer."""


def document(
    tenant: str,
    conversation: str,
    message: Message,
    labels: Labels = Labels(),  # noqa: B008 (a tuple)
    before: str = "",
    most: int = 0,
) -> Document:
    """`before`: the text of the message before it. A long message says itself what it is about. `most` passages are
    made, and one more if there are more."""
    text = message.content
    texts = [text] if len(text) <= SHORT else [chunk.text for chunk in chunks(text, most=most)]
    said_at = attribution.said_at(message)
    who = attribution.speaker(message) or message.role
    heading = _question(before) if len(texts) == 1 else ""
    label = f"{who}, {attribution.day(attribution.local(message), language(text))}"
    passages = [Passage((Field(one),), heading, label) for one in texts]
    return Document(SPACE, tenant, message.id, passages, conversation, message.role, tags(message, labels), said_at)


def _question(before: str) -> str:
    """The end of the message before, if it asks something; else empty."""
    end = before[-QUESTION:]
    return end if asks(end) else ""


def tags(message: Message, labels: Labels) -> tuple[str, ...]:
    """How a message is marked in the index: with its conversation's labels, and with who said it, and where clocks
    are not at UTC."""
    by = speaker_tag(attribution.speaker(message) or message.role)
    return (*labels.tags, by, *zone_tag(attribution.ahead_of_utc(message)))


async def prepared(index: Index, tenant: str, conversation: str, message: Message) -> Prepared:
    def work() -> Prepared:
        return index.prepare(document(tenant, conversation, message, most=index.most_passages))

    return work() if len(message.content) <= LONG else await asyncio.to_thread(work)


def placed(tx: Tx, entry: Prepared, message: Message, labels: Labels) -> Prepared:
    """Return what was prepared, as it is indexed at the place that the message got: only then its labels and what it
    answers are known."""
    tenant, conversation = entry.document.tenant, entry.document.collection
    before = store.content_at(tx, tenant, conversation, message.place - 1) if len(message.content) <= SHORT else ""
    if _question(before):
        again = prepare(document(tenant, conversation, message, labels, before))
        return replace(again, allowance=entry.allowance)
    return entry.refiled(tags=tags(message, labels))


all_documents = pages(
    f"c.user_id, c.agent_id, coalesce(q.content, ''), {MESSAGES.select('m')}",
    "messages AS m JOIN conversations AS c ON c.tenant = m.tenant AND c.id = m.conversation "
    "LEFT JOIN messages AS q ON q.tenant = m.tenant AND q.conversation = m.conversation AND q.place = m.place - 1",
    lambda _, row: document(row[0], row[1], MESSAGES.read(row[6:]), Labels(*row[3:5]), row[5]),
    place=("m.tenant", "m.conversation", "m.place"),
    start=("", "", 0),
)
"""Pages of all messages of all tenants, for `search.indexing.reindex`."""
