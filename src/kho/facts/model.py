"""What goes in and out of the operations on facts."""

import unicodedata
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from kho.facts import KIND
from kho.facts.topic import topic_of
from kho.kernel.hints import Sentence
from kho.kernel.params import Cursor, Id, Moment, Params, Reason, Result, Strings, Time, Whole, of_kind
from kho.kernel.transfer import EVERYTHING, Line
from kho.search.text.tokens import plain

MAX_TEXT = 8_000
MAX_ABOUT = 256
MAX_SOURCE = 512
MAX_TAGS, MAX_TAG = 32, 128
NEVER = "never"
"""As `expires_at` of an update: from now on it does not expire."""
_JOINERS = str.maketrans("", "", "\u200c\u200d")
"""They hold letters and emoji together, so names may have them though they are not printable by themselves."""


def _text(value: str) -> str:
    text = unicodedata.normalize("NFC", value).strip()
    if not plain(text).strip():
        raise PydanticCustomError("blank", "must not be empty")
    if len(text) > MAX_TEXT:
        raise PydanticCustomError(
            "length",
            "must have at most 8,000 characters (it has {length}); keep a longer text as a document",
            {"length": len(text)},
        )
    return text


def _line(value: str) -> str:
    """One line, in the form in which equal ones are equal."""
    line = " ".join(unicodedata.normalize("NFC", value).split())
    if not line.translate(_JOINERS).isprintable():
        raise PydanticCustomError("unprintable", "must have printable characters only")
    return line


def _about(value: str) -> str:
    about = _line(value)
    if max(len(about), len(topic_of(about))) > MAX_ABOUT:
        raise PydanticCustomError("length", "must have at most 256 characters")
    return about


def _tags(value: list[str]) -> list[str]:
    tags = list(map(_line, value))
    if not all(1 <= len(tag) <= MAX_TAG for tag in tags):
        raise PydanticCustomError("length", "must be texts of 1 to 128 characters")
    return list(dict.fromkeys(tags))


def _source(value: str) -> str:
    source = unicodedata.normalize("NFC", value).strip()
    if len(source) > MAX_SOURCE:
        raise PydanticCustomError("length", "must have at most 512 characters")
    return source


def _limit(characters: int) -> Any:
    """States a limit in the schema; the validator checks it, on the form that is stored."""
    return Field(json_schema_extra={"maxLength": characters})


Text = Annotated[str, _limit(MAX_TEXT), AfterValidator(_text)]
About = Annotated[str, _limit(MAX_ABOUT), AfterValidator(_about)]
Tags = Annotated[Strings, Field(max_length=MAX_TAGS), AfterValidator(_tags)]
Source = Annotated[str, _limit(MAX_SOURCE), AfterValidator(_source)]
FactId = Annotated[Id, of_kind(KIND.prefix), Field(description="The fact's id.")]
RevisionNumber = Annotated[int, Field(ge=1), Whole]


def _never(value: Any) -> Any:
    return value.lower() if isinstance(value, str) and value.lower() == NEVER else value


class Remember(Params):
    text: Text = Field(description="The fact, in one or two sentences that make sense by themselves.")
    tags: Tags | None = Field(None, description="Words to filter by later.")
    about: About | None = Field(None, description="The person, project or agent it is about.")
    source: Source | None = Field(None, description="Where it comes from: a link, a file, a meeting.")
    expires_at: Moment | None = Field(None, description="When it stops being true, as in 2026-12-31T17:00:00Z.")
    replaces: FactId | None = Field(None, description="The id of the fact that this one supersedes.")


class FactById(Params):
    id: FactId


class Forget(FactById):
    reason: Reason = ""


class UpdateFact(FactById):
    text: Text | None = Field(None, description="The corrected fact.")
    tags: Tags | None = Field(None, description="All its tags; they replace those it has.")
    about: About | None = Field(None, description="Empty: about nobody in particular.")
    source: Source | None = Field(None, description="Empty: unknown.")
    expires_at: Annotated[Literal["never"] | Moment, BeforeValidator(_never)] | None = Field(
        None, description="A time as in 2026-12-31T17:00:00Z, or 'never'."
    )
    expected_revision: RevisionNumber | None = Field(
        None, description="The revision that you read: if it changed meanwhile, nothing is done."
    )


FIELDS = ("text", "tags", "about", "source", "expires_at")
"""What an update may change."""


class ListFacts(Params):
    about: About | None = Field(None, description="Only facts about this person, project or agent.")
    tags: Tags | None = Field(None, description="Only facts that have all of these tags.")
    since: Moment | None = Field(None, description="Only those first said at this time or later.")
    until: Moment | None = Field(None, description="Only those first said before this time.")
    include_expired: bool = Field(False, description="Also facts that have expired.")
    include_forgotten: bool = Field(False, description="Also facts that were forgotten.")
    limit: Annotated[int, Field(ge=1, le=200, description="How many."), Whole] = 50
    cursor: Cursor | None = None


class ExportFacts(Params):
    everything: Annotated[bool, Field(description=EVERYTHING)] = False
    cursor: Cursor | None = None
    limit: Annotated[int, Field(ge=1, le=1000), Whole] = 500


class ImportFacts(Params):
    lines: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=1000)]


class FactLine(Line):
    """A fact as export writes it and import takes it; nothing but the text is needed."""

    id: Id | None = None
    text: Text
    about: About | None = None
    tags: Tags = Field(default_factory=list)
    source: Source | None = None
    expires_at: Moment | None = None
    said_by: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    said_at: Moment | None = None
    created_at: Moment | None = None
    updated_at: Moment | None = None
    revision: Annotated[int, Field(ge=1, lt=2**62), Whole] = 1
    forgotten_at: Moment | None = None
    replaced_by: Id | None = None


class RevisionLine(Line):
    """What a fact said before an edit."""

    kind: Literal["revision"] = "revision"
    id: Id
    revision: Annotated[int, Field(ge=1, lt=2**62), Whole]
    text: Text
    about: About | None = None
    tags: Tags = Field(default_factory=list)
    source: Source | None = None
    expires_at: Moment | None = None
    said_by: Annotated[str, Field(min_length=1, max_length=256)]
    said_at: Moment


class FactRecord(Result):
    id: str
    text: str
    about: str | None = None
    tags: list[str]
    source: str | None = None
    said_by: str
    created_at: Time
    updated_at: Time
    revision: int
    expires_at: Time | None = None
    forgotten_at: Time | None = None
    replaced_by: str | None = None


class SimilarFact(Result):
    id: str
    text: str
    about: str | None = None
    when: Time


class Remembered(Result):
    id: str
    status: Literal["remembered", "known", "restored", "replaced"]
    fact: FactRecord
    similar: list[SimilarFact] = Field(description="Near facts that were there already, the nearest first.")
    message: Sentence


class ChangedFact(Result):
    id: str
    revision: int
    message: Sentence


class FactPage(Result):
    facts: list[FactRecord]
    next_cursor: str | None = None


class HistoryEntry(Result):
    id: str
    revision: int
    text: str
    about: str | None = None
    tags: list[str]
    source: str | None = None
    said_by: str
    said_at: Time
    expires_at: Time | None = None
    state: Literal["current", "expired", "forgotten", "edited", "replaced"] = Field(
        description="What became of it; 'edited': the next revision changed it."
    )


class FactHistory(Result):
    id: str = Field(description="The fact that counts now; it may have replaced the one that was asked for.")
    entries: list[HistoryEntry] = Field(description="Everything that was said, the latest first.")


class ImportedFacts(Result):
    imported: int
    unchanged: int
    message: str
