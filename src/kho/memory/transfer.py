"""Export and import of conversations as JSON lines: lossless, and importing twice changes nothing."""

from typing import Annotated, Any, Literal

from pydantic import Field

from kho.kernel import paging, transfer
from kho.kernel.call import Call
from kho.kernel.capability import Changes
from kho.kernel.errors import InvalidParams
from kho.kernel.params import ForeignId, Moment
from kho.kernel.ports import Database, Tx
from kho.kernel.transfer import ExportedLines, Line
from kho.lib.clock import Clock, iso_there
from kho.lib.dataclass import dataclass
from kho.memory import indexing, model, store
from kho.memory.contract import MEMORY
from kho.memory.service import need, title_of
from kho.memory.settings import MemorySettings
from kho.memory.store import Conversation, Labels, Message
from kho.search.indexing.index import Index, Prepared

BEGINNING = -1
"""Cursor place before a conversation's first message: its own line comes next."""


_SOME_LINE = {
    "type": "message",
    "conversation_id": "chat_1",
    "id": "m1",
    "role": "user",
    "content": "Hello.",
    "created_at": "2026-07-28T09:00:00Z",
}


class ConversationLine(Line):
    """Export line of a conversation; the lines of its messages follow."""

    with_nulls = True
    type: Literal["conversation"] = "conversation"
    conversation_id: model.ConversationId
    created_at: Moment
    updated_at: Moment
    user_id: ForeignId | None = None
    agent_id: ForeignId | None = None
    title: Annotated[str, Field(max_length=1_000)] | None = None
    """Left out: the beginning of the first message."""
    summary: str = ""
    summary_by: Literal["kho", "client"] = "kho"
    summary_covers: int = Field(default=0, ge=0)
    """Number of messages, counted from the first, that the summary covers."""
    summary_at: Moment | None = None
    folded: list[str] = Field(default_factory=list[str])
    """Full text of the paragraphs that were condensed to keep the summary short, oldest first."""


class MessageLine(model.WrittenMessage, Line):
    type: Literal["message"] = "message"
    id: ForeignId
    created_at: Moment


KINDS: dict[str, type[ConversationLine] | type[MessageLine]] = {
    "conversation": ConversationLine,
    "message": MessageLine,
}


@dataclass(slots=True, kw_only=True)
class MemoryTransfer:
    db: Database
    index: Index
    settings: MemorySettings
    changes: Changes
    clock: Clock

    @MEMORY.read("memory_export", tool=False, example={"limit": 100})
    async def export(self, params: model.ExportMemory, call: Call) -> ExportedLines:
        """Conversations, a page at a time, in the form that import takes."""
        id, place = paging.place(params.cursor, str, int) or ("", BEGINNING)
        only = params.conversation_id

        def work(tx: Tx) -> tuple[list[dict[str, Any]], str | None]:
            lines: list[dict[str, Any]] = []
            current = store.get(tx, call.tenant, only or id) if only or id else None
            if only is not None:
                need(tx, call.tenant, only)
            elif current is None:
                current = _following(tx, call.tenant, id)
            at = place
            while current is not None:
                if at == BEGINNING:
                    lines.append(_head(tx, call.tenant, current))
                    at = 0
                messages = store.between(tx, call.tenant, current.id, at, params.limit - len(lines) + 1)
                shown = messages[: max(0, params.limit - len(lines))]
                lines += (_line(message, current.id) for message in shown)
                if len(shown) < len(messages):
                    return lines, paging.encode([current.id, shown[-1].place if shown else at])
                following = None if only is not None else _following(tx, call.tenant, current.id)
                if following is not None and len(lines) >= params.limit:
                    return lines, paging.encode([following.id, BEGINNING])
                current, at = following, BEGINNING
            return lines, None

        lines, more = await self.db.read(work, timeout=call.remaining(self.settings.timeout))
        return ExportedLines(lines=lines, next_cursor=more)

    @MEMORY.write("memory_import", tool=False, example={"lines": [_SOME_LINE]})
    async def import_(self, params: model.ImportMemory, call: Call) -> model.ImportedConversations:
        """Take what export gave; messages that are here already stay as they are."""
        parsed = transfer.parsed(params.lines, KINDS, _refused, by="type")
        ids = {line.conversation_id for line in parsed}
        entries: dict[int, Prepared] = {}
        for number, line in enumerate(parsed):
            if isinstance(line, MessageLine):
                message, conversation = _message(line, 0), line.conversation_id
                entries[number] = await indexing.prepared(self.index, call.tenant, conversation, message)

        def work(tx: Tx) -> model.ImportedConversations:
            made = taken = known = 0
            for number, line in enumerate(parsed):
                if isinstance(line, ConversationLine):
                    made += self._begin(tx, call.tenant, line)
                elif self._add(tx, call.tenant, line, entries[number]):
                    taken += 1
                else:
                    known += 1
            if made or taken:
                call.audit(tx, "", at=self.clock(), conversations=made, messages=taken)
            return model.ImportedConversations(conversations=made, messages=taken, unchanged=known)

        imported = await call.commit(self.db, work)
        self.changes.tell(call.tenant)
        for id in ids:
            self.changes.tell(call.tenant, model.uri(id))
        return imported

    def _begin(self, tx: Tx, tenant: str, head: ConversationLine) -> bool:
        labels, used = Labels(head.user_id, head.agent_id), head.updated_at
        if not store.create(tx, tenant, head.conversation_id, head.created_at, labels, head.title or "", used):
            return False
        covered, at = head.summary_covers, head.summary_at
        if head.summary or at or head.summary_by == "client":
            written = at or head.updated_at
            store.set_summary(tx, tenant, head.conversation_id, head.summary, head.summary_by, covered, written)
        for text in head.folded:
            store.fold(tx, tenant, head.conversation_id, text, head.updated_at)
        return True

    def _add(self, tx: Tx, tenant: str, line: MessageLine, entry: Prepared) -> bool:
        if store.by_id(tx, tenant, line.conversation_id, line.id) is not None:
            return False
        at = line.created_at
        place, labels, _ = store.place_for(tx, tenant, line.conversation_id, title_of(line.content), at)
        message = _message(line, place)
        store.add(tx, tenant, line.conversation_id, message)
        self.index.put(tx, [indexing.placed(tx, entry, message, labels)])
        return True


def _following(tx: Tx, tenant: str, id: str) -> Conversation | None:
    found = store.by_name(tx, tenant, id, 1)
    return found[0] if found else None


def _head(tx: Tx, tenant: str, conversation: Conversation) -> dict[str, Any]:
    return ConversationLine.of(
        conversation,
        conversation_id=conversation.id,
        summary_by="client" if conversation.summary_by == "client" else "kho",
        summary_covers=store.count_up_to(tx, tenant, conversation.id, conversation.summarised),
        folded=store.folded(tx, tenant, conversation.id),
    )


def _message(line: MessageLine, place: int) -> Message:
    return Message(place=place, id=line.id, created_at=line.created_at, **line.stored())


def _line(message: Message, conversation: str) -> dict[str, Any]:
    said_at = None if message.at is None else iso_there(message.at, message.at_offset)
    return MessageLine.of(message, conversation_id=conversation, at=said_at)


def _refused(message: str, field: str) -> InvalidParams:
    return InvalidParams(message, field=f"lines.{field}")
