"""The rules of conversations."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from kho.kernel import paging
from kho.kernel.call import Call
from kho.kernel.capability import Changes
from kho.kernel.command import Command
from kho.kernel.errors import UniqueViolation
from kho.kernel.ports import Database, SearchFilter, Tx
from kho.lib.clock import Clock, iso
from kho.memory import indexing, markdown, model, store
from kho.memory.contract import MEMORY, SOME
from kho.memory.errors import OtherMessage, UnknownConversation
from kho.memory.settings import MemorySettings
from kho.memory.store import Conversation, Message
from kho.search.answer.highlight import snippet
from kho.search.indexing.index import Index
from kho.search.query.searcher import Searcher

T = TypeVar("T")

TITLE = 80
"""Characters of a conversation's title."""
ALL = 1_000_000
"""More messages than a conversation has."""


_GROUP = "Conversations: messages that stay, and a summary that grows with them."
_READ: tuple[str, dict[str, Any]] = ("memory/get_summary", {})
_CONVERSATION = ("conversation_id",)


def _nobody_waits() -> None:
    return None


@dataclass(slots=True, kw_only=True)
class Service:
    db: Database
    index: Index
    searcher: Searcher
    clock: Clock
    settings: MemorySettings
    changes: Changes
    on_waiting: Callable[[], None] = _nobody_waits
    """Called when a conversation waits for its summary."""

    @MEMORY.write("memory_get_or_create", cli=Command("memory open", _CONVERSATION, group=_GROUP), example=SOME)
    async def get_or_create(self, params: model.GetOrCreate, call: Call) -> model.Conversation:
        """Open a conversation, or begin one."""
        id = params.conversation_id or f"chat_{uuid.uuid4()}"

        def work(tx: Tx) -> model.Conversation:
            now = self.clock()
            if store.create(tx, call.tenant, id, now):
                call.audit(tx, id, at=now)
            return model.Conversation(conversation_id=id)

        known = params.conversation_id and await self._read(call, lambda tx: store.get(tx, call.tenant, id))
        if known:
            return model.Conversation(conversation_id=id)
        opened = await call.commit(self.db, work)
        self.changes.tell(call.tenant)
        return opened

    @MEMORY.write(
        "memory_add_message",
        cli=Command("memory add", _CONVERSATION),
        example={**SOME, "role": "user", "content": "My name is An, and I have an appointment on 12/05."},
    )
    async def add_message(self, params: model.AddMessage, call: Call) -> model.Done:
        """Add a message to a conversation; it is stored for good and can be found at once.

        Add a message (role user, assistant or system) to a conversation. Begin one with memory_get_or_create. Send the
        same message_id again after a lost answer: nothing is doubled.
        """
        tenant, conversation, now = call.tenant, params.conversation_id, self.clock()
        message = Message(0, params.message_id or str(uuid.uuid4()), params.role, params.content, params.metadata, now)
        entry = await indexing.prepared(tenant, conversation, message)

        def work(tx: Tx) -> tuple[model.Done, bool]:
            known = store.by_id(tx, tenant, conversation, message.id) if params.message_id else None
            if known is not None:
                return _again(known, message, conversation), False
            place = store.next_place(tx, tenant, conversation, title_of(message.content), now)
            if place is None:
                raise UnknownConversation(conversation_id=conversation)
            store.add(tx, tenant, conversation, replace(message, place=place))
            self.index.put(tx, [entry])
            call.audit(tx, conversation, at=now, message_id=message.id)
            waits = store.wait_for_summary(tx, tenant, conversation, self.settings.summarize_threshold, now)
            return model.Done(status="success", conversation_id=conversation), waits

        try:
            done, waits = await call.commit_with(self.db, work)
        except UniqueViolation:  # somebody sent it at the same moment
            known = await self._read(call, lambda tx: store.by_id(tx, tenant, conversation, message.id))
            if known is None:
                raise
            return _again(known, message, conversation)
        if waits:
            self.on_waiting()
        self.changes.tell(tenant, model.CONVERSATIONS + conversation)
        return done

    @MEMORY.destroy("memory_clear", cli=Command("memory clear", _CONVERSATION, final=True, looks=_READ), example=SOME)
    async def clear(self, params: model.OfConversation, call: Call) -> model.Done:
        """Delete all messages of a conversation and its summary; the conversation stays."""

        def change(tx: Tx, before: Conversation, now: int) -> bool:
            store.empty(tx, self.index, call.tenant, before.id, now)
            return bool(before.messages or before.summary)

        return await self._change(params.conversation_id, call, "cleared", change)

    @MEMORY.destroy("memory_delete", cli=Command("memory delete", _CONVERSATION, final=True, looks=_READ), example=SOME)
    async def delete(self, params: model.OfConversation, call: Call) -> model.Done:
        """Delete a conversation for good."""

        def change(tx: Tx, before: Conversation, now: int) -> bool:
            return store.delete(tx, self.index, call.tenant, before.id, now)

        done = await self._change(params.conversation_id, call, "deleted", change)
        self.changes.tell(call.tenant)
        return done

    @MEMORY.read(
        "memory_get_context",
        cli=Command("memory context", _CONVERSATION),
        example={**SOME, "max_messages": 20},
        text=markdown.messages,
    )
    async def get_context(self, params: model.GetContext, call: Call) -> model.Messages:
        """The newest messages of a conversation; its summary tells of what came before.

        The newest messages of a conversation, for a model's context (6 unless max_messages says more). What came before
        is in memory_get_summary, and found with memory_search.
        """
        limit = params.max_messages or self.settings.keep_recent_messages
        return model.Messages(messages=await self._messages(params.conversation_id, call, limit))

    @MEMORY.read(
        "memory_get_all_messages",
        cli=Command("memory messages", _CONVERSATION),
        example=SOME,
        text=markdown.messages,
    )
    async def get_all_messages(self, params: model.OfConversation, call: Call) -> model.Messages:
        """Every message of a conversation, in order."""
        return model.Messages(messages=await self._messages(params.conversation_id, call, ALL))

    @MEMORY.read("memory_get_old_messages", tool=False, example=SOME, text=markdown.messages)
    async def get_old_messages(self, params: model.OfConversation, call: Call) -> model.OldMessages:
        """The messages before the newest ones."""
        old = await self._messages(params.conversation_id, call, ALL, self.settings.keep_recent_messages)
        return model.OldMessages(messages=old, total_count=len(old))

    @MEMORY.read(
        "memory_search",
        cli=Command("memory search", ("query",), sentence=True),
        example={"query": "appointment in May"},
        text=markdown.hits,
    )
    async def search(self, params: model.SearchMemory, call: Call) -> model.Hits:
        """Find messages by words or meaning, in one conversation or in all.

        Find what was said before, by words or by meaning, in any language: in one conversation or in all of the
        caller's. Each hit has its message id, conversation and time.
        """
        tenant, narrowed = call.tenant, params.conversation_id
        if narrowed is not None:
            await self._read(call, lambda tx: need(tx, tenant, narrowed))
        found = await self.searcher.search(
            SearchFilter(store.SPACE, tenant, (narrowed,) if narrowed else ()),
            params.query,
            limit=params.limit,
            cursor=params.cursor,
            per_key=True,
            timeout=call.remaining(self.settings.timeout),
        )
        places = [(hit.passage.ref.collection, hit.passage.key) for hit in found.hits]
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

    @MEMORY.read("memory_list", cli=Command("memory list"), example={"limit": 20}, text=markdown.conversations)
    async def list_(self, params: model.ListConversations, call: Call) -> model.Conversations:
        """Conversations, the most lately used first."""
        after = paging.place(params.cursor, int, str)
        rows = await self._read(call, lambda tx: store.page(tx, call.tenant, after, params.limit + 1))
        page, more = paging.cut(rows, params.limit, lambda last: [last.updated_at, last.id])
        listed = [model.ListedConversation.model_validate(conversation) for conversation in page]
        return model.Conversations(conversations=listed, next_cursor=more)

    @MEMORY.read(
        "memory_get_summary", cli=Command("memory summary", _CONVERSATION), example=SOME, text=markdown.summary
    )
    async def get_summary(self, params: model.OfConversation, call: Call) -> model.Summary:
        """The summary of a conversation; empty if there is none yet."""
        conversation = await self._read(call, lambda tx: need(tx, call.tenant, params.conversation_id))
        return model.Summary(summary=conversation.summary)

    @MEMORY.read("memory_get_or_create_summary", tool=False, example={**SOME, "language": "vi"}, text=markdown.summary)
    async def get_or_create_summary(self, params: model.GetOrCreateSummary, call: Call) -> model.Summary:
        """The summary of a conversation; empty if it has still to be written."""
        return await self.get_summary(model.OfConversation(conversation_id=params.conversation_id), call)

    @MEMORY.write("memory_set_summary", example={**SOME, "summary": "An has an appointment on 12/05."})
    async def set_summary(self, params: model.SetSummary, call: Call) -> model.Done:
        """Set the summary of a conversation; from then on Kho leaves it alone."""

        def change(tx: Tx, before: Conversation, now: int) -> bool:
            same = (before.summary, before.summary_by) == (params.summary, "client")
            store.set_summary(tx, call.tenant, before.id, params.summary, "client", None, now)
            return not same

        return await self._change(params.conversation_id, call, "success", change)

    async def _messages(self, id: str, call: Call, limit: int, skip: int = 0) -> list[model.Message]:
        def work(tx: Tx) -> list[Message]:
            need(tx, call.tenant, id)
            return store.newest(tx, call.tenant, id, limit, skip)

        return [model.Message.model_validate(message) for message in await self._read(call, work)]

    async def _change(
        self, id: str, call: Call, status: str, change: Callable[[Tx, Conversation, int], bool]
    ) -> model.Done:
        """Changes a conversation; `change` says whether anything is different afterwards."""

        def work(tx: Tx) -> model.Done:
            now = self.clock()
            before = need(tx, call.tenant, id)
            if change(tx, before, now):
                call.audit(tx, id, at=now, messages=before.messages)
            return model.Done(status=status, conversation_id=id)

        done = await call.commit(self.db, work)
        self.changes.tell(call.tenant, model.CONVERSATIONS + id)
        return done

    async def _read(self, call: Call, work: Callable[[Tx], T]) -> T:
        return await self.db.read(work, timeout=call.remaining(self.settings.timeout))


def need(tx: Tx, tenant: str, id: str) -> Conversation:
    conversation = store.get(tx, tenant, id)
    if conversation is None:
        raise UnknownConversation(conversation_id=id)
    return conversation


def title_of(content: str) -> str:
    line = " ".join(content[: 4 * TITLE].split())
    return line if len(line) <= TITLE else line[: TITLE - 1].rstrip() + "…"


def _again(known: Message, message: Message, conversation: str) -> model.Done:
    if (known.role, known.content) != (message.role, message.content):
        raise OtherMessage(field="message_id", message_id=message.id)
    return model.Done(status="success", conversation_id=conversation)
