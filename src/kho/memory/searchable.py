"""Messages, as `search`, `fetch` and `recent` show them.

A message's id is its conversation's, a slash and its number there: message ids are unique within a conversation only,
and a conversation's id may have any character, so the part behind the last slash is a number.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kho.kernel.call import Call
from kho.kernel.ports import Database, SearchFilter, Tx
from kho.kernel.searchable import FoundPassage, Item, Narrowing, Searchable
from kho.kernel.vocabulary import is_number, split_passage
from kho.lib.clock import iso
from kho.memory import KIND, attribution, store
from kho.memory.contract import MEMORY
from kho.memory.store import SPACE, Conversation, Labels, Message
from kho.search.indexing import passages
from kho.search.query.speakers import speaker_tag

REACH = 3
"""Messages before and after the one that is fetched."""
MAX_NEIGHBOUR = 1_000
"""Characters of each of them: the message itself has to be seen, too."""


def searchable(db: Database, timeout: float) -> Searchable:
    async def fetch(call: Call, id: str) -> Item | None:
        return await db.read(lambda tx: _fetched(tx, call.tenant, id), timeout=call.remaining(timeout))

    return Searchable(
        KIND,
        SPACE,
        MEMORY.read_scope,
        described=_described,
        fetch=fetch,
        recent=_recent,
        narrow=_narrow,
    )


def _described(tx: Tx, tenant: str, found: Sequence[FoundPassage]) -> list[Item | None]:
    messages = store.by_ids(tx, tenant, list(dict.fromkeys((one.collection, one.key) for one in found)))
    conversations = store.get_all(tx, tenant, (id for id, _ in messages))
    return [
        _item(conversations[one.collection], message, message.content)
        if (message := messages.get((one.collection, one.key))) is not None
        else None
        for one in found
    ]


def _fetched(tx: Tx, tenant: str, id: str) -> Item | None:
    whole, number = split_passage(id)
    conversation_id, _, place = whole.rpartition("/")
    if not is_number(place):
        return None
    near = store.around(tx, tenant, conversation_id, int(place), REACH)
    message = next((one for one in near if one.place == int(place)), None)
    conversation = message and store.get(tx, tenant, conversation_id)
    if message is None or conversation is None:
        return None
    if number is None:
        return _item(conversation, message, "\n\n".join(_quoted(one, one is message) for one in near))
    part = passages.parts(tx, SPACE, tenant, conversation_id, message.id, {number}).get(number)
    return part and _item(conversation, message, part.text, id=id, passage=number)


def _recent(tx: Tx, where: SearchFilter, limit: int) -> list[Item]:
    """The last message of each conversation: where it may be taken up again."""
    label = next((tag.partition(":")[2] for tag in where.any_tags), None)
    last = store.last_messages(tx, where.tenant, where.since or 0, limit, label)
    return [_item(conversation, message, message.content) for conversation, message in last]


def _narrow(where: SearchFilter, wanted: Narrowing) -> SearchFilter | None:
    """Messages of conversations with this user or agent, and of this speaker."""
    about, speaker = wanted
    where = where if about is None else replace(where, any_tags=Labels(about, about).tags)
    return where if speaker is None else replace(where, tags=(*where.tags, speaker_tag(speaker)))


def _item(conversation: Conversation, message: Message, text: str, *, id: str | None = None, **more: Any) -> Item:
    speaker = attribution.speaker(message)
    known = {
        "conversation_id": conversation.id,
        "message_id": message.id,
        "role": message.role,
        "speaker": speaker,
        "at": iso(attribution.said_at(message)),
        "user_id": conversation.user_id,
        "agent_id": conversation.agent_id,
        **more,
    }
    return Item(
        id or f"{conversation.id}/{message.place}",
        f'{speaker or message.role}, in "{conversation.title or conversation.id}"',
        message.created_at,
        text,
        {name: value for name, value in known.items() if value is not None},
    )


def _quoted(message: Message, asked: bool) -> str:
    speaker = attribution.speaker(message)
    name = f"{message.role} ({speaker})" if speaker else message.role
    said = message.content
    if not asked and len(said) > MAX_NEIGHBOUR:
        said = said[:MAX_NEIGHBOUR].rstrip() + " …"
    return f"[{message.place}] {name}, {iso(attribution.said_at(message))}:\n{said}"
