"""Conversations out and in again, line by line: nothing is lost, and a second import changes nothing."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError
from pydantic_core import PydanticCustomError

from kho.kernel import paging, validation
from kho.kernel.call import Call
from kho.kernel.capability import Changes
from kho.kernel.errors import InvalidParams, about
from kho.kernel.params import Params
from kho.kernel.ports import Database, Tx
from kho.lib.clock import Clock, from_iso, iso
from kho.memory import indexing, model, store
from kho.memory.contract import MEMORY
from kho.memory.service import need, title_of
from kho.memory.settings import MemorySettings
from kho.memory.store import Conversation, Message
from kho.search.indexing.index import Index, Prepared

BEGINNING = -1
"""The place before a conversation's first message, where its own line stands."""


def _time(value: str) -> str:
    try:
        from_iso(value)
    except ValueError:
        raise PydanticCustomError("time", "must be a time such as 2026-07-28T09:00:00Z") from None
    return value


Time = Annotated[str, AfterValidator(_time)]


_SOME_LINE = {
    "type": "message",
    "conversation_id": "chat_1",
    "id": "m1",
    "role": "user",
    "content": "Hello.",
    "created_at": "2026-07-28T09:00:00Z",
}


class Head(Params):
    """The line of a conversation; those of its messages follow."""

    conversation_id: model.ConversationId
    created_at: Time
    updated_at: Time
    summary: str = ""
    summary_by: Literal["kho", "client"] = "kho"
    summary_covers: int = Field(default=0, ge=0)
    """How many of its messages, from the first on."""
    summary_at: Time | None = None
    folded: list[str] = Field(default_factory=list[str])
    """What the summary had to let go of to stay short, the oldest first."""


class Line(Params):
    """A message's line."""

    conversation_id: model.ConversationId
    id: model.Id
    role: model.Role
    content: model.Content
    created_at: Time
    metadata: model.Metadata | None = None


@dataclass(slots=True, kw_only=True)
class Transfer:
    db: Database
    index: Index
    settings: MemorySettings
    changes: Changes
    clock: Clock

    @MEMORY.read("memory_export", tool=False, example={"limit": 100})
    async def export(self, params: model.ExportMemory, call: Call) -> model.Exported:
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
                lines += (_line(current.id, message) for message in shown)
                if len(shown) < len(messages):
                    return lines, paging.encode([current.id, shown[-1].place if shown else at])
                following = None if only is not None else _following(tx, call.tenant, current.id)
                if following is not None and len(lines) >= params.limit:
                    return lines, paging.encode([following.id, BEGINNING])
                current, at = following, BEGINNING
            return lines, None

        lines, more = await self.db.read(work, timeout=call.remaining(self.settings.timeout))
        return model.Exported(lines=lines, next_cursor=more)

    @MEMORY.write("memory_import", tool=False, example={"lines": [_SOME_LINE]})
    async def import_(self, params: model.ImportMemory, call: Call) -> model.Imported:
        """Take what export gave; messages that are here already stay as they are."""
        parsed = [_parsed(number, line) for number, line in enumerate(params.lines, 1)]
        ids = {line.conversation_id for line in parsed}
        entries: dict[int, Prepared] = {}
        for number, line in enumerate(parsed):
            if isinstance(line, Line):
                entries[number] = await indexing.prepared(call.tenant, line.conversation_id, _message(line, 0))

        def work(tx: Tx) -> model.Imported:
            made = taken = known = 0
            for number, line in enumerate(parsed):
                if isinstance(line, Head):
                    made += self._begin(tx, call.tenant, line)
                elif self._add(tx, call.tenant, line, entries[number]):
                    taken += 1
                else:
                    known += 1
            for id in ids:
                store.settle(tx, call.tenant, id)
            if made or taken:
                call.audit(tx, "", at=self.clock(), conversations=made, messages=taken)
            return model.Imported(conversations=made, messages=taken, unchanged=known)

        imported = await call.commit(self.db, work)
        self.changes.tell(call.tenant)
        for id in ids:
            self.changes.tell(call.tenant, model.CONVERSATIONS + id)
        return imported

    def _begin(self, tx: Tx, tenant: str, head: Head) -> bool:
        if not store.create(tx, tenant, head.conversation_id, from_iso(head.created_at)):
            return False
        covered, at = head.summary_covers, head.summary_at
        if head.summary or at or head.summary_by == "client":
            written = from_iso(at or head.updated_at)
            store.set_summary(tx, tenant, head.conversation_id, head.summary, head.summary_by, covered, written)
        for text in head.folded:
            store.fold(tx, tenant, head.conversation_id, text, from_iso(head.updated_at))
        return True

    def _add(self, tx: Tx, tenant: str, line: Line, entry: Prepared) -> bool:
        if store.by_id(tx, tenant, line.conversation_id, line.id) is not None:
            return False
        at = from_iso(line.created_at)
        place = store.next_place(tx, tenant, line.conversation_id, title_of(line.content), at)
        if place is None:
            store.create(tx, tenant, line.conversation_id, at)
            place = store.next_place(tx, tenant, line.conversation_id, title_of(line.content), at)
        assert place is not None
        store.add(tx, tenant, line.conversation_id, _message(line, place))
        self.index.put(tx, [entry])
        return True


def _following(tx: Tx, tenant: str, id: str) -> Conversation | None:
    found = store.by_name(tx, tenant, id, 1)
    return found[0] if found else None


def _head(tx: Tx, tenant: str, conversation: Conversation) -> dict[str, Any]:
    head = Head(
        conversation_id=conversation.id,
        created_at=iso(conversation.created_at),
        updated_at=iso(conversation.updated_at),
        summary=conversation.summary,
        summary_by="client" if conversation.summary_by == "client" else "kho",
        summary_covers=store.count_up_to(tx, tenant, conversation.id, conversation.summarised),
        summary_at=None if conversation.summary_at is None else iso(conversation.summary_at),
        folded=store.folded(tx, tenant, conversation.id),
    )
    return {"type": "conversation", **head.model_dump(mode="json")}


def _line(conversation: str, message: Message) -> dict[str, Any]:
    line = Line(
        conversation_id=conversation,
        id=message.id,
        role=message.role,  # pyright: ignore[reportArgumentType] (it was checked when it was written)
        content=message.content,
        created_at=iso(message.created_at),
        metadata=message.metadata,
    )
    return {"type": "message", **line.model_dump(mode="json", exclude_none=True)}


def _message(line: Line, place: int) -> Message:
    return Message(place, line.id, line.role, line.content, line.metadata, from_iso(line.created_at))


def _parsed(number: int, line: dict[str, Any]) -> Head | Line:
    kinds: dict[str, type[Head] | type[Line]] = {"conversation": Head, "message": Line}
    rest = {name: value for name, value in line.items() if name != "type"}
    kind = kinds.get(str(line.get("type")))
    if kind is None:
        raise InvalidParams(f"Line {number}: 'type' must be conversation or message.", field=f"lines.{number - 1}.type")
    try:
        return kind.model_validate(rest)
    except ValidationError as failure:
        first = validation.found(failure)[0]
        said = about(f"'{first.field}'", first.message)
        raise InvalidParams(f"Line {number}: {said}", field=f"lines.{number - 1}.{first.field}") from None
