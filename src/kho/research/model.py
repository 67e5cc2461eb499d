"""Params and results of the research operations."""

from contextlib import suppress
from typing import Annotated, Any, Literal, cast

import orjson
from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from kho.kernel import Cursor, Id, Params, Reason, Result, Strings, Time, Whole
from kho.kernel.hints import Sentence
from kho.kernel.params import JSON_LIST, EmptyIsAbsent, NotScreened, of_kind
from kho.kernel.transfer import EVERYTHING
from kho.lib.jsonrpc import ParseError, check_size
from kho.research import KIND, names
from kho.search.query.relevance import Label

MAX_QUERY = 10_000
"""Maximum characters of a question: room for a paragraph, not for a paper."""
MAX_CONTEXT = 100_000
MAX_CONTENT = 5_000_000
"""Maximum characters of a text added in one call. The doors refuse larger bodies anyway."""
MAX_NAMES = 100
MAX_MOVED = 1_000

CollectionType = Literal["fundamental", "project-specific"]
Verdict = Literal["positive", "negative", "neutral"]
ContentType = Literal["prose", "code_block", "table"]


class Asked(Params):
    """Base of the params. A null counts as absent, because models send null for what they leave out."""

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
        raise PydanticCustomError("name", "must not contain a comma: commas separate the names of collections")
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
    """Split a text at commas. Pass a list on, also as JSON text, which some clients send."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        with suppress(orjson.JSONDecodeError):  # a name may begin with a bracket
            with suppress(ParseError):
                check_size(value)
                orjson.loads(value)
            return value
    # Bounded above the largest list allowed, so that a text of nothing but commas does not become millions of names.
    return [part for part in value.split(",", 2 * MAX_MOVED) if part.strip()]


OWN_ID = of_kind(KIND.prefix)
_Separated = BeforeValidator(_separated, json_schema_input_type=str | list[str])
Name = Annotated[str, AfterValidator(_name)]
CollectionName = Annotated[str, AfterValidator(_collection)]
CollectionNames = Annotated[
    Annotated[Strings, Field(max_length=MAX_NAMES), AfterValidator(lambda v: _once([_collection(one) for one in v]))],
    _Separated,
]
Texts = Annotated[Annotated[Strings, Field(max_length=MAX_NAMES)], _Separated]
References = Annotated[list[str], OWN_ID, JSON_LIST, Field(min_length=1, max_length=MAX_MOVED), _Separated]
Tags = Annotated[
    Annotated[Strings, Field(max_length=32), AfterValidator(lambda v: _once([_name(one) for one in v]))], _Separated
]
Page = Annotated[int, Field(ge=1, le=200), Whole]
Path = Annotated[str, Field(max_length=4_096), AfterValidator(_not_blank)]
OneLine = Annotated[str, Field(max_length=2_048), AfterValidator(_not_blank)]
"""A short text written by a person: a title, a source, a reason."""
Reference = Annotated[OneLine, OWN_ID]

_COLLECTIONS = "Names of collections, separated by commas, or a list of names."
_CURSOR = "The next_cursor of the previous page."


class QueryKnowledgeBase(Asked):
    query: Annotated[str, Field(max_length=MAX_QUERY), AfterValidator(_not_blank)] = Field(
        description="What to look for: a question, a sentence or words, in any language."
    )
    collections: CollectionNames | None = Field(
        None, description=f"{_COLLECTIONS} Left out: the project's defaults, else all."
    )
    top_k: Annotated[int, Field(ge=1, le=100), Whole] = Field(10, description="How many results to return.")
    document_context: Annotated[str, Field(max_length=MAX_CONTEXT)] | None = Field(
        None, description="The text you are working on; results that fit it rank higher."
    )
    project: Name | None = Field(None, description="The project whose collections are searched.")
    directory: Path | None = Field(None, description="A folder; the project that it belongs to is searched.")
    tags: Tags | None = Field(None, description="Only documents that have all of these tags.")
    neighbours: Annotated[int, Field(ge=0, le=5), Whole] = Field(
        0, description="Chunks to add before and after each result."
    )
    explain: bool = Field(False, description="Say why each result has its rank.")
    cursor: Cursor | None = Field(None, description=_CURSOR)


class ManageCollections(Asked):
    action: Literal["create", "list", "delete", "info", "rename", "move-documents"] = Field(
        description="What to do. All but list need collection_name."
    )
    collection_name: CollectionName | None = Field(None, description="The collection; its name holds no comma.")
    collection_type: Annotated[CollectionType | None, EmptyIsAbsent] = Field(
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
    reason: Reason | None = Field(None, description="For delete: why; kept in the audit log.")
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


class AddsToCollection(Asked):
    collection: CollectionName = Field(description="The collection to add to.")
    create: bool = Field(False, description="Make the collection if there is none of that name.")


class IngestDocuments(AddsToCollection):
    path: Path = Field(description="A file or a folder that Kho may read.")
    kind: Literal["file", "folder"] | None = Field(None, description="What the path must be; left out, either.")
    recursive: bool = Field(False, description="Also read subfolders.")
    patterns: Texts | None = Field(None, description="Only files whose names match, e.g. *.md,*.pdf.")
    exclude: Texts | None = Field(None, description="Skip files and folders whose names match, e.g. drafts,*.log.")
    prune: bool = Field(False, description="Remove documents whose files are gone from the folder.")
    force: bool = Field(False, description="Read files again although they have not changed.")
    wait: Annotated[float, Field(ge=0, le=600)] | None = Field(
        None, description="Seconds to wait; after that the answer is a job that continues (default 50)."
    )


class AugmentKnowledge(AddsToCollection):
    content: Annotated[str, Field(max_length=MAX_CONTENT), AfterValidator(_not_blank)] = Field(
        description="The text to add; Markdown is understood."
    )
    source: OneLine = Field(description="Where it comes from: a URL or another identifier.")
    title: OneLine | None = Field(None, description="Its title; else its first heading or line.")
    tags: Tags | None = Field(None, description="Tags, separated by commas, or a list.")
    author: OneLine | None = Field(None, description="Who wrote it.")
    date: Annotated[str, Field(max_length=64)] | None = Field(None, description="When it was published (2026-07-28).")
    force: bool = Field(False, description="Store it even if a nearly identical text exists.")


class UploadDocument(AddsToCollection):
    filename: OneLine = Field(description="The file's name; its ending tells the format.")
    content: Annotated[str, Field(max_length=MAX_CONTENT * 2), AfterValidator(_not_blank), NotScreened()] = Field(
        description="The file's bytes, in base64."
    )
    title: OneLine | None = Field(None, description="Its title; else the title in the file.")
    tags: Tags | None = Field(None, description="Tags, separated by commas, or a list.")
    force: bool = Field(False, description="Store it even if a nearly identical text exists.")


class ListJobs(Asked):
    limit: Page = Field(20, description="How many, the newest first.")


class JobById(Asked):
    job_id: Id = Field(description="The job.")


class IngestStatus(Asked):
    job_id: Id | None = Field(None, description="The job that ingest_documents answered with; left out: the newest.")
    cancel: bool = Field(False, description="Stop the job. What it has stored so far stays.")
    limit: Page = Field(20, description="How many, the newest first.")


class OfCollection(Asked):
    collection: CollectionName | None = Field(None, description="Only this collection; else all.")


class ListKbDocuments(OfCollection):
    filter: Annotated[str, Field(max_length=500)] | None = Field(
        None, description="Only those whose path, source or title contains this."
    )
    cursor: Cursor | None = Field(None, description=_CURSOR)
    limit: Page = Field(50, description="How many on a page.")


class KbDocument(Asked):
    document: Reference = Field(description="Its id; or its path or title.")
    collection: CollectionName | None = Field(None, description="The collection to look in.")


class RemoveKbDocument(KbDocument):
    reason: Reason | None = None


class GetKbDocument(KbDocument):
    text: bool = Field(False, description="Also return its whole text.")


class ExportKnowledge(Asked):
    collections: CollectionNames | None = Field(None, description=f"{_COLLECTIONS} Left out: all.")
    everything: bool = Field(False, description=EVERYTHING)
    cursor: Cursor | None = Field(None, description=_CURSOR)
    limit: Page = Field(100, description="How many documents on a page at most.")


class ImportKnowledge(Asked):
    lines: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=1_000)] = Field(
        description="The lines of an export."
    )
    merge: Literal["skip", "replace"] = Field("skip", description="What to do with a document that exists already.")


class SimilarDocuments(KbDocument):
    collection: CollectionName | None = Field(None, description="The collection that the document is in.")
    collections: CollectionNames | None = Field(None, description=f"{_COLLECTIONS} Where to look; else everywhere.")
    top_k: Annotated[int, Field(ge=1, le=100), Whole] = Field(10, description="How many documents to return.")


class SubmitFeedback(Asked):
    document_id: Reference = Field(description="The document_id of the result; or the document's path or title.")
    chunk: Annotated[int, Field(ge=0), Whole] | None = Field(
        None, description="The chunk_sequence_id of the result; left out, the document is meant."
    )
    verdict: Verdict = Field(description="Whether it helped.")
    reason: Annotated[str, Field(max_length=2_000)] | None = Field(None, description="Why.")
    query: Annotated[str, Field(max_length=MAX_QUERY)] | None = Field(None, description="What was asked.")


class QueryHistory(Asked):
    filter: Annotated[str, Field(max_length=500)] | None = Field(None, description="Only questions that contain this.")
    cursor: Cursor | None = Field(None, description=_CURSOR)
    limit: Page = Field(20, description="How many, the newest first.")


class ClearHistory(Asked):
    reason: Reason | None = None


# -- results -----------------------------------------------------------------------------------------------------------


class Metadata(Result):
    """The contract's three fields (document_title, content_type, chunk_sequence_id), and the passage's document."""

    document_title: str
    content_type: ContentType
    chunk_sequence_id: int = Field(description="Its number in the document, from 0.")
    document_id: str
    collection: str
    total_chunks: int | None = None
    path: str | None = None
    source: str | None = None
    format: str | None = None
    language: str | None = None
    tags: list[str] | None = None
    author: str | None = None
    published: str | None = None
    updated_at: Time | None = None


class Explanation(Result):
    """Why a result has its rank; each part in 0..1."""

    lexical: float
    semantic: float | None = None
    rerank: float | None = None
    context: float | None = None
    feedback: float | None = None
    summary: str


class Neighbour(Result):
    chunk_sequence_id: int
    header_path: str
    content: str


class Item(Result):
    content: str
    relevance_score: float
    relevance_label: Label
    source_document: str
    header_path: str
    metadata: Metadata
    explanation: Explanation | None = None
    neighbours: list[Neighbour] | None = None
    highlights: list[str] | None = None


class ContractAnswer(Result):
    """Base of all answers of the contract."""

    status: Literal["success", "error"] = "success"


class Refinement(Result):
    """The contract's three fields (status, suggestions, message), and what the next call needs."""

    status: Literal["optimal", "clarification_needed", "too_broad"]
    suggestions: list[str]
    message: Sentence
    searched: list[str] | None = None
    total: int | None = None
    next_cursor: str | None = None
    vectors_pending: int | None = None
    notes: list[str] | None = None


class QueryAnswer(ContractAnswer):
    results: list[Item]
    query_refinement: Refinement


class Brief(Result):
    """A document in a list."""

    id: str
    title: str
    collection: str
    origin: Literal["file", "external", "upload"]
    path: str | None = None
    source: str | None = None
    format: str
    size_bytes: int
    chunks: int
    tags: list[str]
    updated_at: Time


class DocumentDetails(Brief):
    hash: str
    language: str
    author: str | None = None
    published: str | None = None
    modified_at: Time | None = None
    created_at: Time
    content_types: dict[str, int]
    text: str | None = None


class CollectionSummary(Result):
    name: str
    type: str
    description: str
    documents: int
    chunks: int
    size_bytes: int
    projects: list[str]
    created_at: Time
    updated_at: Time


class CollectionInfo(CollectionSummary):
    id: str
    created_by: str
    embedder: str
    vectors_pending: int
    formats: dict[str, int]
    newest: list[Brief]


class CollectionsAnswer(ContractAnswer):
    action: str
    message: Sentence
    collection: CollectionInfo | None = None
    collections: list[CollectionSummary] | None = None
    moved: int | None = None
    total: int | None = None
    next_cursor: str | None = None


class ProjectDetails(Result):
    name: str
    description: str
    directory: str | None = None
    collections: list[str]
    defaults: list[str]
    archived: bool
    created_at: Time
    updated_at: Time


class ProjectsAnswer(ContractAnswer):
    action: str
    message: Sentence
    project: ProjectDetails | None = None
    projects: list[ProjectDetails] | None = None
    next_cursor: str | None = None


class FileFailure(Result):
    path: str
    reason: str
    code: str | None = None


class JobReport(Result):
    """An ingest, finished or not."""

    job_id: str
    kind: str
    state: Literal["queued", "running", "done", "failed", "cancelled"]
    collection: str | None = None
    done: int
    total: int | None = None
    added: int
    changed: int
    unchanged: int
    removed: int
    failed: int
    failures: list[FileFailure]
    skipped: dict[str, int] | None = Field(None, description="Files of kinds that Kho cannot read, by name ending.")
    error: str | None = None
    created_at: Time
    updated_at: Time
    finished_at: Time | None = None


class IngestAnswer(Result):
    status: Literal["success", "running", "error"] = "success"
    message: Sentence
    job: JobReport
    chunks: int | None = None
    vectors_pending: int | None = None


class JobAnswer(ContractAnswer):
    message: Sentence
    job: JobReport


class JobsAnswer(ContractAnswer):
    jobs: list[JobReport]


class Duplicate(Result):
    document_id: str
    title: str
    collection: str
    likeness: float


class AugmentAnswer(ContractAnswer):
    outcome: Literal["added", "replaced", "unchanged", "duplicate"]
    message: Sentence
    document: Brief | None = None
    duplicates: list[Duplicate]


class DocumentsAnswer(ContractAnswer):
    documents: list[Brief]
    total: int
    next_cursor: str | None = None


class DocumentAnswer(ContractAnswer):
    document: DocumentDetails


class RemovedDocument(ContractAnswer):
    message: str
    document: Brief


class ImportedKnowledge(ContractAnswer):
    message: str
    collections: int
    imported: int
    replaced: int
    skipped: int
    related: int = Field(default=0, description="Projects and verdicts that were imported.")


class Rebuilt(ContractAnswer):
    message: str
    documents: int
    chunks: int


class KnowledgeStatus(ContractAnswer):
    collections: int
    documents: int
    chunks: int
    size_bytes: int
    projects: int = Field(description="Archived projects not counted.")
    archived_projects: int = 0
    embedder: str
    vectors_pending: int
    problem: str | None = None
    last_change: Time | None = None
    jobs: list[JobReport]


class Similar(Result):
    document: Brief
    relevance_score: float
    relevance_label: Label


class SimilarAnswer(ContractAnswer):
    document: Brief
    results: list[Similar]
    message: str


class FeedbackAnswer(ContractAnswer):
    message: str
    document_id: str
    positive: int
    negative: int
    neutral: int


class CollectionTally(Result):
    collection: str
    positive: int
    negative: int
    neutral: int
    helpful_share: float | None = None


class Complaint(Result):
    document: Brief
    negative: int
    positive: int
    reasons: list[str]


class AnalyticsAnswer(ContractAnswer):
    collections: list[CollectionTally]
    complaints: list[Complaint]


class AskedQuestion(Result):
    query: str
    collections: list[str]
    results: int
    best_score: float
    took_ms: float
    at: Time


class HistoryAnswer(ContractAnswer):
    queries: list[AskedQuestion]
    next_cursor: str | None = None


class HistoryCleared(ContractAnswer):
    message: str
    removed: int
