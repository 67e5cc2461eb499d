"""Params and results of the conversation operations."""

from typing import Annotated, Any, Literal
from urllib.parse import quote

import orjson
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, JsonValue
from pydantic_core import PydanticCustomError

from kho.kernel.params import TIME_FORM, ForeignId, Moment, Params, Reason, Result, Time, Whole
from kho.lib.clock import ahead_of_utc, from_iso
from kho.memory.store import Labels

MAX_CONTENT = 256 * 1024
"""Maximum size of a message in bytes."""
MAX_METADATA = 16 * 1024
MAX_SUMMARY = 1_000_000

CONVERSATIONS = "memory://conversation/"
"""URI prefix of conversations."""

Role = Literal["user", "assistant", "system", "tool"]


def uri(conversation: str) -> str:
    """The resource of a conversation. What an id may have and a URI may not is percent-encoded."""
    return CONVERSATIONS + quote(conversation, safe="/:")


def _content(value: str) -> str:
    if not value.strip():
        raise PydanticCustomError("blank", "must not be empty")
    if len(value) > MAX_CONTENT or len(value.encode("utf-8", "surrogatepass")) > MAX_CONTENT:
        raise PydanticCustomError("too_long", "must be at most 256 KiB; send a long text in several messages")
    return value


def _metadata(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    if len(orjson.dumps(value)) > MAX_METADATA:
        raise PydanticCustomError("too_long", "must be at most 16 KiB of JSON")
    return value


def _said_at(value: Any) -> str:
    try:
        from_iso(value)
    except (TypeError, ValueError):
        raise PydanticCustomError("time", TIME_FORM) from None
    return value


SaidAt = Annotated[str, BeforeValidator(_said_at)]
"""A time in ISO 8601, kept as it was written: its offset says on which day it was where it was said."""
ConversationId = Annotated[ForeignId, Field(description="The conversation.")]
Content = Annotated[str, AfterValidator(_content)]
Metadata = Annotated[dict[str, JsonValue], AfterValidator(_metadata)]
Page = Annotated[int, Field(ge=1, le=200), Whole]
Cursor = Annotated[str, Field(max_length=2_000)]
_CURSOR = "The next_cursor of the previous page."


class Labelled(Params):
    """Labels of a conversation, to set or to filter by."""

    user_id: Annotated[
        ForeignId | None,
        Field(description="Who the conversation is with. A label to filter by; it protects nothing."),
    ] = None
    agent_id: Annotated[
        ForeignId | None, Field(description="Which agent holds it. A label to filter by; it protects nothing.")
    ] = None

    @property
    def labels(self) -> Labels:
        return Labels(self.user_id, self.agent_id)


class GetOrCreate(Labelled):
    conversation_id: Annotated[
        ForeignId | None, Field(description="Left out or null: a new conversation with a new id.")
    ] = None


class OfConversation(Params):
    conversation_id: ConversationId


class DeleteConversation(OfConversation):
    """The conversation to delete or to clear."""

    reason: Reason = ""


Details = Annotated[bool, Field(description="Also the id, times, speaker and metadata of each message.")]


class GetContext(OfConversation):
    max_messages: Annotated[
        Annotated[int, Field(ge=1, le=10_000), Whole] | None,
        Field(description="How many of the newest messages; left out: the number in the settings (6)."),
    ] = None
    details: Details = False


class ReadContext(OfConversation):
    max_messages: Annotated[
        Annotated[int, Field(ge=1, le=10_000), Whole], Field(description="At most so many messages, the newest.")
    ] = 100
    max_characters: Annotated[
        Annotated[int, Field(ge=1, le=1_000_000), Whole],
        Field(description="At most so many characters of messages; the summary comes on top."),
    ] = 40_000
    details: Details = False


class Turn(Params):
    """A message as a client sends it back; other fields are ignored."""

    model_config = ConfigDict(extra="ignore", defer_build=True)

    role: str
    content: str


class GetOrCreateSummary(OfConversation):
    old_messages: Annotated[list[Turn] | None, Field(description="Accepted and not used: Kho has the messages.")] = None
    language: Annotated[
        str | None, Field(max_length=35, description="Accepted and not used: it is that of the messages.")
    ] = None


class SetSummary(OfConversation):
    summary: Annotated[
        str, Field(max_length=MAX_SUMMARY, description="The whole summary; it replaces the previous one.")
    ]
    compress: Annotated[bool | None, Field(description="Accepted but without effect: no message is deleted.")] = None


class WrittenMessage(OfConversation):
    """Fields of a message that is added or imported. A new field goes here, into the row (`store.Message`), its table
    and `MessageEntry`."""

    role: Annotated[Role, Field(description="Who says it.")]
    content: Annotated[Content, Field(description="The text; at most 256 KiB.")]
    metadata: Annotated[Metadata | None, Field(description="Any further data, as a JSON object.")] = None
    speaker: Annotated[ForeignId | None, Field(description="Name or id of who says it, in a group.")] = None
    at: Annotated[
        SaidAt | None,
        Field(description="When it was said, if not now: 2025-09-16T10:00:00+07:00."),
    ] = None

    def stored(self) -> dict[str, Any]:
        taken = {name: getattr(self, name) for name in WrittenMessage.model_fields if name != "conversation_id"}
        if self.at is None:
            return taken
        return {**taken, "at": from_iso(self.at), "at_offset": ahead_of_utc(self.at)}


class AddMessage(WrittenMessage, Labelled):
    message_id: Annotated[
        ForeignId | None, Field(description="An id of your own: sending it again does not store the message twice.")
    ] = None


class ListResources(Params):
    cursor: Annotated[Cursor | None, Field(description="The nextCursor of the previous page.")] = None


class ReadResource(Params):
    uri: Annotated[str, Field(max_length=4_000, description="memory://conversation/{id}")]


class SearchMemory(Labelled):
    query: Annotated[
        str,
        Field(
            max_length=10_000,
            description="Words, a question or a sentence, in any language. Left out: all, in the order of time.",
        ),
    ] = ""
    conversation_id: Annotated[
        ForeignId | None, Field(description="Only in this conversation; else in all of yours.")
    ] = None
    speaker: Annotated[ForeignId | None, Field(description="Only what this person or role said.")] = None
    since: Annotated[
        Moment | None,
        Field(description="Only what was said from then on: 2026-03-16 or a time."),
    ] = None
    until: Annotated[Moment | None, Field(description="Only what was said before then.")] = None
    limit: Annotated[Page, Field(description="How many.")] = 10
    cursor: Annotated[Cursor | None, Field(description=_CURSOR)] = None


class ListConversations(Labelled):
    limit: Annotated[Page, Field(description="How many, the most recently used first.")] = 50
    cursor: Annotated[Cursor | None, Field(description=_CURSOR)] = None


class ExportMemory(Params):
    conversation_id: Annotated[ForeignId | None, Field(description="Only this conversation; else all of yours.")] = None
    limit: Annotated[Annotated[int, Field(ge=1, le=1_000), Whole], Field(description="How many lines on a page.")] = 500
    cursor: Annotated[Cursor | None, Field(description=_CURSOR)] = None


class ImportMemory(Params):
    lines: Annotated[
        list[dict[str, JsonValue]], Field(min_length=1, max_length=1_000, description="The lines of an export.")
    ]


class OpenConversation(Result):
    conversation_id: str


class Done(Result):
    status: str
    conversation_id: str


class MessageEntry(Result):
    """A message: role, content, id, time and metadata."""

    role: str
    content: str
    id: str
    created_at: Time
    metadata: dict[str, JsonValue] | None = None
    speaker: str | None = None
    at: Time | None = None


class Messages(Result):
    messages: list[MessageEntry]


class ContextMessage(Result):
    """A message for a model: the contract's two, and the rest if it was asked for."""

    role: str
    content: str
    speaker: str | None = None
    id: str | None = None
    created_at: Time | None = None
    at: Time | None = None
    metadata: dict[str, JsonValue] | None = None


class ContextMessages(Result):
    messages: list[ContextMessage]


class ConversationContext(ContextMessages):
    summary: str = Field(description="Empty if there is none.")
    uncovered: int = Field(description="Messages that are neither here nor in the summary.")


class OldMessages(Messages):
    total_count: int


class Summary(Result):
    summary: str = Field(description="Empty if there is none.")


class Shown(Result):
    uri: str
    name: str
    description: str
    mimeType: str = "application/json"


class Resources(Result):
    resources: list[Shown]
    nextCursor: str | None = None


class Held(Result):
    uri: str
    mimeType: str = "application/json"
    text: str


class Contents(Result):
    contents: list[Held]


class MessageHit(Result):
    conversation_id: str
    message_id: str
    role: str
    content: str
    created_at: Time
    speaker: str | None = None
    at: Time | None = None
    score: float
    highlights: list[str] | None = None


class Hits(Result):
    results: list[MessageHit]
    total: int
    next_cursor: str | None = None
    notes: list[str] | None = None


class ListedConversation(Result):
    conversation_id: str
    title: str
    user_id: str | None = None
    agent_id: str | None = None
    message_count: int
    has_summary: bool
    created_at: Time
    last_activity: Time


class Conversations(Result):
    conversations: list[ListedConversation]
    next_cursor: str | None = None


class ImportedConversations(Result):
    status: str = "success"
    conversations: int
    messages: int
    unchanged: int = Field(description="Messages that were there already.")
