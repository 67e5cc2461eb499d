"""Parameters and results of `search`, `fetch` and `recent`."""

import unicodedata
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from kho.kernel.params import Moment, Params, Result, Strings, Time, Whole
from kho.search.query.relevance import Label

MAX_QUERY = 10_000
MAX_RESULTS = 100
MAX_ID = 1_000
MAX_TEXT = 40_000
"""Characters that one `fetch` returns."""
_KINDS = "Only these: fact, message, experience, research, document."


def _not_blank(value: str) -> str:
    if not value.strip():
        raise PydanticCustomError("blank", "must not be empty")
    return value


def _separated(value: Any) -> Any:
    """Split a text at commas: models send 'fact,message' as often as a list."""
    return value.split(",") if isinstance(value, str) and not value.lstrip().startswith("[") else value


def _named(value: list[str]) -> list[str]:
    names = [name.strip().lower() for name in value if name.strip()]
    if not names:
        raise PydanticCustomError("nothing", "must name a kind; leave it out to search everything")
    return names


def _tags(value: list[str]) -> list[str]:
    return [unicodedata.normalize("NFC", tag).strip() for tag in value if tag.strip()]


Kinds = Annotated[
    Annotated[Strings, Field(max_length=50), AfterValidator(_named)],
    BeforeValidator(_separated, json_schema_input_type=list[str]),
]
Tags = Annotated[
    Annotated[Strings, Field(max_length=32), AfterValidator(_tags)],
    BeforeValidator(_separated, json_schema_input_type=list[str]),
]
Limit = Annotated[int, Field(ge=1, le=MAX_RESULTS), Whole]


About = Annotated[str, Field(max_length=256)]
Then = Annotated[Moment | None, BeforeValidator(lambda given: None if given == "" else given)]
"""An empty text leaves it out, as in the other filters."""
_ABOUT = "Only what is about this person, project or agent."


class Search(Params):
    query: Annotated[str, Field(max_length=MAX_QUERY), AfterValidator(_not_blank)] = Field(
        description="Keywords or a sentence, in any language."
    )
    kinds: Kinds | None = Field(None, description=_KINDS)
    about: About | None = Field(None, description=_ABOUT)
    speaker: About | None = Field(None, description="Only what this person said in a conversation.")
    tags: Tags | None = Field(None, description="Only what has all of these tags.")
    since: Then = Field(None, description="Only what was said or added from then on: 2026-07-28 or a time.")
    until: Then = Field(None, description="Only what was said or added before then.")
    limit: Limit = Field(10, description="How many results.")
    explain: bool = Field(False, description="Say how much of each score comes from words and how much from meaning.")


class Fetch(Params):
    id: Annotated[str, Field(max_length=MAX_ID), AfterValidator(_not_blank)] = Field(
        description="The id of a result; '#n' at its end reads only that passage."
    )
    offset: Annotated[int, Field(ge=0), Whole] = Field(0, description="metadata.next_offset of the part before.")


class Recent(Params):
    since: Then = Field(None, description="Only what was added or changed then or later.")
    kinds: Kinds | None = Field(None, description=_KINDS)
    about: About | None = Field(None, description=_ABOUT)
    limit: Limit = Field(20, description="How many.")


class Explanation(Result):
    lexical: float
    semantic: float | None = None


class RecentItem(Result):
    id: str
    kind: str
    title: str
    url: str
    text: str
    when: Time
    metadata: dict[str, Any] | None = Field(None, description="Of a message: role, speaker, and at, when it was said.")


class FoundItem(RecentItem):
    score: float
    label: Label
    explanation: Explanation | None = None


class SearchResults(Result):
    results: list[FoundItem]
    vectors_pending: int | None = None
    """So many passages can be found by their words only, until their vectors are computed."""
    notes: list[str] | None = None
    """What is missing from the answer, and why."""


class RecentItems(Result):
    results: list[RecentItem]


class Fetched(Result):
    id: str
    title: str
    text: str
    url: str
    metadata: dict[str, Any] = Field(description="Where it comes from; next_offset if there is more text.")
