"""Resources over MCP: what the capabilities offer, one list after the other."""

import base64
from collections.abc import Callable, Sequence
from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp.server.context import ServerRequestContext

from kho.kernel import paging
from kho.kernel.call import Call
from kho.kernel.capability import Capability, Content, Resource
from kho.kernel.errors import InvalidParams

Context = ServerRequestContext[Any, Any]


class ResourceList:
    def __init__(self, capabilities: Sequence[Capability], call_for: Callable[[Context], Call], page_size: int) -> None:
        self._shelves = [capability.resources for capability in capabilities if capability.resources is not None]
        self._call_for = call_for
        self._page_size = page_size

    async def page(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
        """From one shelf after the other; the cursor says which shelf, and where on it."""
        shelf, inner = _position(params.cursor if params else None, len(self._shelves))
        if not self._shelves:
            return types.ListResourcesResult(resources=[])
        found: list[Resource] = []
        following = None
        while len(found) < self._page_size:  # many clients never ask for a second page
            some, more = await self._shelves[shelf].page(self._call_for(ctx), inner)
            found += some
            if more is None and shelf + 1 == len(self._shelves):
                following = None
                break
            shelf, inner = (shelf, more) if more is not None else (shelf + 1, None)
            following = paging.encode([shelf, inner])
        resources = [
            types.Resource(uri=r.uri, name=r.name, description=r.description, mime_type=r.mime_type) for r in found
        ]
        return types.ListResourcesResult(resources=resources, next_cursor=following)

    async def templates(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        templates = [
            types.ResourceTemplate(uri_template=t.uri, name=t.name, description=t.description, mime_type=t.mime_type)
            for shelf in self._shelves
            for t in shelf.templates
        ]
        return types.ListResourceTemplatesResult(resource_templates=templates)

    async def read(self, ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        call = self._call_for(ctx)
        uri = str(params.uri)
        for shelf in self._shelves:
            content = await shelf.read(call, uri)
            if content is not None:
                return types.ReadResourceResult(contents=[_shown(content)])
        raise MCPError(types.INVALID_PARAMS, "There is no such resource, or it is not yours.", {"uri": uri})

    async def complete(self, ctx: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        call = self._call_for(ctx)
        offered: list[str] = []
        reference = params.ref
        if isinstance(reference, types.ResourceTemplateReference):
            for shelf in self._shelves:
                offered += await shelf.complete(call, reference.uri, params.argument.name, params.argument.value)
        shown = offered[:100]
        completion = types.Completion(values=shown, total=len(offered), has_more=len(offered) > len(shown))
        return types.CompleteResult(completion=completion)


def _position(cursor: str | None, shelves: int) -> tuple[int, str | None]:
    try:
        shelf, inner = paging.place(cursor, int, str | None) or (0, None)
        if cursor is not None and not 0 <= shelf < shelves:
            raise paging.foreign()
    except InvalidParams as error:
        raise MCPError(types.INVALID_PARAMS, error.message) from None
    return shelf, inner


def _shown(content: Content) -> types.TextResourceContents | types.BlobResourceContents:
    if content.blob is not None:
        blob = base64.b64encode(content.blob).decode()
        return types.BlobResourceContents(uri=content.uri, mime_type=content.mime_type, blob=blob)
    return types.TextResourceContents(uri=content.uri, mime_type=content.mime_type, text=content.text or "")
