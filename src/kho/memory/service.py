"""The rules of conversations."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from kho.kernel import paging
from kho.kernel.call import Call
from kho.kernel.capability import Changes
from kho.kernel.errors import UniqueViolation
from kho.kernel.ports import Database, Tx, Where
from kho.lib.clock import Clock, iso
from kho.memory import filing, model, store
from kho.memory.errors import OtherMessage, UnknownConversation
from kho.memory.store import Conversation, Message
from kho.search.answer.highlight import snippet
from kho.search.indexing.index import Index
from kho.search.query.searcher import Searcher

T = TypeVar("T")

TITLE = 80
"""Characters of a conversation's title."""
ALL = 1_000_000
"""More messages than a conversation has."""


@dataclass(frozen=True, slots=True)
class Limits:
    keep_recent_messages: int = 6
    summarize_threshold: int = 10
    summary_max_chars: int = 8_000
    timeout: float = 10.0


class Service:
    def __init__(
        self,
        db: Database,
        index: Index,
        searcher: Searcher,
        clock: Clock,
        limits: Limits,
        changes: Changes,
        on_waiting: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_waiting` is called when a conversation waits for its summary."""
        self._db = db
        self._index = index
        self._searcher = searcher
        self._clock = clock
        self._limits = limits
        self._changes = changes
        self._on_waiting = on_waiting

    async def get_or_create(self, params: model.GetOrCreate, call: Call) -> model.Conversation:
        id = params.conversation_id or f"chat_{uuid.uuid4()}"

        def work(tx: Tx) -> model.Conversation:
            store.create(tx, call.tenant, id, self._clock())
            return model.Conversation(conversation_id=id)

        known = params.conversation_id and await self._read(call, lambda tx: store.get(tx, call.tenant, id))
        if known:
            return model.Conversation(conversation_id=id)
        opened = await call.commit(self._db, work)
        self._changes.tell(call.tenant)
        return opened

    async def add_message(self, params: model.AddMessage, call: Call) -> model.Done:
        tenant, conversation, now = call.tenant, params.conversation_id, self._clock()
        message = Message(0, params.message_id or str(uuid.uuid4()), params.role, params.content, params.metadata, now)
        entry = await filing.prepared(tenant, conversation, message)
        waits: list[bool] = []

        def work(tx: Tx) -> model.Done:
            waits.clear()
            known = store.by_id(tx, tenant, conversation, message.id) if params.message_id else None
            if known is not None:
                return _again(known, message, conversation)
            place = store.next_place(tx, tenant, conversation, title_of(message.content), now)
            if place is None:
                raise UnknownConversation(conversation_id=conversation)
            store.add(tx, tenant, conversation, replace(message, place=place))
            self._index.put(tx, [entry])
            waits.append(store.wait_for_summary(tx, tenant, conversation, self._limits.summarize_threshold, now))
            return model.Done(status="success", conversation_id=conversation)

        try:
            done = await call.commit(self._db, work)
        except UniqueViolation:  # somebody sent it at the same moment
            known = await self._read(call, lambda tx: store.by_id(tx, tenant, conversation, message.id))
            if known is None:
                raise
            return _again(known, message, conversation)
        if any(waits):
            self._on_waiting()
        self._changes.tell(tenant, model.CONVERSATIONS + conversation)
        return done

    async def get_context(self, params: model.GetContext, call: Call) -> model.Messages:
        most = params.max_messages or self._limits.keep_recent_messages
        return model.Messages(messages=await self._messages(params.conversation_id, call, most))

    async def get_all_messages(self, params: model.OfConversation, call: Call) -> model.Messages:
        return model.Messages(messages=await self._messages(params.conversation_id, call, ALL))

    async def get_old_messages(self, params: model.OfConversation, call: Call) -> model.OldMessages:
        messages = await self._messages(params.conversation_id, call, ALL)
        old = messages[: max(0, len(messages) - self._limits.keep_recent_messages)]
        return model.OldMessages(messages=old, total_count=len(old))

    async def get_summary(self, params: model.OfConversation, call: Call) -> model.Summary:
        conversation = await self._read(call, lambda tx: need(tx, call.tenant, params.conversation_id))
        return model.Summary(summary=conversation.summary)

    async def get_or_create_summary(self, params: model.GetOrCreateSummary, call: Call) -> model.Summary:
        return await self.get_summary(model.OfConversation(conversation_id=params.conversation_id), call)

    async def set_summary(self, params: model.SetSummary, call: Call) -> model.Done:
        def work(tx: Tx) -> bool:
            return store.set_summary(
                tx, call.tenant, params.conversation_id, params.summary, "client", None, self._clock()
            )

        return await self._change(params.conversation_id, call, work, "success")

    async def clear(self, params: model.OfConversation, call: Call) -> model.Done:
        id = params.conversation_id
        return await self._change(
            id, call, lambda tx: store.empty(tx, self._index, call.tenant, id, self._clock()), "cleared"
        )

    async def delete(self, params: model.OfConversation, call: Call) -> model.Done:
        id = params.conversation_id
        done = await self._change(
            id, call, lambda tx: store.delete(tx, self._index, call.tenant, id, self._clock()), "deleted"
        )
        self._changes.tell(call.tenant)
        return done

    async def conversations(self, params: model.ListConversations, call: Call) -> model.Conversations:
        after = paging.place(params.cursor, int, str)
        rows = await self._read(call, lambda tx: store.page(tx, call.tenant, after, params.limit + 1))
        page = rows[: params.limit]
        more = paging.encode([page[-1].updated_at, page[-1].id]) if len(rows) > params.limit else None
        return model.Conversations(conversations=[_listed(one) for one in page], next_cursor=more)

    async def search(self, params: model.SearchMemory, call: Call) -> model.Hits:
        tenant, narrowed = call.tenant, params.conversation_id
        if narrowed is not None:
            await self._read(call, lambda tx: need(tx, tenant, narrowed))
        found = await self._searcher.search(
            Where(store.SPACE, tenant, (narrowed,) if narrowed else ()),
            params.query,
            limit=params.limit,
            cursor=params.cursor,
            per_key=True,
            timeout=call.remaining(self._limits.timeout),
        )
        places = [(hit.passage.filed.collection, hit.passage.key) for hit in found.hits]
        messages = await self._read(call, lambda tx: store.by_ids(tx, tenant, places))
        hits = [
            model.Hit(
                conversation_id=place[0],
                message_id=message.id,
                role=message.role,
                content=message.content,
                created_at=iso(message.created_at),
                score=round(hit.score, 4),
                highlights=[snippet(hit.passage.text, params.query)[0]],
            )
            for hit, place in zip(found.hits, places, strict=True)
            if (message := messages.get(place)) is not None
        ]
        return model.Hits(results=hits, total=found.total, next_cursor=found.cursor, notes=[*found.notes] or None)

    async def _messages(self, id: str, call: Call, most: int) -> list[model.Message]:
        def work(tx: Tx) -> list[Message]:
            need(tx, call.tenant, id)
            return store.newest(tx, call.tenant, id, most)

        return [shown(message) for message in await self._read(call, work)]

    async def _change(self, id: str, call: Call, work: Callable[[Tx], bool], status: str) -> model.Done:
        def change(tx: Tx) -> model.Done:
            if not work(tx):
                raise UnknownConversation(conversation_id=id)
            return model.Done(status=status, conversation_id=id)

        done = await call.commit(self._db, change)
        self._changes.tell(call.tenant, model.CONVERSATIONS + id)
        return done

    async def _read(self, call: Call, work: Callable[[Tx], T]) -> T:
        return await self._db.read(work, timeout=call.remaining(self._limits.timeout))


def need(tx: Tx, tenant: str, id: str) -> Conversation:
    conversation = store.get(tx, tenant, id)
    if conversation is None:
        raise UnknownConversation(conversation_id=id)
    return conversation


def shown(message: Message) -> model.Message:
    return model.Message(
        role=message.role,
        content=message.content,
        id=message.id,
        created_at=iso(message.created_at),
        metadata=message.metadata,
    )


def title_of(content: str) -> str:
    line = " ".join(content[: 4 * TITLE].split())
    return line if len(line) <= TITLE else line[: TITLE - 1].rstrip() + "…"


def _again(known: Message, message: Message, conversation: str) -> model.Done:
    if (known.role, known.content) != (message.role, message.content):
        raise OtherMessage(field="message_id", message_id=message.id)
    return model.Done(status="success", conversation_id=conversation)


def _listed(conversation: Conversation) -> model.Listed:
    return model.Listed(
        conversation_id=conversation.id,
        title=conversation.title,
        message_count=conversation.messages,
        has_summary=bool(conversation.summary),
        created_at=iso(conversation.created_at),
        last_activity=iso(conversation.updated_at),
    )
