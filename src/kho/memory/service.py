"""Operations on conversations, and their rules."""

import uuid
from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate
from typing import Any, TypeVar

from kho.kernel import paging
from kho.kernel.call import Call, until
from kho.kernel.capability import Changes
from kho.kernel.command import Command
from kho.kernel.errors import InvalidParams, UniqueViolation
from kho.kernel.ports import Database, SearchFilter, Tx
from kho.kernel.validation import check_period
from kho.lib.clock import Clock
from kho.lib.dataclass import dataclass
from kho.memory import attribution, indexing, markdown, model, store
from kho.memory.contract import MEMORY, SOME
from kho.memory.errors import OtherMessage, UnknownConversation
from kho.memory.settings import MemorySettings
from kho.memory.store import Conversation, Labels, Message
from kho.search.answer.highlight import snippet
from kho.search.indexing.index import Index, Prepared, prepare
from kho.search.query.searcher import Searcher
from kho.search.query.speakers import speaker_tag

T = TypeVar("T")

TITLE = 80
"""Maximum length of a conversation's title in characters."""
NOTHING_ASKED = "'query' must not be empty, unless a speaker or a time is given."
ALL = 1_000_000
"""Limit that stands for "all messages": larger than any conversation."""


_GROUP = "Conversations: messages, and a summary that is kept up to date."
_READ: tuple[str, dict[str, Any]] = ("memory/get_summary", {})
_CONVERSATION = ("conversation_id",)


def _nobody_waits() -> None:
    return None


@dataclass(slots=True, kw_only=True)
class MemoryService:
    db: Database
    index: Index
    searcher: Searcher
    clock: Clock
    settings: MemorySettings
    changes: Changes
    on_waiting: Callable[[], None] = _nobody_waits
    """Called when a conversation becomes due for a summary."""

    @MEMORY.write(
        "memory_get_or_create",
        title="Open a conversation",
        cli=Command("memory open", _CONVERSATION, group=_GROUP),
        example=SOME,
    )
    async def get_or_create(self, params: model.GetOrCreate, call: Call) -> model.OpenConversation:
        """Open a conversation, or begin one.

        Call it before the first message of a chat, to give it labels: begins the conversation, or opens it. Labels that
        are given replace those that it has.
        """
        id, given = params.conversation_id or f"chat_{uuid.uuid4()}", params.labels

        def work(tx: Tx) -> model.OpenConversation:
            now = self.clock()
            if store.create(tx, call.tenant, id, now, given):
                call.audit(tx, id, at=now)
            else:
                before = need(tx, call.tenant, id).labels
                if (after := given.over(before)) != before:
                    self._label(tx, call.tenant, id, after)
                    call.audit(tx, id, at=now, labels=after.given())
            return model.OpenConversation(conversation_id=id)

        known = await self._read(call, lambda tx: store.get(tx, call.tenant, id)) if params.conversation_id else None
        if known is not None and given.over(known.labels) == known.labels:
            return model.OpenConversation(conversation_id=id)
        opened = await call.commit(self.db, work)
        self.changes.tell(call.tenant)
        return opened

    @MEMORY.write(
        "memory_add_message",
        title="Add a message",
        toolset="default",
        explained=("at",),
        cli=Command("memory add", _CONVERSATION),
        example={**SOME, "role": "user", "content": "My name is An, and I have an appointment on 12/05."},
    )
    async def add_message(self, params: model.AddMessage, call: Call) -> model.Done:
        """Add a message to a conversation; it is stored for good and can be found at once.

        Keep what was said in a chat, so that it can be continued later or by another assistant. A conversation that is
        new begins with it. A repeated message_id is stored once.
        """
        tenant, conversation, now = call.tenant, params.conversation_id, self.clock()
        id = params.message_id or str(uuid.uuid4())
        message = Message(place=0, id=id, created_at=now, **params.stored())
        entry = await indexing.prepared(self.index, tenant, conversation, message)
        done = model.Done(status="success", conversation_id=conversation)

        def work(tx: Tx) -> tuple[model.Done, tuple[bool, bool]]:
            known = store.by_id(tx, tenant, conversation, message.id) if params.message_id else None
            if known is not None:
                return _again(known, message, done), (False, False)
            place, labels, opened = store.place_for(
                tx, tenant, conversation, title_of(message.content), now, params.labels
            )
            if (wanted := labels.over(params.labels)) != labels:
                self._label(tx, tenant, conversation, wanted)
            stored = replace(message, place=place)
            store.add(tx, tenant, conversation, stored)
            self.index.put(tx, [indexing.placed(tx, entry, stored, wanted)])
            call.audit(tx, conversation, at=now, message_id=message.id)
            waits = store.wait_for_summary(tx, tenant, conversation, self.settings.summarize_threshold, now)
            return done, (waits, opened)

        try:
            done, (waits, opened) = await call.commit_with(self.db, work)
        except UniqueViolation:  # another request stored the same message_id concurrently
            known = await self._read(call, lambda tx: store.by_id(tx, tenant, conversation, message.id))
            if known is None:
                raise
            return _again(known, message, done)
        if waits:
            self.on_waiting()
        if opened:
            self.changes.tell(tenant)
        self.changes.tell(tenant, model.uri(conversation))
        return done

    @MEMORY.destroy(
        "memory_clear",
        title="Clear a conversation",
        cli=Command("memory clear", _CONVERSATION, final=True, looks=_READ),
        example=SOME,
    )
    async def clear(self, params: model.DeleteConversation, call: Call) -> model.Done:
        """Delete all messages of a conversation and its summary; the conversation stays.

        Use it when a user wants a chat emptied but kept: deletes all messages of a conversation and its summary for
        good.
        """

        def change(tx: Tx, before: Conversation, now: int) -> bool:
            store.empty(tx, self.index, call.tenant, before.id, now)
            return bool(before.messages or before.summary)

        return await self._change(params.conversation_id, call, "cleared", change, params.reason)

    @MEMORY.destroy(
        "memory_delete",
        title="Delete a conversation",
        cli=Command("memory delete", _CONVERSATION, final=True, looks=_READ),
        example=SOME,
    )
    async def delete(self, params: model.DeleteConversation, call: Call) -> model.Done:
        """Delete a conversation for good.

        Use it when a user wants a chat gone: deletes a conversation with all its messages for good.
        """

        def change(tx: Tx, before: Conversation, now: int) -> bool:
            return store.delete(tx, self.index, call.tenant, before.id, now)

        done = await self._change(params.conversation_id, call, "deleted", change, params.reason)
        self.changes.tell(call.tenant)
        return done

    @MEMORY.read(
        "memory_get_context",
        rpc="memory/context",
        title="Read where a conversation stands",
        toolset="default",
        explained=("max_characters",),
        cli=Command("memory context", _CONVERSATION),
        example={**SOME, "max_messages": 20},
        text=markdown.context,
    )
    async def context(self, params: model.ReadContext, call: Call) -> model.ConversationContext:
        """The summary of a conversation and the messages after it, for a model's context.

        Call it before you continue a conversation: its summary and the messages that it does not cover. `uncovered`
        counts those in neither; memory_search finds them.
        """

        def work(tx: Tx) -> model.ConversationContext:
            one = need(tx, call.tenant, params.conversation_id)
            after = store.count_after(tx, call.tenant, one.id, one.summarised)
            limit = min(max(after, self.settings.keep_recent_messages), params.max_messages)
            messages = _within(store.newest(tx, call.tenant, one.id, limit), params.max_characters)
            return model.ConversationContext(
                messages=[_for_model(message, params.details) for message in messages],
                summary=one.summary,
                uncovered=max(0, after - len(messages)),
            )

        return await self._read(call, work)

    @MEMORY.read("memory_get_context", tool=False, action=False, example={**SOME, "max_messages": 20})
    async def get_context(self, params: model.GetContext, call: Call) -> model.ContextMessages:
        """The newest messages of a conversation, six unless max_messages says more: as contract 002 prints it."""
        limit = params.max_messages or self.settings.keep_recent_messages

        def work(tx: Tx) -> list[Message]:
            need(tx, call.tenant, params.conversation_id)
            return store.newest(tx, call.tenant, params.conversation_id, limit)

        return model.ContextMessages(
            messages=[_for_model(one, params.details, only_two=True) for one in await self._read(call, work)]
        )

    @MEMORY.read(
        "memory_get_all_messages",
        title="Read a whole conversation",
        cli=Command("memory messages", _CONVERSATION),
        example=SOME,
        text=markdown.messages,
    )
    async def get_all_messages(self, params: model.OfConversation, call: Call) -> model.Messages:
        """Every message of a conversation, in order.

        Use it to quote or check what was said word for word; memory_get_context is shorter.
        """
        return model.Messages(messages=await self._messages(params.conversation_id, call, ALL))

    @MEMORY.read("memory_get_old_messages", tool=False, example=SOME, text=markdown.messages)
    async def get_old_messages(self, params: model.OfConversation, call: Call) -> model.OldMessages:
        """The messages before the newest ones."""
        old = await self._messages(params.conversation_id, call, ALL, self.settings.keep_recent_messages)
        return model.OldMessages(messages=old, total_count=len(old))

    @MEMORY.read(
        "memory_search",
        title="Search conversations",
        toolset="default",
        explained=("speaker", "since", "until"),
        cli=Command("memory search", ("query",), sentence=True),
        example={"query": "appointment in May"},
        text=markdown.hits,
    )
    async def search(self, params: model.SearchMemory, call: Call) -> model.Hits:
        """Find messages by words or meaning, by who said them and when, in one conversation or in all.

        Find what was said in conversations, by words or meaning, in any language; in one conversation or all. With
        speaker, since or until: all that matches.
        """
        check_period(params.since, params.until)
        explicit = not params.speaker == params.since == params.until == None  # noqa: E711 (0 is a time)
        if not explicit and not params.query.strip():
            raise InvalidParams(NOTHING_ASKED, field="query")
        tenant, narrowed = call.tenant, params.conversation_id
        if narrowed is not None:
            await self._read(call, lambda tx: need(tx, tenant, narrowed))
        left = until(call.remaining(self.settings.timeout))
        where = SearchFilter(
            store.SPACE,
            tenant,
            (narrowed,) if narrowed else (),
            tags=params.labels.tags,
            since=params.since,
            until=params.until,
        )
        if params.speaker:
            meant = await self.searcher.conversations.speaker(where, params.speaker, left)
            if meant.name is None:
                return model.Hits(results=[], total=0, notes=[meant.note])
            where = replace(where, tags=(*where.tags, speaker_tag(meant.name)))
        found = await self.searcher.search(
            where,
            params.query.strip(),
            limit=params.limit,
            cursor=params.cursor,
            per_key=True,
            complete=explicit,
            timeout=left(),
        )
        places = [(hit.passage.ref.collection, hit.passage.key) for hit in found.hits]
        messages = await self._read(call, lambda tx: store.by_ids(tx, tenant, places))
        hits = [
            model.MessageHit.of(
                message,
                conversation_id=place[0],
                message_id=message.id,
                speaker=attribution.speaker(message),
                at=attribution.said_at(message),
                score=round(hit.score, 4),
                highlights=[snippet(hit.passage.text, params.query)[0]],
            )
            for hit, place in zip(found.hits, places, strict=True)
            if (message := messages.get(place)) is not None
        ]
        return model.Hits(results=hits, total=found.total, next_cursor=found.cursor, notes=[*found.notes] or None)

    @MEMORY.read(
        "memory_list",
        title="List conversations",
        cli=Command("memory list"),
        example={"limit": 20},
        text=markdown.conversations,
    )
    async def list_(self, params: model.ListConversations, call: Call) -> model.Conversations:
        """Conversations, the most recently used first.

        Use it to find a conversation's id: the most recently used first.
        """
        after = paging.place(params.cursor, int, str)
        rows = await self._read(call, lambda tx: store.page(tx, call.tenant, after, params.limit + 1, params.labels))
        page, more = paging.cut(rows, params.limit, lambda last: [last.updated_at, last.id])
        return model.Conversations(conversations=list(map(_listed, page)), next_cursor=more)

    @MEMORY.read(
        "memory_get_summary",
        title="Read a summary",
        cli=Command("memory summary", _CONVERSATION),
        example=SOME,
        text=markdown.summary,
    )
    async def get_summary(self, params: model.OfConversation, call: Call) -> model.Summary:
        """The summary of a conversation; empty if there is none yet.

        Use it to catch up on the part of a conversation that memory_get_context leaves out; empty if there is none yet.
        """
        conversation = await self._read(call, lambda tx: need(tx, call.tenant, params.conversation_id))
        return model.Summary(summary=conversation.summary)

    @MEMORY.read("memory_get_or_create_summary", tool=False, example={**SOME, "language": "vi"}, text=markdown.summary)
    async def get_or_create_summary(self, params: model.GetOrCreateSummary, call: Call) -> model.Summary:
        """The summary of a conversation; empty if it has still to be written."""
        return await self.get_summary(model.OfConversation(conversation_id=params.conversation_id), call)

    @MEMORY.write(
        "memory_set_summary", title="Write a summary", example={**SOME, "summary": "An has an appointment on 12/05."}
    )
    async def set_summary(self, params: model.SetSummary, call: Call) -> model.Done:
        """Set the summary of a conversation; from then on Kho leaves it alone.

        Use it to replace the summary that Kho wrote by your own; from then on Kho leaves it alone.
        """

        def change(tx: Tx, before: Conversation, now: int) -> bool:
            same = (before.summary, before.summary_by) == (params.summary, "client")
            store.set_summary(tx, call.tenant, before.id, params.summary, "client", None, now)
            return not same

        return await self._change(params.conversation_id, call, "success", change)

    def _label(self, tx: Tx, tenant: str, id: str, labels: Labels) -> None:
        def prepared(message: Message, before: str) -> Prepared:
            return prepare(indexing.document(tenant, id, message, labels, before))

        store.label(tx, self.index, tenant, id, labels, prepared)

    async def _messages(self, id: str, call: Call, limit: int, skip: int = 0) -> list[model.MessageEntry]:
        def work(tx: Tx) -> list[Message]:
            need(tx, call.tenant, id)
            return store.newest(tx, call.tenant, id, limit, skip)

        return [model.MessageEntry.model_validate(message) for message in await self._read(call, work)]

    async def _change(
        self, id: str, call: Call, status: str, change: Callable[[Tx, Conversation, int], bool], reason: str = ""
    ) -> model.Done:
        """Run `change` on a conversation in a transaction; audited only if it returns True (something changed)."""

        def work(tx: Tx) -> model.Done:
            now = self.clock()
            before = need(tx, call.tenant, id)
            if change(tx, before, now):
                call.audit(tx, id, at=now, reason=reason, messages=before.messages)
            return model.Done(status=status, conversation_id=id)

        done = await call.commit(self.db, work)
        self.changes.tell(call.tenant, model.uri(id))
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


def _listed(conversation: Conversation) -> model.ListedConversation:
    return model.ListedConversation.of(
        conversation,
        conversation_id=conversation.id,
        message_count=conversation.messages,
        has_summary=bool(conversation.summary),
        last_activity=conversation.updated_at,
    )


def _within(messages: list[Message], characters: int) -> list[Message]:
    """Return the last of them that have at most so many characters together."""
    lengths = accumulate(len(message.content) for message in reversed(messages))
    count = sum(1 for length in lengths if length <= characters)
    return messages[len(messages) - count :]


def _for_model(message: Message, details: bool, *, only_two: bool = False) -> model.ContextMessage:
    if details:
        return model.ContextMessage.model_validate(message)
    speaker = None if only_two else message.speaker
    return model.ContextMessage(role=message.role, content=message.content, speaker=speaker)


def _again(known: Message, message: Message, done: model.Done) -> model.Done:
    if (known.role, known.content) != (message.role, message.content):
        raise OtherMessage(field="message_id", message_id=message.id)
    return done
