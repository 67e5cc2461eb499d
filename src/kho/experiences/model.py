"""Params and results of experience records, and the contract's envelope: `{success: true, data}` or
`{success: false, error}`."""

from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from kho.experiences import KIND
from kho.experiences.errors import ExperienceRefused
from kho.kernel import Id, KhoError, Line, Moment, Params, Result, Strings, Time, Whole
from kho.kernel.json_schema import JsonSchema
from kho.kernel.operation import plain
from kho.kernel.params import Cursor, ForeignId, of_kind
from kho.kernel.transfer import EVERYTHING

MAX_TEXT = 100_000
"""Maximum characters of one field: enough for a long log."""

Sort = Literal["relevance", "query_count", "created_at"]


def _present(value: Any) -> Any:
    if value is None:
        raise PydanticCustomError("null", "must not be null")
    return value


def _not_blank(value: str) -> str:
    if not value.strip():
        raise PydanticCustomError("blank", "must not be empty")
    return value


def _title(value: str) -> str:
    value = value.strip()
    if not 1 <= len(value) <= 500:
        raise PydanticCustomError("length", "must have 1 to 500 characters")
    return value


def normalised(keywords: list[str]) -> list[str]:
    """Trim, lower-case and deduplicate keywords."""
    found: dict[str, None] = {}
    for keyword in keywords:
        keyword = keyword.strip().lower()
        if not 1 <= len(keyword) <= 100:
            raise PydanticCustomError("length", "each keyword must have 1 to 100 characters")
        found[keyword] = None
    return list(found)


def _keywords(value: list[str]) -> list[str]:
    """Validate keywords but return them unchanged: the sanitizer recognises a secret only in its original case."""
    normalised(value)
    return value


Title = Annotated[
    str,
    Field(json_schema_extra={"minLength": 1, "maxLength": 500}),
    BeforeValidator(_present),
    AfterValidator(_title),
]
Required = Annotated[str, Field(max_length=MAX_TEXT), BeforeValidator(_present), AfterValidator(_not_blank)]
Optional = Annotated[
    str | None, Field(max_length=MAX_TEXT), AfterValidator(lambda v: v if v is None else _not_blank(v))
]
Context = Annotated[Optional, BeforeValidator(lambda v: None if isinstance(v, str) and not v.strip() else v)]
"""Empty is absent: the contract forbids an empty root cause, and says nothing like it of the context."""
Keywords = Annotated[Strings, Field(max_length=100), AfterValidator(_keywords)]


def _query_words(value: Any) -> Any:
    """Join a list of texts into one text; leave other values to validation."""
    if isinstance(value, list):
        words = cast(list[Any], value)
        if not words or not all(isinstance(word, str) and word.strip() for word in words):
            raise PydanticCustomError("keywords", "must be a text that is not empty, or a list of such texts")
        return " ".join(words)
    return value


class QueryExperiences(Params):
    keywords: Annotated[
        Annotated[str, Field(max_length=10_000), AfterValidator(_not_blank)] | None,
        BeforeValidator(_query_words, json_schema_input_type=str | list[str]),
    ] = Field(None, description="What to look for: words, an error message, a sentence; any language.")
    limit: Annotated[int, Field(ge=1, le=50), Whole] = Field(10, description="How many records to return.")
    offset: Annotated[int, Field(ge=0, le=1_000_000), Whole] = Field(
        0, description="How many to skip, for the next page."
    )
    ids: Annotated[Strings, Field(max_length=50)] | None = Field(None, description="Fetch these records instead.")
    sort: Sort = Field("relevance", description="Order of the matches.")


class ExperienceText(Params):
    """The fields that a person writes."""

    title: Title = Field(description="What happened, in 1-500 characters.")
    problem_description: Required = Field(description="What went wrong, with the exact error message.")
    root_cause: Optional = Field(None, description="Why it went wrong.")
    solution: Required = Field(description="What solved it.")
    context: Context = Field(None, description="Versions and code, without secrets or personal data.")
    keywords: Keywords | None = Field(None, description="Technologies and topics.")


FIELDS = tuple(ExperienceText.model_fields)
"""The fields that a person writes and an edit may change. A new one goes into ExperienceText, store.Experience with its
table, and Record."""
CLEARABLE = {name for name, field in ExperienceText.model_fields.items() if not field.is_required()}


class SubmitExperience(ExperienceText):
    sanitize: bool = Field(False, description="If something must be masked, return the masked text to confirm.")


class ExperienceById(Params):
    id: Annotated[Id, of_kind(KIND.prefix)]


class GetExperience(ExperienceById):
    revision: Annotated[int, Field(ge=1), Whole] | None = Field(None, description="An earlier revision of it.")


class UpdateExperience(ExperienceById):
    expected_revision: Annotated[int, Field(ge=1), Whole] = Field(description="The revision that you read.")
    title: Title | None = Field(None, description="A new title.")
    problem_description: Required | None = Field(None, description="What went wrong.")
    root_cause: Optional = Field(None, description="Why it went wrong.")
    solution: Required | None = Field(None, description="What solved it.")
    context: Optional = Field(None, description="Versions and code.")
    keywords: Keywords | None = Field(None, description="Replaces all keywords.")


class DeleteExperience(ExperienceById):
    reason: Annotated[str, Field(max_length=1000)] | None = Field(None, description="Why; kept in the audit log.")


class RateExperience(ExperienceById):
    helpful: bool = Field(description="Did it help?")
    note: Annotated[str, Field(max_length=2000)] | None = Field(None, description="What was missing, or what worked.")


class ExportExperiences(Params):
    cursor: str | None = None
    limit: Annotated[int, Field(ge=1, le=1000), Whole] = 500
    include_deleted: bool = Field(False, description="Deleted records, too; with everything they come anyway.")
    everything: bool = Field(False, description=EVERYTHING)


class Record(Result):
    """An experience as the contract shows it; the time of the last change and the revision come on top."""

    id: str
    title: str
    problem_description: str
    root_cause: str | None = None
    solution: str
    context: str | None = None
    keywords: list[str]
    query_count: int
    created_at: Time
    updated_at: Time
    revision: int
    helpful: int = 0
    unhelpful: int = 0
    deleted_at: Time | None = None


class WaitingRecord(Record):
    """A record that waits for an approval."""

    query_count: int = 0
    created_at: Time = Field(validation_alias="submitted_at")
    updated_at: Time = Field(validation_alias="submitted_at")
    revision: int = 1
    waiting: Literal[True] = True
    submitted_by: str


class ListWaiting(Params):
    cursor: Cursor | None = None
    limit: Annotated[int, Field(ge=1, le=200, description="How many."), Whole] = 50


class WaitingPage(Result):
    experiences: list[WaitingRecord]
    next_cursor: str | None = None


class ExperienceHit(Record):
    relevance_score: float


class ExperiencePage(Result):
    experiences: list[ExperienceHit]
    total: int
    limit: int
    offset: int


class Submitted(Result):
    id: str
    status: Literal["published", "waiting"] = "published"
    message: str


class Changed(Result):
    id: str
    revision: int
    message: str


class Rated(Result):
    id: str
    helpful: int
    unhelpful: int
    message: str


class Exported(Result):
    experiences: list[Record | dict[str, Any]]
    next_cursor: str | None = None


class ImportExperiences(Params):
    experiences: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=1000)]


class ExperienceLine(ExperienceText, Line):
    """Line of a record. Whoever may not import everything becomes its author."""

    id: Id | None = None
    query_count: Annotated[int, Field(ge=0, lt=2**62), Whole] = 0
    helpful: Annotated[int, Field(ge=0, lt=2**62), Whole] = 0
    unhelpful: Annotated[int, Field(ge=0, lt=2**62), Whole] = 0
    revision: Annotated[int, Field(ge=1, lt=2**62), Whole] = 1
    created_at: Moment | None = None
    updated_at: Moment | None = None
    deleted_at: Moment | None = None
    created_by: ForeignId | None = None
    changed_at: Moment | None = None


def _written(fields: dict[str, Any]) -> dict[str, Any]:
    ExperienceText.model_validate(fields)
    return fields


Written = Annotated[dict[str, Any], AfterValidator(_written)]
"""The fields that a person wrote, as they are stored in one value."""


class EarlierLine(Line):
    """What a record said before an edit."""

    kind: Literal["revision"] = "revision"
    id: Id
    revision: Annotated[int, Field(ge=1, lt=2**62), Whole]
    fields: Written
    replaced_by: ForeignId
    replaced_at: Moment


class VerdictLine(Line):
    """Whether a record helped somebody."""

    kind: Literal["feedback"] = "feedback"
    id: Id
    sub: ForeignId
    helpful: bool
    note: Annotated[str, Field(max_length=2000)] | None = None
    created_at: Moment


class SubmissionLine(Line):
    """A record that waits for an approval."""

    kind: Literal["submission"] = "submission"
    id: Id
    fields: Written
    submitted_by: ForeignId
    submitted_at: Moment


class ImportedExperiences(Result):
    imported: int
    unchanged: int
    message: str


_ERROR: JsonSchema = {
    "type": "object",
    "properties": {
        "code": {"type": "string"},
        "message": {"type": "string"},
        "validation_errors": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"field": {"type": "string"}, "message": {"type": "string"}},
                "required": ["field", "message"],
            },
        },
        "details": {"type": "object"},
    },
    "required": ["code", "message"],
}


def success(result: Any) -> dict[str, Any]:
    return {"success": True, "data": plain(result)}


def failure(error: KhoError) -> dict[str, Any]:
    body: dict[str, Any] = {"code": error.code, "message": error.message}
    if isinstance(error, ExperienceRefused) and error.problems:
        body["validation_errors"] = error.problems
    if error.details:
        body["details"] = error.details
    return {"success": False, "error": body}


def envelope_schema(result: JsonSchema) -> JsonSchema:
    return {
        "type": "object",
        "properties": {"success": {"type": "boolean"}, "data": result, "error": _ERROR},
        "required": ["success"],
    }
