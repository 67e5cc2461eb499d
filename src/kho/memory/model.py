"""What goes in and out of the operations on conversations."""

from typing import Annotated, Any, Literal

import orjson
from pydantic import AfterValidator, AliasChoices, BeforeValidator, ConfigDict, Field, JsonValue
from pydantic_core import PydanticCustomError

from kho.kernel.params import Id, Params, Result, Time, Whole

MAX_CONTENT = 256 * 1024
"""Bytes of a message."""
MAX_METADATA = 16 * 1024
MAX_SUMMARY = 1_000_000

CONVERSATIONS = "memory://conversation/"
"""What the URIs of conversations begin with."""

Role = Literal["user", "assistant", "system"]


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


ConversationId = Annotated[Id, Field(description="The conversation.")]
Content = Annotated[str, AfterValidator(_content)]
Metadata = Annotated[dict[str, JsonValue], AfterValidator(_metadata)]
Page = Annotated[int, Field(ge=1, le=200), Whole]
Cursor = Annotated[str, Field(max_length=2_000)]
_CURSOR = "The next_cursor of the page before."


class GetOrCreate(Params):
    conversation_id: Annotated[Id | None, Field(description="Left out or null: a new one gets an id.")] = None


class OfConversation(Params):
    conversation_id: ConversationId


class GetContext(OfConversation):
    max_messages: Annotated[
        Annotated[int, Field(ge=1, le=10_000), Whole] | None,
        Field(description="How many of the newest messages; left out, as many as the settings say (6)."),
    ] = None


class Turn(Params):
    """A message as a client hands it back; what else it carries does not matter."""

    model_config = ConfigDict(extra="ignore", defer_build=True)

    role: str
    content: str


class GetOrCreateSummary(OfConversation):
    old_messages: Annotated[
        list[Turn] | None, Field(description="Accepted for compatibility: Kho has the messages.")
    ] = None
    language: Annotated[str | None, Field(max_length=35, description="Accepted for compatibility: vi, en …")] = None


class SetSummary(OfConversation):
    summary: Annotated[str, Field(max_length=MAX_SUMMARY, description="The whole summary, in place of the one before.")]
    compress: Annotated[bool | None, Field(description="Accepted and without effect: no message is deleted.")] = None


class AddMessage(OfConversation):
    role: Annotated[Role, Field(description="Who says it.")]
    content: Annotated[Content, Field(description="What is said; at most 256 KiB.")]
    message_id: Annotated[
        Id | None, Field(description="An id of your own: sent again with it, the message is not doubled.")
    ] = None
    metadata: Annotated[Metadata | None, Field(description="Anything that belongs to it, as a JSON object.")] = None


class ListResources(Params):
    cursor: Annotated[Cursor | None, Field(description="The nextCursor of the page before.")] = None


class ReadResource(Params):
    uri: Annotated[str, Field(max_length=500, description="memory://conversation/{id}")]


class SearchMemory(Params):
    query: Annotated[
        str,
        Field(max_length=10_000, description="Words, a question or a sentence, in any language."),
        AfterValidator(lambda value: _content(value)),
    ]
    conversation_id: Annotated[Id | None, Field(description="Only in this conversation; else in all of yours.")] = None
    limit: Annotated[Page, Field(description="How many.")] = 10
    cursor: Annotated[Cursor | None, Field(description=_CURSOR)] = None


class ListConversations(Params):
    limit: Annotated[Page, Field(description="How many, the most lately used first.")] = 50
    cursor: Annotated[Cursor | None, Field(description=_CURSOR)] = None


class ExportMemory(Params):
    conversation_id: Annotated[Id | None, Field(description="Only this conversation; else all of yours.")] = None
    limit: Annotated[Annotated[int, Field(ge=1, le=1_000), Whole], Field(description="How many lines on a page.")] = 500
    cursor: Annotated[Cursor | None, Field(description=_CURSOR)] = None


class ImportMemory(Params):
    lines: Annotated[
        list[dict[str, JsonValue]], Field(min_length=1, max_length=1_000, description="What export gave, line by line.")
    ]


class Conversation(Result):
    conversation_id: str


class Done(Result):
    status: str
    conversation_id: str


class Message(Result):
    """The contract's two, and what else is known of it."""

    role: str
    content: str
    id: str
    created_at: Time
    metadata: dict[str, JsonValue] | None = None


class Messages(Result):
    messages: list[Message]


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


class Hit(Result):
    conversation_id: str
    message_id: str
    role: str
    content: str
    created_at: str
    score: float
    highlights: list[str] | None = None


class Hits(Result):
    results: list[Hit]
    total: int
    next_cursor: str | None = None
    notes: list[str] | None = None


class ListedConversation(Result):
    # Validated from a row of the store, whose columns have other names.
    conversation_id: str = Field(validation_alias=AliasChoices("id", "conversation_id"))
    title: str
    message_count: int = Field(validation_alias=AliasChoices("messages", "message_count"))
    has_summary: Annotated[bool, BeforeValidator(bool)] = Field(validation_alias=AliasChoices("summary", "has_summary"))
    created_at: Time
    last_activity: Time = Field(validation_alias=AliasChoices("updated_at", "last_activity"))


class Conversations(Result):
    conversations: list[ListedConversation]
    next_cursor: str | None = None


class Exported(Result):
    lines: list[dict[str, Any]]
    next_cursor: str | None = None


class Imported(Result):
    status: str = "success"
    conversations: int
    messages: int
    unchanged: int = Field(description="Messages that were there already.")
