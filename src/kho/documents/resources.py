"""Documents as MCP resources: kho://documents/{id}, in their own MIME type."""

from collections.abc import Sequence

from kho.documents import store
from kho.documents.deletion import CurrentReads
from kho.documents.store import StoredDocument
from kho.kernel import Call, Resource, ResourceContent, Tx, paging
from kho.lib.dataclass import dataclass

PREFIX = "kho://documents/"
PAGE = 100


@dataclass(slots=True, kw_only=True)
class DocumentResources:
    """Implements the kernel's `Resources`."""

    scope = "docs:read"
    templates = (Resource(PREFIX + "{id}", "Document", "The current text of a document.", "text/markdown"),)
    reads: CurrentReads

    async def page(self, call: Call, cursor: str | None) -> tuple[Sequence[Resource], str | None]:
        [after] = paging.place(cursor, str) or ("",)
        found = await self.reads.read(call, lambda tx: store.by_id(tx, call.tenant, after, PAGE + 1))
        page, more = paging.cut(found, PAGE, lambda one: [one.id])
        return [_resource(one) for one in page], more

    async def read(self, call: Call, uri: str) -> ResourceContent | None:
        if not uri.startswith(PREFIX):
            return None
        id = uri.removeprefix(PREFIX)

        def work(tx: Tx) -> ResourceContent | None:
            document = store.get(tx, call.tenant, id)
            if document is None or document.deleted:
                return None
            return ResourceContent(uri, document.version.mime_type, store.body_of(tx, call.tenant, document))

        return await self.reads.read(call, work)

    async def complete(self, call: Call, uri: str, argument: str, value: str) -> Sequence[str]:
        if uri != PREFIX + "{id}" or argument != "id":
            return []
        return await self.reads.read(call, lambda tx: store.beginning_with(tx, call.tenant, value, PAGE))


def _resource(document: StoredDocument) -> Resource:
    return Resource(
        PREFIX + document.id,
        document.version.title or document.id,
        f"Revision {document.revision}",
        document.version.mime_type,
    )
