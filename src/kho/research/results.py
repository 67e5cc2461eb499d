"""What comes out of the operations on research collections."""

from typing import Any, Literal

from pydantic import Field

from kho.kernel.params import Result, Time

ContentType = Literal["prose", "code_block", "table"]
Label = Literal["Highly Relevant", "Very Relevant", "Relevant", "Somewhat Relevant", "Low Relevance"]


class Metadata(Result):
    """The contract's three, and whose and where it is."""

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


class Refinement(Result):
    """The contract's three, and what the next call needs."""

    status: Literal["optimal", "clarification_needed", "too_broad"]
    suggestions: list[str]
    message: str
    searched: list[str] | None = None
    total: int | None = None
    next_cursor: str | None = None
    vectors_pending: int | None = None
    notes: list[str] | None = None


class QueryAnswer(Result):
    status: Literal["success", "error"] = "success"
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


class Document(Brief):
    hash: str
    language: str
    author: str | None = None
    published: str | None = None
    modified_at: Time | None = None
    created_at: Time
    content_types: dict[str, int]
    text: str | None = None


class Collection(Result):
    name: str
    type: str
    description: str
    documents: int
    chunks: int
    size_bytes: int
    projects: list[str]
    created_at: Time
    updated_at: Time


class CollectionInfo(Collection):
    id: str
    created_by: str
    embedder: str
    vectors_pending: int
    formats: dict[str, int]
    newest: list[Brief]


class CollectionsAnswer(Result):
    status: Literal["success", "error"] = "success"
    action: str
    message: str
    collection: CollectionInfo | None = None
    collections: list[Collection] | None = None
    moved: int | None = None
    total: int | None = None
    next_cursor: str | None = None


class Project(Result):
    name: str
    description: str
    directory: str | None = None
    collections: list[str]
    defaults: list[str]
    archived: bool
    created_at: Time
    updated_at: Time


class ProjectsAnswer(Result):
    status: Literal["success", "error"] = "success"
    action: str
    message: str
    project: Project | None = None
    projects: list[Project] | None = None
    next_cursor: str | None = None


class FileFailure(Result):
    path: str
    reason: str
    code: str | None = None


class Job(Result):
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
    error: str | None = None
    created_at: Time
    updated_at: Time
    finished_at: Time | None = None


class IngestAnswer(Result):
    status: Literal["success", "running", "error"] = "success"
    message: str
    job: Job
    chunks: int | None = None
    vectors_pending: int | None = None


class JobAnswer(Result):
    status: Literal["success", "error"] = "success"
    message: str
    job: Job


class JobsAnswer(Result):
    status: Literal["success", "error"] = "success"
    jobs: list[Job]


class Duplicate(Result):
    document_id: str
    title: str
    collection: str
    likeness: float


class AugmentAnswer(Result):
    status: Literal["success", "error"] = "success"
    outcome: Literal["added", "replaced", "unchanged", "duplicate"]
    message: str
    document: Brief | None = None
    duplicates: list[Duplicate]


class DocumentsAnswer(Result):
    status: Literal["success", "error"] = "success"
    documents: list[Brief]
    total: int
    next_cursor: str | None = None


class DocumentAnswer(Result):
    status: Literal["success", "error"] = "success"
    document: Document


class Removed(Result):
    status: Literal["success", "error"] = "success"
    message: str
    document: Brief


class Exported(Result):
    lines: list[dict[str, Any]]
    next_cursor: str | None = None


class Imported(Result):
    status: Literal["success", "error"] = "success"
    message: str
    collections: int
    imported: int
    replaced: int
    skipped: int


class Rebuilt(Result):
    status: Literal["success", "error"] = "success"
    message: str
    documents: int
    chunks: int


class Status(Result):
    status: Literal["success", "error"] = "success"
    collections: int
    documents: int
    chunks: int
    size_bytes: int
    projects: int = Field(description="Without those that are archived.")
    archived_projects: int = 0
    embedder: str
    vectors_pending: int
    problem: str | None = None
    last_change: Time | None = None
    jobs: list[Job]


class Similar(Result):
    document: Brief
    relevance_score: float
    relevance_label: Label


class SimilarAnswer(Result):
    status: Literal["success", "error"] = "success"
    document: Brief
    results: list[Similar]
    message: str


class FeedbackAnswer(Result):
    status: Literal["success", "error"] = "success"
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


class AnalyticsAnswer(Result):
    status: Literal["success", "error"] = "success"
    collections: list[CollectionTally]
    complaints: list[Complaint]


class AskedQuestion(Result):
    query: str
    collections: list[str]
    results: int
    best_score: float
    took_ms: float
    at: Time


class HistoryAnswer(Result):
    status: Literal["success", "error"] = "success"
    queries: list[AskedQuestion]
    next_cursor: str | None = None


class HistoryCleared(Result):
    status: Literal["success", "error"] = "success"
    message: str
    removed: int
