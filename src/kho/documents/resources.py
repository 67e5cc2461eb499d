"""Documents as resources: kho://documents/{id}, in their own MIME type."""

from collections.abc import Sequence
from dataclasses import dataclass

from kho.documents import store
from kho.documents.deletion import CurrentReads
from kho.documents.store import Document
from kho.kernel import paging
from kho.kernel.call import Call
from kho.kernel.capability import Content, Resource
from kho.kernel.ports import Tx

PREFIX = "kho://documents/"
PAGE = 100


@dataclass(slots=True, kw_only=True)
class DocumentResources:
    """The `Resources` of the kernel."""

    scope = "docs:read"
    templates = (Resource(PREFIX + "{id}", "Document", "What a document says now.", "text/markdown"),)
    reads: CurrentReads

    async def page(self, call: Call, cursor: str | None) -> tuple[Sequence[Resource], str | None]:
        [after] = paging.place(cursor, str) or ("",)
        found = await self.reads.read(call, lambda tx: store.by_id(tx, call.tenant, after, PAGE + 1))
        page, more = paging.cut(found, PAGE, lambda one: [one.id])
        return [_resource(one) for one in page], more

    async def read(self, call: Call, uri: str) -> Content | None:
        if not uri.startswith(PREFIX):
            return None
        id = uri.removeprefix(PREFIX)

        def work(tx: Tx) -> Content | None:
            document = store.get(tx, call.tenant, id)
            if document is None or document.deleted:
                return None
            return Content(uri, document.version.mime_type, store.body_of(tx, call.tenant, document))

        return await self.reads.read(call, work)

    async def complete(self, call: Call, uri: str, argument: str, value: str) -> Sequence[str]:
        if uri != PREFIX + "{id}" or argument != "id":
            return []
        return await self.reads.read(call, lambda tx: store.beginning_with(tx, call.tenant, value, PAGE))


def _resource(document: Document) -> Resource:
    return Resource(
        PREFIX + document.id,
        document.version.title or document.id,
        f"Revision {document.revision}",
        document.version.mime_type,
    )
