"""What is typed for the operations whose parameters have parts: each part has a flag."""

from kho.kernel.command import Command

_GROUP = "Documents: a tree with revisions, an audit log and answered questions."
_ID = {"document_id": "doc-onboarding"}
_LINE = "Ask for access on the first day."
_PARTS = {"parent_id": "parent", "metadata.tags": "tag", "is_human_readable": "human-readable"}
_PATCH = {
    "patch.metadata.tags": "tag",
    "patch.is_human_readable": "human-readable",
    "update_mask": "mask",
    "last_known_revision": "revision",
}
_FILTERS = {
    "filters.tags": "tag",
    "filters.tags_any": "any-tag",
    "filters.parent_id": "parent",
    "filters.is_human_readable": "human-readable",
    "context_hints.preferred_format": "format",
    "routing.allow_external_search": "web",
}

CREATE = Command(
    "docs create",
    ("document_id",),
    names=_PARTS,
    from_file="content.body",
    example={**_ID, "content": {"body": _LINE}, "metadata": {"title": "Onboarding", "tags": ["ops"]}},
    group=_GROUP,
)
UPDATE = Command(
    "docs update",
    ("document_id",),
    names=_PATCH,
    from_file="patch.content.body",
    masks=("patch", "update_mask"),
    example={**_ID, "patch": {"content": {"body": _LINE}}, "last_known_revision": 1},
)
DELETE = Command(
    "docs delete",
    ("document_id",),
    names={"delete_at": "at", "deleted_by": "by"},
    summary="Hide a document and all below it; 'docs restore' brings them back.",
)
QUERY = Command(
    "docs query",
    ("query",),
    sentence=True,
    names=_FILTERS,
    example={"query": "What do I do on the first day?", "filters": {"tags": ["ops"]}, "top_k": 3},
)
EDIT = Command(
    "docs edit",
    ("document_id",),
    names={"old_text": "old", "new_text": "new", "last_known_revision": "revision"},
)
DIFF = Command(
    "docs diff",
    ("document_id", "from_revision", "to_revision"),
    names={"from_revision": "from", "to_revision": "to"},
)
