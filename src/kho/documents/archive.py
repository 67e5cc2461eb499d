"""Everything of documents as JSON lines: each with its place in the tree, all revisions, scheduled deletions and
webhooks. Files for people are the matter of `folder_sync`."""

import secrets
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import Field

from kho.documents import indexing, model, store, tree
from kho.documents.contract import ADMIN
from kho.documents.deletion import SCHEDULED, ScheduledDeletion
from kho.documents.store import DocumentVersion, Revision, StoredDocument
from kho.documents.webhooks.model import AddWebhook, Event
from kho.kernel import (
    Call,
    Cursor,
    Database,
    ExportedLines,
    Id,
    InvalidParams,
    Line,
    Moment,
    Params,
    Result,
    Tx,
    Whole,
    transfer,
)
from kho.kernel.params import ForeignId
from kho.kernel.transfer import Part, Place
from kho.lib.clock import Clock
from kho.lib.dataclass import dataclass
from kho.lib.sql import NOTHING, Table, insert
from kho.search.indexing.index import Index, Prepared

_Number = Annotated[int, Field(ge=1, lt=2**62), Whole]
_Text = Annotated[str, Field(max_length=2_000)]
Lines = Iterable[tuple[Place, dict[str, Any]]]


class Made(Line):
    """What a document said at a revision, and who made it so."""

    id: Id
    revision: _Number
    body_of: _Number
    mime_type: model.MimeType
    metadata: model.Metadata
    is_human_readable: bool
    change: Annotated[str, Field(max_length=64)]
    made_by: ForeignId
    made_at: Moment

    @property
    def stored(self) -> Revision:
        version = DocumentVersion(self.body_of, self.mime_type, self.metadata, self.is_human_readable)
        return Revision(self.revision, self.change, self.made_by, self.made_at, version)


class DocumentLine(Made):
    """A document as it is now; its earlier revisions follow after all documents."""

    kind: Literal["document"] = "document"
    parent: Id
    place: Annotated[int, Whole]
    created_at: Moment
    updated_at: Moment
    deleted_at: Moment | None = None
    deletion: Id | None = None
    body: model.Body


class RevisionLine(Made):
    kind: Literal["revision"] = "revision"
    body: model.Body | None = None
    """Only where it was changed with this revision."""


class DeletionLine(Line):
    kind: Literal["deletion"] = "deletion"
    id: Id
    due_at: Moment
    reason: _Text
    deleted_by: _Text
    scheduled_by: _Text


class WebhookLine(Line):
    kind: Literal["webhook"] = "webhook"
    id: Id
    url: Annotated[str, Field(max_length=2_000)]
    events: list[Event]
    created_at: Moment
    secret: Annotated[str, Field(min_length=16, max_length=256)] | None = None


KINDS = {"document": DocumentLine, "revision": RevisionLine, "deletion": DeletionLine, "webhook": WebhookLine}
_SOME = {
    "kind": "deletion",
    "id": "doc-onboarding",
    "due_at": "2027-01-01T00:00:00Z",
    "reason": "it has ended",
    "deleted_by": "An",
    "scheduled_by": "An",
}


class SaveDocuments(Params):
    with_secrets: Annotated[bool, Field(description="Also the secrets that webhooks sign with.")] = False
    cursor: Cursor | None = None
    limit: Annotated[int, Field(ge=1, le=1000), Whole] = 500


class LoadDocuments(Params):
    lines: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=1000)]


class LoadedDocuments(Result):
    imported: int
    unchanged: int
    notes: list[str] | None = None


@dataclass(frozen=True, slots=True)
class Hook:
    id: str
    url: str
    secret: str
    events: list[str]
    created_at: int


HOOKS = Table("document_webhooks", Hook, json=("events",))


@dataclass(slots=True, kw_only=True)
class Archive:
    db: Database
    index: Index
    clock: Clock
    timeout: float

    @ADMIN.read("save_documents", tool=False, action=False, example={"limit": 100})
    async def save(self, params: SaveDocuments, call: Call) -> ExportedLines:
        """Documents with all their revisions, scheduled deletions and webhooks, a page at a time."""

        def hook(row: Hook) -> dict[str, Any]:
            return WebhookLine.of(row, secret=row.secret if params.with_secrets else None)

        parts = [
            Part("document", (str,), _documents),
            Part("revision", (str, int), _revisions),
            transfer.part("deletion", SCHEDULED, {"id": str}, DeletionLine.of),
            transfer.part("webhook", HOOKS, {"id": str}, hook),
        ]
        return await self.db.read(
            lambda tx: transfer.page(tx, call.tenant, parts, params.cursor, params.limit),
            timeout=call.remaining(self.timeout),
        )

    @ADMIN.write("load_documents", tool=False, action=False, example={"lines": [_SOME]})
    async def load(self, params: LoadDocuments, call: Call) -> LoadedDocuments:
        """Take what save_documents gave; documents that are here already stay as they are."""
        lines, now = transfer.parsed(params.lines, KINDS, _refused), self.clock()
        ids = sorted({line.id for line in lines if isinstance(line, DocumentLine | RevisionLine)})
        entries: dict[str, Prepared] = {}
        for line in lines:
            if isinstance(line, DocumentLine) and line.deleted_at is None:
                about = line.parent, line.created_at, line.stored.version, line.body
                entries[line.id] = await indexing.checked(self.index, call.tenant, line.id, *about)
            if isinstance(line, WebhookLine):
                AddWebhook(url=line.url)

        def work(tx: Tx) -> LoadedDocuments:
            tree.hold(tx, call.tenant)
            notes = list[str]()
            before = store.size_of(tx, call.tenant, ids)
            count = sum(self._taken(tx, call.tenant, line, entries, notes) for line in lines)
            grown = store.size_of(tx, call.tenant, ids) - before
            self.index.count(tx, store.REVISIONS, call.tenant, grown, by_key=call.shared)
            if count:
                call.audit(tx, "", at=now, imported=count)
            return LoadedDocuments(imported=count, unchanged=len(lines) - count, notes=notes or None)

        return await call.commit(self.db, work)

    def _taken(self, tx: Tx, tenant: str, line: Line, entries: dict[str, Prepared], notes: list[str]) -> bool:
        match line:
            case DocumentLine():
                taken = _take_document(tx, tenant, line)
                if taken and line.id in entries:
                    self.index.put(tx, [entries[line.id]])
                return taken
            case RevisionLine():
                document = store.get(tx, tenant, line.id)
                earlier = document is not None and line.revision < document.revision
                return earlier and _take_revision(tx, tenant, line)
            case DeletionLine():
                document = store.get(tx, tenant, line.id)
                if document is None or document.deleted:
                    return False
                row = ScheduledDeletion(tenant=tenant, **line.values("kind"))
                return bool(SCHEDULED.insert(tx, row, conflict=NOTHING))
            case WebhookLine():
                secret = line.secret or f"whsec_{secrets.token_urlsafe(32)}"
                taken = bool(
                    HOOKS.insert(tx, Hook(**line.values("kind", secret=secret)), conflict=NOTHING, tenant=tenant)
                )
                if taken and line.secret is None:
                    notes.append(f"The webhook to {line.url} has a new secret, which is not shown again: {secret}")
                return taken
            case _:
                return False


def _documents(tx: Tx, tenant: str, after: Place, limit: int) -> Lines:
    statement = f"SELECT {store.COLUMNS} FROM {store.FROM} WHERE d.tenant = $1 AND d.id > $2 ORDER BY d.id LIMIT $3"
    for row in tx.all(statement, tenant, after[0] if after else "", limit):
        document = store.document_of(row)
        made = store.revision(tx, tenant, document.id, document.revision)
        assert made is not None
        body = store.body_of(tx, tenant, document)
        yield [document.id], DocumentLine.of(document, **_made(made), body=body)


def _revisions(tx: Tx, tenant: str, after: Place, limit: int) -> Lines:
    statement = (
        "SELECT r.id, r.revision, c.body_of FROM document_revisions AS r "
        "JOIN documents AS d ON d.tenant = r.tenant AND d.id = r.id AND r.revision < d.revision "
        "JOIN document_revisions AS c ON c.tenant = d.tenant AND c.id = d.id AND c.revision = d.revision "
        "WHERE r.tenant = $1 AND (r.id, r.revision) > ($2, $3) ORDER BY r.id, r.revision LIMIT $4"
    )
    for id, number, current in tx.all(statement, tenant, *(after or ("", 0)), limit):
        made = store.revision(tx, tenant, id, number)
        assert made is not None
        own = made.version.body_of == number != current
        body = store.body(tx, tenant, id, number) if own else None
        yield [id, number], RevisionLine.of(made, **_made(made), id=id, body=body)


def _made(made: Revision) -> dict[str, Any]:
    version = made.version
    fields = {name: getattr(made, name) for name in ("revision", "change", "made_by", "made_at")}
    named = {name: getattr(version, name) for name in ("body_of", "mime_type", "metadata", "is_human_readable")}
    return {**fields, **named}


def _take_document(tx: Tx, tenant: str, line: DocumentLine) -> bool:
    row = StoredDocument(
        line.id,
        line.parent,
        line.place,
        line.revision,
        line.created_at,
        line.updated_at,
        line.deleted_at,
        line.deletion,
        line.stored.version,
    )
    if line.id == model.ROOT or not store.insert(tx, tenant, row):
        return False
    store.add_revision(tx, tenant, line.id, line.stored, None)
    _put_body(tx, tenant, line.id, line.body_of, line.body)
    return True


def _take_revision(tx: Tx, tenant: str, line: RevisionLine) -> bool:
    if store.revision(tx, tenant, line.id, line.revision) is not None:
        return False
    store.add_revision(tx, tenant, line.id, line.stored, None)
    if line.body is not None:
        _put_body(tx, tenant, line.id, line.revision, line.body)
    return True


def _put_body(tx: Tx, tenant: str, id: str, revision: int, body: str) -> None:
    row = {"tenant": tenant, "id": id, "revision": revision, "body": body}
    insert(tx, "document_bodies", row, NOTHING)


def _refused(message: str, field: str) -> InvalidParams:
    return InvalidParams(message, field=f"lines.{field}")
