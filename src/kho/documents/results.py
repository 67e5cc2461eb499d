"""The results of the operations on documents."""

from typing import Any

from pydantic import Field, JsonValue

from kho.kernel.params import Result, Time


class Changed(Result):
    """The result of a change: what was done, and where the document stands now."""

    document_id: str
    status: str = Field(description="created, updated, unchanged, moved, deleted, scheduled, restored …")
    revision: int
    parent_id: str
    ordering: int | None = Field(default=None, description="Its place among its siblings, from 0.")
    updated_at: Time
    deleted: bool | None = None
    delete_at: Time | None = Field(default=None, description="When it will be deleted.")
    affected: int | None = Field(default=None, description="Documents that went or came back, with those below.")


class Content(Result):
    mime_type: str
    body: str


class Summary(Result):
    """A document without its body, as lists show it."""

    document_id: str
    parent_id: str
    ordering: int | None = Field(default=None, description="Its place among its siblings, from 0.")
    depth: int | None = Field(default=None, description="How far below the document that was asked about.")
    revision: int
    mime_type: str
    metadata: dict[str, JsonValue]
    is_human_readable: bool
    children: int
    created_at: Time
    updated_at: Time
    deleted: bool = False
    deleted_at: Time | None = None
    delete_at: Time | None = Field(default=None, description="When it will be deleted, by itself or with one above it.")


class Document(Summary):
    content: Content
    path: list[str] = Field(default_factory=list, description="The ids above it, from the top.")


class Documents(Result):
    documents: list[Document]
    missing: list[str]


class Listed(Result):
    documents: list[Summary]
    next_cursor: str | None = None


class Revision(Result):
    revision: int
    change: str
    made_by: str
    made_at: Time
    mime_type: str
    metadata: dict[str, JsonValue]
    is_human_readable: bool
    body_changed: bool = Field(description="Whether the text is another than in the revision before.")


class History(Result):
    document_id: str
    revisions: list[Revision]
    next_cursor: str | None = None


class Difference(Result):
    document_id: str
    from_revision: int
    to_revision: int
    body: str = Field(description="A unified diff; empty if the body is the same.")
    metadata: dict[str, dict[str, JsonValue]] = Field(description="By key: what it was (from) and is (to).")
    mime_type: dict[str, str] | None = None
    is_human_readable: dict[str, bool] | None = None


class Entry(Result):
    at: Time
    action: str
    actor: str
    document_id: str
    reason: str
    before_revision: int | None = None
    after_revision: int | None = None
    request_id: str
    details: dict[str, Any]


class Log(Result):
    entries: list[Entry]
    next_cursor: str | None = None


class Passage(Result):
    document_id: str
    snippet: str
    score: float
    title: str | None = None
    external: bool | None = Field(default=None, description="From the web, not from the store.")
    url: str | None = None


class Usage(Result):
    qdrant_hits: int = Field(description="Passages that retrieval returned, whichever engine keeps them.")
    llm_tokens_prompt: int = 0
    llm_tokens_completion: int = 0


class Knowledge(Result):
    response: str
    context: list[Passage]
    usage: Usage
    degraded: list[str] | None = Field(default=None, description="Why the answer is less than it could be.")
