"""Checks of documents against each other: the tree, revisions with their bodies, and what is on its way to webhooks."""

from kho.documents import indexing
from kho.documents.model import ROOT
from kho.documents.store import SPACE
from kho.kernel.upkeep.checks import Checks, Rule
from kho.search.indexing.integrity import SliceUpkeep

_NO = "NOT EXISTS (SELECT 1 FROM {} AS x WHERE x.tenant = t.tenant AND {})"
_BODY = _NO.format("document_bodies", "x.id = t.id AND x.revision = t.body_of")
_TOLD = _NO.format("document_revisions", "x.id = t.id AND x.body_of = t.revision")
_DOCUMENT = _NO.format("documents", "x.id = t.id")
_CURRENT = _NO.format("document_revisions", "x.id = t.id AND x.revision = t.revision")
_PARENT = f"t.parent <> '{ROOT}' AND " + _NO.format("documents", "x.id = t.parent")
_LOST = "'{\"title\": ' || json_quote('Salvaged: ' || t.id) || '}'"
"""The metadata of what nothing but the text is left of."""

# In the order in which they are settled: what a body lacks first, then what a revision lacks, then the tree.
_RULES = (
    Rule(
        "document_bodies",
        "body",
        "of no revision",
        f"FROM document_bodies AS t WHERE {_TOLD}",
        (
            "INSERT OR IGNORE INTO document_revisions (tenant, id, revision, body_of, mime_type, metadata, "
            "is_human_readable, change, made_by, made_at) SELECT t.tenant, t.id, t.revision, t.revision, "
            f"'text/markdown', {_LOST}, 1, 'updated', 'salvage', 0 FROM document_bodies AS t WHERE {_TOLD}",
            # The revision is there, and its body is another.
            f"DELETE FROM document_bodies AS t WHERE {_TOLD}",
        ),
    ),
    Rule(
        "document_revisions",
        "revision",
        "without a body",
        f"FROM document_revisions AS t WHERE {_BODY}",
        (
            "INSERT OR IGNORE INTO document_bodies (tenant, id, revision, body) "
            f"SELECT t.tenant, t.id, t.body_of, '' FROM document_revisions AS t WHERE {_BODY}",
        ),
    ),
    Rule(
        "document_revisions",
        "revision",
        "of no document",
        f"FROM document_revisions AS t WHERE {_DOCUMENT}",
        (
            "INSERT INTO documents (tenant, id, parent, place, revision, created_at, updated_at) SELECT t.tenant, "
            f"t.id, '{ROOT}', 1 + (SELECT coalesce(max(place), 0) FROM documents AS x WHERE x.tenant = t.tenant), "
            "max(t.revision), min(t.made_at), max(t.made_at) FROM document_revisions AS t "
            f"WHERE {_DOCUMENT} GROUP BY t.tenant, t.id",
        ),
    ),
    Rule(
        "documents",
        "document",
        "without the revision that it is at",
        f"FROM documents AS t WHERE {_CURRENT}",
        (
            "UPDATE documents AS t SET revision = coalesce((SELECT max(x.revision) FROM document_revisions AS x "
            f"WHERE x.tenant = t.tenant AND x.id = t.id), max(1, t.revision)) WHERE {_CURRENT}",
            "INSERT OR IGNORE INTO document_bodies (tenant, id, revision, body) "
            f"SELECT t.tenant, t.id, t.revision, '' FROM documents AS t WHERE {_CURRENT}",
            "INSERT INTO document_revisions (tenant, id, revision, body_of, mime_type, metadata, is_human_readable, "
            f"change, made_by, made_at) SELECT t.tenant, t.id, t.revision, t.revision, 'text/markdown', {_LOST}, 1, "
            f"'updated', 'salvage', 0 FROM documents AS t WHERE {_CURRENT}",
        ),
    ),
    Rule(
        "documents",
        "document",
        "below a parent that is not there",
        f"FROM documents AS t WHERE {_PARENT}",
        (f"UPDATE documents AS t SET parent = '{ROOT}' WHERE {_PARENT}",),
    ),
    Rule(
        "documents",
        "document",
        "in a circle of parents",
        "FROM (WITH RECURSIVE below(tenant, id) AS (SELECT t.tenant, t.id FROM documents AS t WHERE t.parent = 'root' "
        f"OR ({_PARENT}) UNION ALL SELECT d.tenant, d.id FROM documents AS d JOIN below AS b "
        "ON d.tenant = b.tenant AND d.parent = b.id) SELECT tenant, id FROM documents EXCEPT "
        "SELECT tenant, id FROM below) AS apart",
    ),
    Rule(
        "document_deletions",
        "deletion with a date",
        "of no document",
        f"FROM document_deletions AS t WHERE {_DOCUMENT}",
        (f"DELETE FROM document_deletions AS t WHERE {_DOCUMENT}",),
    ),
    *(
        Rule(
            "document_deliveries",
            "delivery",
            f"of {what} that is not there",
            f"FROM document_deliveries AS t WHERE {missing}",
            (f"DELETE FROM document_deliveries AS t WHERE {missing}",),
        )
        for what, missing in (
            ("a webhook", _NO.format("document_webhooks", "x.id = t.webhook")),
            ("an event", _NO.format("document_events", "x.number = t.event")),
        )
    ),
)

UPKEEP = SliceUpkeep(
    space=SPACE,
    form=indexing.FORM,
    pages=indexing.all_documents,
    checks=Checks(
        rules=_RULES,
        json=(
            ("document_revisions", ("tenant", "id", "revision"), ("metadata",)),
            ("document_events", ("number",), ("body",)),
        ),
    ),
)
