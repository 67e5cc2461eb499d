"""The parameters of the operations on documents. The five of contract 000 are as it writes them."""

import unicodedata
from typing import Annotated, Any, Literal

import orjson
from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, model_validator
from pydantic_core import PydanticCustomError

from kho.documents.events import OPERATIONS
from kho.kernel.params import Id, Params, Strings, Whole
from kho.lib.clock import from_iso

ROOT = "root"
MAX_BODY = 4 * 1024 * 1024
"""Bytes of a body."""
MAX_METADATA = 64 * 1024
MAX_TITLE = 256
MAX_TAGS, MAX_TAG = 64, 128
MAX_REASON = 2_000
MAX_DOCUMENTS = 50
MAX_QUERY = 2_048
"""Characters of a question, as the contract says."""

MimeType = Literal["text/markdown", "text/plain", "application/json"]


def _body(value: str) -> str:
    if not value.strip():
        raise PydanticCustomError("blank", "must not be empty")
    if len(value) > MAX_BODY or len(value.encode("utf-8", "surrogatepass")) > MAX_BODY:
        raise PydanticCustomError("too_long", "must be at most 4 MiB; keep a longer text in several documents")
    return value


def _name(value: str) -> str:
    """A title or a tag: one line, in the form in which equal ones are equal."""
    return " ".join(unicodedata.normalize("NFC", value).split())


def is_too_large(metadata: dict[str, Any]) -> bool:
    return len(orjson.dumps(metadata)) > MAX_METADATA


def _metadata(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    try:
        too_large = is_too_large(value)
    except orjson.JSONEncodeError:
        raise PydanticCustomError("number", "must not hold whole numbers of more than 64 bits") from None
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


def _moment(value: Any) -> int:
    try:
        return from_iso(value)
    except (TypeError, ValueError):
        raise PydanticCustomError("time", "must be a time such as 2025-09-16T03:00:00Z") from None


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
Moment = Annotated[
    int,
    BeforeValidator(_moment, json_schema_input_type=str),
    Field(description="A time, as in 2025-09-16T03:00:00Z; UTC where it names no zone."),
]
DocumentId = Annotated[Id, Field(description="The document.")]
Revision = Annotated[int, Field(ge=1), Whole]
Cursor = Annotated[str, Field(max_length=2_000, description="The next_cursor of the page before.")]
Page = Annotated[int, Field(ge=1, le=200, description="How many."), Whole]


class Content(Params):
    mime_type: MimeType = "text/markdown"
    body: Annotated[Body, Field(description="The text itself, at most 4 MiB.")]

    @model_validator(mode="after")
    def _is_json(self) -> "Content":
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
    document_id: Annotated[Id | None, Field(description="Unique in the tenant; left out, Kho makes one.")] = None
    parent_id: Annotated[Id, Field(description="The document above it, or 'root'.")] = ROOT
    content: Content
    metadata: Annotated[Metadata, Field(description="title, tags and whatever else belongs to it.")] = Field(
        default_factory=dict
    )
    is_human_readable: Annotated[bool, Field(description="Whether it is meant for people.")] = True
    created_at: Moment | None = None


class Patch(Params):
    content: "PatchedContent | None" = None
    metadata: Annotated[Metadata | None, Field(description="In place of all the metadata there is.")] = None
    is_human_readable: bool | None = None


class PatchedContent(Params):
    mime_type: Annotated[MimeType | None, Field(description="Left out: as it is.")] = None
    body: Annotated[Body | None, Field(description="Left out: as it is.")] = None


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
    last_known_revision: Annotated[
        Revision | None, Field(description="Refused with CONFLICT if the document has changed since this revision.")
    ] = None


class EditDocument(Params):
    document_id: DocumentId
    old_text: Annotated[str, Field(min_length=1, description="Must occur exactly once in the body.")]
    new_text: Annotated[str, Field(description="What takes its place; may be empty.")]
    last_known_revision: Annotated[
        Revision | None, Field(description="Refused with CONFLICT if the document has changed since this revision.")
    ] = None


class DeleteDocument(Params):
    document_id: DocumentId
    reason: Annotated[str, Field(max_length=MAX_REASON, description="Why; kept in the audit log.")] = ""
    deleted_by: Annotated[str | None, Field(max_length=256, description="Who; the caller if left out.")] = None
    delete_at: Annotated[Moment | None, Field(description="When; now if left out. A later time puts it off.")] = None


class RestoreDocument(Params):
    document_id: DocumentId
    reason: Annotated[str, Field(max_length=MAX_REASON, description="Why; kept in the audit log.")] = ""


class Position(Params):
    ordering: Annotated[
        Annotated[int, Field(ge=0), Whole] | None, Field(description="Its place among its siblings, from 0.")
    ] = None
    before: Annotated[Id | None, Field(description="The sibling it is to stand before; wins over ordering.")] = None


class MoveDocument(Params):
    document_id: DocumentId
    new_parent_id: Annotated[Id, Field(description="The document it goes below, or 'root'.")]
    position: Annotated[Position | None, Field(description="Left out: behind all others.")] = None


class Filters(Params):
    tags: Annotated[list[Tag], Field(max_length=MAX_TAGS, description="All of these.")] = Field(default_factory=list)
    tags_any: Annotated[list[Tag], Field(max_length=MAX_TAGS, description="At least one of these.")] = Field(
        default_factory=list
    )
    tenant_id: Annotated[str | None, Field(max_length=128, description="Only ever the caller's own.")] = None
    parent_id: Annotated[Id | None, Field(description="Only what stands directly below this document.")] = None
    under: Annotated[Id | None, Field(description="Only what stands below this document, however deep.")] = None
    mime_type: MimeType | None = None
    is_human_readable: bool | None = None
    created_after: Annotated[Moment | None, Field(description="Created then or later.")] = None
    created_before: Annotated[Moment | None, Field(description="Created before then.")] = None


class ContextHints(Params):
    preferred_format: Annotated[
        str | None,
        Field(max_length=64, description="markdown or plain; of any other, the answer says that it is not it."),
    ] = None
    language: Annotated[
        str | None, Field(max_length=35, description="Of the answer, e.g. vi-VN; else the question's own.")
    ] = None


class Routing(Params):
    allow_external_search: Annotated[bool, Field(description="Whether the web may be searched, too.")] = False
    max_latency_ms: Annotated[
        Annotated[int, Field(ge=1, le=120_000), Whole],
        Field(description="The answer comes within this time, from what was found until then."),
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
        Field(
            description="Show in context whatever scores as much, also where it answers nothing: 0 for all that is "
            "near, such as short texts in another language. Left out: what does not answer is not shown."
        ),
    ] = None


class GetDocument(Params):
    document_id: DocumentId
    revision: Annotated[Revision | None, Field(description="As it was then; left out, as it is now.")] = None
    include_deleted: bool = False


class GetDocuments(Params):
    document_ids: Annotated[
        list[Id],
        Field(
            min_length=1,
            max_length=MAX_DOCUMENTS,
            description=f"At most {MAX_DOCUMENTS}; those that are missing are named.",
        ),
    ]
    include_deleted: bool = False


class ListDocuments(Params):
    parent_id: Annotated[Id, Field(description="Whose children; 'root' for the top.")] = ROOT
    recursive: Annotated[bool, Field(description="All that is below it, each parent before its children.")] = False
    sort: Annotated[
        Literal["order", "title", "created_at", "updated_at"],
        Field(description="Of children: the order of the tree, or by title, or the newest first."),
    ] = "order"
    include_deleted: bool = False
    limit: Page = 50
    cursor: Cursor | None = None


class DocumentHistory(Params):
    document_id: DocumentId
    limit: Page = 50
    cursor: Cursor | None = None


class DiffRevisions(Params):
    document_id: DocumentId
    from_revision: Revision
    to_revision: Annotated[Revision | None, Field(description="Left out: the newest.")] = None


class RestoreRevision(Params):
    document_id: DocumentId
    revision: Annotated[Revision, Field(description="What it said then becomes its newest revision.")]
    last_known_revision: Annotated[
        Revision | None, Field(description="Refused with CONFLICT if the document has changed since this revision.")
    ] = None


class AuditLog(Params):
    document_id: Annotated[Id | None, Field(description="Only about this document.")] = None
    action: Annotated[
        Annotated[str, AfterValidator(_operation), Field(json_schema_extra={"enum": [*OPERATIONS]})] | None,
        Field(description="Only this."),
    ] = None
    actor: Annotated[str | None, Field(max_length=256, description="Only what this one did.")] = None
    since: Moment | None = None
    until: Moment | None = None
    limit: Page = 50
    cursor: Cursor | None = None
