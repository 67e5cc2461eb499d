"""Documents as resources: kho://documents/{id}, in their own MIME type."""

from collections.abc import Sequence

from kho.documents import store
from kho.documents.deleting import Deleting
from kho.documents.store import Document
from kho.kernel import paging
from kho.kernel.call import Call
from kho.kernel.capability import Content, Resource
from kho.kernel.ports import Tx

PREFIX = "kho://documents/"
PAGE = 100


class DocumentResources:
    """The `Resources` of the kernel."""

    scope = "docs:read"
    templates = (Resource(PREFIX + "{id}", "Document", "What a document says now.", "text/markdown"),)

    def __init__(self, deleting: Deleting, timeout: float) -> None:
        self._deleting = deleting
        self._timeout = timeout

    async def page(self, call: Call, cursor: str | None) -> tuple[Sequence[Resource], str | None]:
        [after] = paging.place(cursor, str) or ("",)
        found = await self._deleting.read(call, lambda tx: store.by_id(tx, call.tenant, after, PAGE + 1), self._timeout)
        page = found[:PAGE]
        return [_resource(one) for one in page], paging.encode([page[-1].id]) if len(found) > PAGE else None

    async def read(self, call: Call, uri: str) -> Content | None:
        if not uri.startswith(PREFIX):
            return None
        id = uri.removeprefix(PREFIX)

        def work(tx: Tx) -> Content | None:
            document = store.get(tx, call.tenant, id)
            if document is None or document.deleted:
                return None
            body = store.body(tx, call.tenant, id, document.saying.body_of)
            return Content(uri, document.saying.mime_type, body)

        return await self._deleting.read(call, work, self._timeout)

    async def complete(self, call: Call, uri: str, argument: str, value: str) -> Sequence[str]:
        if uri != PREFIX + "{id}" or argument != "id":
            return []
        return await self._deleting.read(
            call, lambda tx: store.beginning_with(tx, call.tenant, value, 100), self._timeout
        )


def _resource(document: Document) -> Resource:
    return Resource(
        PREFIX + document.id,
        document.saying.title or document.id,
        f"Revision {document.revision}",
        document.saying.mime_type,
    )
