"""MCP resources: collections, documents and past questions, which clients list and read by URI."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar
from urllib.parse import quote, unquote

import orjson

from kho.kernel import Call, InvalidParams, Params, Resource, ResourceContent, Result
from kho.kernel.access import Scope
from kho.kernel.operation import plain
from kho.lib.dataclass import dataclass
from kho.research import model
from kho.research.contract import COLLECTIONS
from kho.research.errors import CollectionError, DocumentError
from kho.research.library.collections import Collections
from kho.research.library.documents import Documents
from kho.research.query.history import History

SCOPE = "research:read"
DOCUMENTS = "kho://research/documents"
HISTORY = "kho://research/history"
OFFERED = 100
"""Maximum completions offered."""

Read = Callable[[str, Call], Awaitable[Result]]
P = TypeVar("P", bound=Params)


@dataclass(slots=True, kw_only=True)
class ResearchResources:
    collections: Collections
    documents: Documents
    history: History
    scope: Scope = SCOPE

    @property
    def templates(self) -> Sequence[Resource]:
        return (
            Resource(
                f"{COLLECTIONS}/{{name}}", "collection", "A collection: counts, size, embedder, newest documents."
            ),
            Resource(f"{DOCUMENTS}/{{id}}", "document", "The metadata of a document, without its text."),
        )

    async def page(self, call: Call, cursor: str | None) -> tuple[Sequence[Resource], str | None]:
        try:
            answer = await self.collections.manage(
                _asked(model.ManageCollections, action="list", limit=100, cursor=cursor), call
            )
        except CollectionError as problem:
            raise InvalidParams(problem.message) from None
        found = [
            Resource(f"{COLLECTIONS}/{quote(one.name, safe='')}", one.name, one.description)
            for one in answer.collections or ()
        ]
        if cursor is None:
            found = [
                Resource(COLLECTIONS, "Collections", "All collections of the knowledge base."),
                Resource(HISTORY, "Query history", "Your recent questions."),
                *found,
            ]
        return found, answer.next_cursor

    async def read(self, call: Call, uri: str) -> ResourceContent | None:
        place, _, rest = uri.partition("?")[0].removeprefix("kho://research/").partition("/")
        name = unquote(rest)
        readers: dict[tuple[str, bool], Read] = {
            ("collections", False): self._all_collections,
            ("collections", True): self._collection,
            ("documents", True): self._document,
            ("history", False): self._questions,
        }
        reader = readers.get((place, bool(name)))
        if reader is None or not uri.startswith("kho://research/"):
            return None
        try:
            found = await reader(name, call)
        except (CollectionError, DocumentError, ValueError):
            return None
        return ResourceContent(uri, "application/json", orjson.dumps(plain(found)).decode())

    async def complete(self, call: Call, uri: str, argument: str, value: str) -> Sequence[str]:
        match uri.removeprefix("kho://research/"), argument:
            case "collections/{name}", "name":
                names = [one.name for one in (await self._collected(call)).collections or ()]
                begun = [name for name in names if name.casefold().startswith(value.casefold())]
                return [*begun, *(n for n in names if value.casefold() in n.casefold() and n not in begun)]
            case "documents/{id}", "id":
                listed = await self.documents.list_documents(
                    _asked(model.ListKbDocuments, filter=value[:500] or None, limit=OFFERED), call
                )
                return [one.id for one in listed.documents]
            case _:
                return ()

    async def _collected(self, call: Call) -> Any:
        return await self.collections.manage(_asked(model.ManageCollections, action="list", limit=200), call)

    async def _all_collections(self, name: str, call: Call) -> Result:
        whole = await self._collected(call)
        more = whole
        while more.next_cursor is not None:
            following = _asked(model.ManageCollections, action="list", limit=200, cursor=more.next_cursor)
            more = await self.collections.manage(following, call)
            whole.collections += more.collections
        whole.next_cursor = None
        return whole

    async def _collection(self, name: str, call: Call) -> Result:
        return await self.collections.manage(_asked(model.ManageCollections, action="info", collection_name=name), call)

    async def _document(self, id: str, call: Call) -> Result:
        return await self.documents.get_document(_asked(model.GetKbDocument, document=id), call)

    async def _questions(self, name: str, call: Call) -> Result:
        return await self.history.history(_asked(model.QueryHistory, limit=100), call)


def _asked(kind: type[P], **given: Any) -> P:
    return kind.model_validate(given)
