"""What goes into the operations on research collections. What comes out is in results.py."""

from typing import Annotated, Any, Literal, cast

import orjson
from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from kho.kernel.params import Id, Params, Strings, Whole
from kho.lib.jsonrpc import ParseError, check_size
from kho.research import names

MAX_QUERY = 10_000
"""Characters of a question: room for a paragraph, not for a paper."""
MAX_CONTEXT = 100_000
MAX_CONTENT = 5_000_000
"""Characters of a text that is added in one call. The doors refuse larger bodies anyway."""
MAX_NAMES = 100
MAX_MOVED = 1_000

CollectionType = Literal["fundamental", "project-specific"]
Verdict = Literal["positive", "negative", "neutral"]


class Asked(Params):
    """Models send null for what they leave out; it is as if the parameter were absent."""

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {name: given for name, given in cast(dict[str, Any], value).items() if given is not None}


def _name(value: str) -> str:
    try:
        return names.clean(value)
    except ValueError as problem:
        raise PydanticCustomError("name", "{problem}", {"problem": str(problem)}) from None


def _collection(value: str) -> str:
    value = _name(value)
    if "," in value:
        raise PydanticCustomError("name", "must not hold a comma: commas separate the names of collections")
    return value


def _not_blank(value: str) -> str:
    if not value.strip():
        raise PydanticCustomError("blank", "must not be empty")
    return value


def _once(value: list[str]) -> list[str]:
    found: dict[str, str] = {}
    for name in value:
        found.setdefault(names.key(name), name)
    return list(found.values())


def _separated(value: Any) -> Any:
    """Text between commas, or a list (which some clients send as its JSON text)."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        try:
            check_size(value)
            orjson.loads(value)
        except orjson.JSONDecodeError:
            pass  # a name may begin with a bracket
        except ParseError:
            return value
        else:
            return value
    # More than any of these lists may hold, so that a text of commas alone is not made into millions of names.
    return [part for part in value.split(",", 2 * MAX_MOVED) if part.strip()]


_Separated = BeforeValidator(_separated, json_schema_input_type=str | list[str])

Name = Annotated[str, AfterValidator(_name)]
CollectionName = Annotated[str, AfterValidator(_collection)]
CollectionNames = Annotated[
    Annotated[Strings, Field(max_length=MAX_NAMES), AfterValidator(lambda v: _once([_collection(one) for one in v]))],
    _Separated,
]
Texts = Annotated[Annotated[Strings, Field(max_length=MAX_NAMES)], _Separated]
References = Annotated[Annotated[Strings, Field(min_length=1, max_length=MAX_MOVED)], _Separated]
Tags = Annotated[
    Annotated[Strings, Field(max_length=32), AfterValidator(lambda v: _once([_name(one) for one in v]))], _Separated
]
Page = Annotated[int, Field(ge=1, le=200), Whole]
Cursor = Annotated[str, Field(max_length=2_000)]
Path = Annotated[str, Field(max_length=4_096), AfterValidator(_not_blank)]
Line = Annotated[str, Field(max_length=2_048), AfterValidator(_not_blank)]
"""One line of a person's: a title, a source, a reason."""

_COLLECTIONS = "Names of collections, separated by commas, or a list of names."
_CURSOR = "The next_cursor of the page before."


class QueryKnowledgeBase(Asked):
    query: Annotated[str, Field(max_length=MAX_QUERY), AfterValidator(_not_blank)] = Field(
        description="What to look for: a question, a sentence or words, in any language."
    )
    collections: CollectionNames | None = Field(
        None, description=f"{_COLLECTIONS} Left out: the project's defaults, else all."
    )
    top_k: Annotated[int, Field(ge=1, le=100), Whole] = Field(10, description="How many results to return.")
    document_context: Annotated[str, Field(max_length=MAX_CONTEXT)] | None = Field(
        None, description="The text that is being worked on; results that fit it come first."
    )
    project: Name | None = Field(None, description="The project whose collections are searched.")
    directory: Path | None = Field(None, description="A folder; the project that it belongs to is searched.")
    tags: Tags | None = Field(None, description="Only documents that have all of these tags.")
    neighbours: Annotated[int, Field(ge=0, le=5), Whole] = Field(
        0, description="So many chunks before and after each result come along."
    )
    explain: bool = Field(False, description="Say why each result has its rank.")
    cursor: Cursor | None = Field(None, description=_CURSOR)


class ManageCollections(Asked):
    action: Literal["create", "list", "delete", "info", "rename", "move-documents"] = Field(
        description="What to do. All but list need collection_name."
    )
    collection_name: CollectionName | None = Field(None, description="The collection; its name holds no comma.")
    collection_type: CollectionType | None = Field(
        None,
        description="For create: fundamental (for every project; default) or project-specific. For list: only these.",
    )
    project_name: Name | None = Field(
        None, description="For create: the project to link it to. For list: its own only."
    )
    description: Annotated[str, Field(max_length=2_000)] | None = Field(None, description="For create: what is in it.")
    new_name: CollectionName | None = Field(None, description="For rename.")
    documents: References | None = Field(None, description="For move-documents: ids, paths or titles.")
    target_collection: CollectionName | None = Field(None, description="For move-documents: where they go.")
    confirm: bool = Field(False, description="For delete: true deletes a collection that is not empty.")
    cursor: Cursor | None = Field(None, description=f"For list. {_CURSOR}")
    limit: Page = Field(50, description="For list: how many on a page.")


class ManageProjects(Asked):
    action: Literal["create", "link", "unlink", "set-defaults", "list", "info", "archive", "unarchive", "detect"] = (
        Field(description="What to do. All but list and detect need project_name.")
    )
    project_name: Name | None = Field(None, description="The project.")
    collections: CollectionNames | None = Field(
        None, description=f"For create, link, unlink and set-defaults. {_COLLECTIONS}"
    )
    description: Annotated[str, Field(max_length=2_000)] | None = Field(None, description="For create: what it is for.")
    directory: Path | None = Field(
        None, description="For create: its folder, an absolute path. For detect: the folder to look from."
    )
    default: bool = Field(False, description="For create and link: the collections also become defaults.")
    append: bool = Field(False, description="For set-defaults: add to the defaults instead of replacing them.")
    clear: bool = Field(False, description="For set-defaults: the project has no defaults any more.")
    include_archived: bool = Field(False, description="For list: archived projects, too.")
    cursor: Cursor | None = Field(None, description=f"For list. {_CURSOR}")
    limit: Page = Field(50, description="For list: how many on a page.")


class IngestDocuments(Asked):
    path: Path = Field(description="A file or a folder that Kho may read.")
    collection: CollectionName = Field(description="The collection that takes them in.")
    kind: Literal["file", "folder"] | None = Field(None, description="What the path must be; left out, either.")
    recursive: bool = Field(False, description="Folders below the folder, too.")
    patterns: Texts | None = Field(None, description="Only files whose names match, e.g. *.md,*.pdf.")
    exclude: Texts | None = Field(None, description="Not files and folders whose names match, e.g. drafts,*.log.")
    prune: bool = Field(False, description="Remove documents whose files are gone from the folder.")
    force: bool = Field(False, description="Read files again although they have not changed.")
    wait: Annotated[float, Field(ge=0, le=600)] | None = Field(
        None, description="Seconds to wait before the answer is a job that goes on (default 50)."
    )


class AugmentKnowledge(Asked):
    content: Annotated[str, Field(max_length=MAX_CONTENT), AfterValidator(_not_blank)] = Field(
        description="The text to add; Markdown is understood."
    )
    source: Line = Field(description="Where it comes from: a URL or another identifier.")
    collection: CollectionName = Field(description="The collection that takes it in.")
    title: Line | None = Field(None, description="Its title; else its first heading or line.")
    tags: Tags | None = Field(None, description="Tags, separated by commas, or a list.")
    author: Line | None = Field(None, description="Who wrote it.")
    date: Annotated[str, Field(max_length=64)] | None = Field(None, description="When it was published (2026-07-28).")
    force: bool = Field(False, description="Store it although nearly the same is there already.")


class UploadDocument(Asked):
    filename: Line = Field(description="The file's name; its ending tells the format.")
    content: Annotated[str, Field(max_length=MAX_CONTENT * 2), AfterValidator(_not_blank)] = Field(
        description="The file's bytes, in base64."
    )
    collection: CollectionName = Field(description="The collection that takes it in.")
    title: Line | None = Field(None, description="Its title; else what the file says.")
    tags: Tags | None = Field(None, description="Tags, separated by commas, or a list.")
    force: bool = Field(False, description="Store it although nearly the same is there already.")


class ListJobs(Asked):
    limit: Page = Field(20, description="How many, the newest first.")


class ById(Asked):
    job_id: Id = Field(description="The job.")


class IngestStatus(Asked):
    job_id: Id | None = Field(None, description="The job that ingest_documents answered with; left out: the newest.")
    cancel: bool = Field(False, description="Stop the job. What it has stored so far stays.")
    limit: Page = Field(20, description="How many, the newest first.")


class JobStatus(ById):
    pass


class CancelJob(ById):
    pass


class ListDocuments(Asked):
    collection: CollectionName | None = Field(None, description="Only those of this collection.")
    filter: Annotated[str, Field(max_length=500)] | None = Field(
        None, description="Only those whose path, source or title holds this."
    )
    cursor: Cursor | None = Field(None, description=_CURSOR)
    limit: Page = Field(50, description="How many on a page.")


class GetDocument(Asked):
    document: Line = Field(description="Its id; or its path or title.")
    collection: CollectionName | None = Field(None, description="The collection to look in.")
    text: bool = Field(False, description="Its whole text, too.")


class RemoveDocument(Asked):
    document: Line = Field(description="Its id; or its path or title.")
    collection: CollectionName | None = Field(None, description="The collection to look in.")


class ExportKnowledge(Asked):
    collections: CollectionNames | None = Field(None, description=f"{_COLLECTIONS} Left out: all.")
    cursor: Cursor | None = Field(None, description=_CURSOR)
    limit: Page = Field(100, description="How many documents on a page at most.")


class ImportKnowledge(Asked):
    lines: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=1_000)] = Field(
        description="What export gave, line by line."
    )
    merge: Literal["skip", "replace"] = Field("skip", description="What happens to a document that is there already.")


class RebuildIndex(Asked):
    collection: CollectionName | None = Field(None, description="Only this collection; else all.")


class KbStatus(Asked):
    collection: CollectionName | None = Field(None, description="Only this collection; else all.")


class SimilarDocuments(Asked):
    document: Line = Field(description="Its id; or its path or title.")
    collection: CollectionName | None = Field(None, description="The collection that the document is in.")
    collections: CollectionNames | None = Field(None, description=f"{_COLLECTIONS} Where to look; else everywhere.")
    top_k: Annotated[int, Field(ge=1, le=100), Whole] = Field(10, description="How many documents to return.")


class SubmitFeedback(Asked):
    document_id: Line = Field(description="The document_id of the result; or the document's path or title.")
    chunk: Annotated[int, Field(ge=0), Whole] | None = Field(
        None, description="The chunk_sequence_id of the result; left out, the document is meant."
    )
    verdict: Verdict = Field(description="Whether it helped.")
    reason: Annotated[str, Field(max_length=2_000)] | None = Field(None, description="Why.")
    query: Annotated[str, Field(max_length=MAX_QUERY)] | None = Field(None, description="What was asked.")


class FeedbackAnalytics(Asked):
    collection: CollectionName | None = Field(None, description="Only this collection; else all.")


class QueryHistory(Asked):
    filter: Annotated[str, Field(max_length=500)] | None = Field(None, description="Only questions that hold this.")
    cursor: Cursor | None = Field(None, description=_CURSOR)
    limit: Page = Field(20, description="How many, the newest first.")


class ClearHistory(Asked):
    pass
