"""Params and results of the document operations. Those of contract 000's five operations are as it defines them."""

import unicodedata
from typing import Annotated, Any, Literal

import orjson
from pydantic import AfterValidator, Field, JsonValue, model_validator
from pydantic_core import PydanticCustomError

from kho.documents import KIND
from kho.documents.events import OPERATIONS
from kho.kernel.audit import AuditFilters
from kho.kernel.params import Cursor, Id, Moment, Params, Reason, Result, Strings, Time, Whole, of_kind

ROOT = "root"
MAX_BODY = 4 * 1024 * 1024
"""Maximum size of a body in bytes."""
MAX_METADATA = 64 * 1024
MAX_TITLE = 256
MAX_TAGS, MAX_TAG = 64, 128
MAX_DOCUMENTS = 50
MAX_QUERY = 2_048
"""Maximum characters of a question, given by the contract."""

MimeType = Literal["text/markdown", "text/plain", "application/json"]


def _body(value: str) -> str:
    if not value.strip():
        raise PydanticCustomError("blank", "must not be empty")
    if len(value) > MAX_BODY or len(value.encode("utf-8", "surrogatepass")) > MAX_BODY:
        raise PydanticCustomError("too_long", "must be at most 4 MiB; keep a longer text in several documents")
    return value


def _name(value: str) -> str:
    """Normalise a title or tag: one line, Unicode NFC, so that equal texts compare equal."""
    return " ".join(unicodedata.normalize("NFC", value).split())


def is_too_large(metadata: dict[str, Any]) -> bool:
    return len(orjson.dumps(metadata)) > MAX_METADATA


def _metadata(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    try:
        too_large = is_too_large(value)
    except orjson.JSONEncodeError:
        raise PydanticCustomError("number", "must not contain whole numbers of more than 64 bits") from None
    if too_large:
        raise PydanticCustomError("too_long", "must be at most 64 KiB of JSON")
    kept = dict(value)
    if "title" in kept:
        kept["title"] = _title(kept["title"])
    if "tags" in kept:
        kept["tags"] = _tags(kept["tags"])
    return kept


def _title(value: JsonValue) -> str:
    title = _name(value) if isinstance(value, str) else ""
    if not 1 <= len(title) <= MAX_TITLE:
        raise PydanticCustomError("title", "title must be a text of 1 to {most} characters", {"most": MAX_TITLE})
    return title


def _tags(value: JsonValue) -> list[JsonValue]:
    names = [_name(one) if isinstance(one, str) else "" for one in value] if isinstance(value, list) else [""]
    if len(names) > MAX_TAGS or not all(1 <= len(name) <= MAX_TAG for name in names):
        limits = {"many": MAX_TAGS, "most": MAX_TAG}
        raise PydanticCustomError("tags", "tags must be at most {many} texts of 1 to {most} characters", limits)
    return list(dict.fromkeys(names))


def _operation(value: str) -> str:
    if value not in OPERATIONS:
        raise PydanticCustomError("action", "must be one of {operations}", {"operations": ", ".join(OPERATIONS)})
    return value


Body = Annotated[str, AfterValidator(_body)]
Metadata = Annotated[
    dict[str, JsonValue],
    AfterValidator(_metadata),
    Field(
        json_schema_extra={
            "properties": {
                "title": {"type": "string", "description": f"One line, at most {MAX_TITLE} characters."},
                "tags": {"type": "array", "items": {"type": "string"}, "description": "For filters of queries."},
            }
        }
    ),
]
Tag = Annotated[str, Field(max_length=4 * MAX_TAG), AfterValidator(_name)]
AnyDocument = Annotated[Id, of_kind(KIND.prefix)]
DocumentId = Annotated[AnyDocument, Field(description="The document.")]
RevisionNumber = Annotated[int, Field(ge=1), Whole]
LastKnown = Annotated[
    RevisionNumber, Field(description="Refused with CONFLICT if the document has changed since this revision.")
]
Page = Annotated[int, Field(ge=1, le=200, description="How many."), Whole]


class NewContent(Params):
    mime_type: MimeType = "text/markdown"
    body: Annotated[Body, Field(description="The text itself, at most 4 MiB.")]

    @model_validator(mode="after")
    def _is_json(self) -> "NewContent":
        check_json(self.mime_type, self.body)
        return self


def check_json(mime_type: str, body: str) -> None:
    if mime_type != "application/json":
        return
    try:
        orjson.loads(body)
    except orjson.JSONDecodeError as problem:
        raise PydanticCustomError(
            "json", "body is not valid JSON: {problem}", {"problem": f"{problem.msg} at character {problem.pos}"}
        ) from None


class CreateDocument(Params):
    document_id: Annotated[AnyDocument | None, Field(description="Unique in the tenant; generated if left out.")] = None
    parent_id: Annotated[AnyDocument, Field(description="The document above it, or 'root'.")] = ROOT
    content: NewContent
    metadata: Annotated[Metadata, Field(description="title, tags and any other fields.")] = Field(default_factory=dict)
    is_human_readable: Annotated[bool, Field(description="True if it is meant for people.")] = True
    created_at: Moment | None = None


class Patch(Params):
    content: "PatchedContent | None" = None
    metadata: Annotated[Metadata | None, Field(description="Replaces all existing metadata.")] = None
    is_human_readable: Annotated[bool | None, Field(description="True if it is meant for people.")] = None


class PatchedContent(Params):
    mime_type: Annotated[MimeType | None, Field(description="Left out: unchanged.")] = None
    body: Annotated[Body | None, Field(description="Left out: unchanged.")] = None


PLAIN = tuple(name for name in Patch.model_fields if name not in ("content", "metadata"))
"""Fields of a document beside content and metadata. Revisions, patches, diffs and files each have all of them."""


class UpdateDocument(Params):
    document_id: DocumentId
    patch: Patch
    update_mask: Annotated[
        Strings | None,
        Field(
            max_length=100,
            description="Which parts of the patch count: content, content.body, content.mime_type, metadata, "
            "metadata.KEY (a key that the patch lacks is removed), is_human_readable. Left out: all of it.",
        ),
    ] = None
    last_known_revision: LastKnown | None = None


class EditDocument(Params):
    document_id: DocumentId
    old_text: Annotated[str, Field(min_length=1, description="Must occur exactly once in the body.")]
    new_text: Annotated[str, Field(description="The replacement; may be empty.")]
    last_known_revision: LastKnown | None = None


class DeleteDocument(Params):
    document_id: DocumentId
    reason: Reason = ""
    deleted_by: Annotated[str | None, Field(max_length=256, description="Who; the caller if left out.")] = None
    delete_at: Annotated[Moment | None, Field(description="When; now if left out. A later time schedules it.")] = None


class RestoreDocument(Params):
    document_id: DocumentId
    reason: Reason = ""


class Position(Params):
    ordering: Annotated[
        Annotated[int, Field(ge=0), Whole] | None, Field(description="Its place among its siblings, from 0.")
    ] = None
    before: Annotated[AnyDocument | None, Field(description="The sibling to place it before; wins over ordering.")] = (
        None
    )


class MoveDocument(Params):
    document_id: DocumentId
    new_parent_id: Annotated[AnyDocument, Field(description="The new parent, or 'root'.")]
    position: Annotated[Position | None, Field(description="Left out: at the end.")] = None


class Filters(Params):
    tags: Annotated[list[Tag], Field(max_length=MAX_TAGS, description="All of these.")] = Field(default_factory=list)
    tags_any: Annotated[list[Tag], Field(max_length=MAX_TAGS, description="At least one of these.")] = Field(
        default_factory=list
    )
    tenant_id: Annotated[
        str | None, Field(max_length=128, description="The caller's own tenant; no other is accepted.")
    ] = None
    parent_id: Annotated[AnyDocument | None, Field(description="Only documents directly below this one.")] = None
    under: Annotated[AnyDocument | None, Field(description="Only documents below this one, at any depth.")] = None
    mime_type: Annotated[MimeType | None, Field(description="Only of this type.")] = None
    is_human_readable: Annotated[bool | None, Field(description="Only those meant for people, or only the others.")] = (
        None
    )
    created_after: Annotated[Moment | None, Field(description="Created then or later.")] = None
    created_before: Annotated[Moment | None, Field(description="Created before then.")] = None


class ContextHints(Params):
    preferred_format: Annotated[
        str | None,
        Field(max_length=64, description="markdown or plain; an unknown format is named in degraded."),
    ] = None
    language: Annotated[
        str | None, Field(max_length=35, description="Of the answer, e.g. vi-VN; else the question's own.")
    ] = None


class Routing(Params):
    allow_external_search: Annotated[bool, Field(description="Also search the web.")] = False
    max_latency_ms: Annotated[
        Annotated[int, Field(ge=1, le=120_000), Whole],
        Field(description="Time limit for the answer; it uses what was found until then."),
    ] = 4_000


class QueryKnowledge(Params):
    query: Annotated[
        str,
        Field(min_length=1, max_length=MAX_QUERY, description="A question or words, in any language."),
        AfterValidator(_body),
    ]
    filters: Filters = Field(default_factory=Filters)
    top_k: Annotated[Annotated[int, Field(ge=1, le=20), Whole], Field(description="How many documents.")] = 5
    context_hints: ContextHints = Field(default_factory=ContextHints)
    routing: Routing = Field(default_factory=Routing)
    min_score: Annotated[
        Annotated[float, Field(ge=0, le=1)] | None,
        Field(description="Leave out passages that score less, from response and context."),
    ] = None


class GetDocument(Params):
    document_id: DocumentId
    revision: Annotated[RevisionNumber | None, Field(description="An earlier revision; left out: the current one.")] = (
        None
    )
    include_deleted: Annotated[bool, Field(description="Deleted documents, too.")] = False


class GetDocuments(Params):
    document_ids: Annotated[
        list[AnyDocument],
        Field(
            min_length=1,
            max_length=MAX_DOCUMENTS,
            description=f"At most {MAX_DOCUMENTS}; missing ones are named in the answer.",
        ),
    ]
    include_deleted: Annotated[bool, Field(description="Deleted documents, too.")] = False


class ListDocuments(Params):
    parent_id: Annotated[
        AnyDocument, Field(description="The parent whose children are listed; 'root' for the top.")
    ] = ROOT
    recursive: Annotated[bool, Field(description="Everything below it, each parent before its children.")] = False
    sort: Annotated[
        Literal["order", "title", "created_at", "updated_at"],
        Field(description="Order of the children: as in the tree, by title, or newest first."),
    ] = "order"
    include_deleted: Annotated[bool, Field(description="Deleted documents, too.")] = False
    limit: Page = 50
    cursor: Cursor | None = None


class DocumentHistory(Params):
    document_id: DocumentId
    limit: Page = 50
    cursor: Cursor | None = None


class DiffRevisions(Params):
    document_id: DocumentId
    from_revision: RevisionNumber
    to_revision: Annotated[RevisionNumber | None, Field(description="Left out: the newest.")] = None


class RestoreRevision(Params):
    document_id: DocumentId
    revision: Annotated[RevisionNumber, Field(description="The revision whose text becomes the newest revision.")]
    last_known_revision: LastKnown | None = None


class DocumentAuditLog(AuditFilters):
    document_id: Annotated[AnyDocument | None, Field(description="Only about this document.")] = None
    action: Annotated[
        Annotated[str, AfterValidator(_operation), Field(json_schema_extra={"enum": [*OPERATIONS]})] | None,
        Field(description="Only this."),
    ] = None


# -- results -----------------------------------------------------------------------------------------------------------


class ChangedDocument(Result):
    """The result of a change: what was done, and where the document stands now."""

    document_id: str
    status: str = Field(description="created, updated, unchanged, moved, deleted, scheduled, restored …")
    revision: int
    parent_id: str
    ordering: int | None = Field(default=None, description="Its place among its siblings, from 0.")
    updated_at: Time
    deleted: bool | None = None
    delete_at: Time | None = Field(default=None, description="When it will be deleted.")
    affected: int | None = Field(
        default=None, description="Documents that were deleted or restored, including those below."
    )


class DocumentContent(Result):
    mime_type: str
    body: str


class DocumentSummary(Result):
    """A document without its body, as lists show it."""

    document_id: str
    parent_id: str
    ordering: int | None = Field(default=None, description="Its place among its siblings, from 0.")
    depth: int | None = Field(default=None, description="How many levels below the requested document.")
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


class WholeDocument(DocumentSummary):
    content: DocumentContent
    path: list[str] = Field(default_factory=list, description="The ids of its parents, from the top.")


class WholeDocuments(Result):
    documents: list[WholeDocument]
    missing: list[str]


class DocumentPage(Result):
    documents: list[DocumentSummary]
    next_cursor: str | None = None


class RevisionSummary(Result):
    revision: int
    change: str
    made_by: str
    made_at: Time
    mime_type: str
    metadata: dict[str, JsonValue]
    is_human_readable: bool
    body_changed: bool = Field(description="True if the text differs from the previous revision.")


class RevisionPage(Result):
    document_id: str
    revisions: list[RevisionSummary]
    next_cursor: str | None = None


class Difference(Result):
    document_id: str
    from_revision: int
    to_revision: int
    body: str = Field(description="A unified diff; empty if the body is the same.")
    metadata: dict[str, dict[str, JsonValue]] = Field(description="By key: the old value (from) and the new one (to).")
    mime_type: dict[str, str] | None = None
    is_human_readable: dict[str, bool] | None = None


class ContextPassage(Result):
    document_id: str
    snippet: str
    score: float
    title: str | None = None
    external: bool | None = Field(default=None, description="From the web, not from stored documents.")
    url: str | None = None


class QueryUsage(Result):
    qdrant_hits: int = Field(description="Number of passages that the search returned.")
    llm_tokens_prompt: int = 0
    llm_tokens_completion: int = 0


class KnowledgeAnswer(Result):
    response: str
    context: list[ContextPassage]
    usage: QueryUsage
    degraded: list[str] | None = Field(default=None, description="What is missing from the answer, and why.")
