"""Resources over MCP: the lists of all capabilities, one after the other."""

import base64
from collections.abc import Callable
from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp.server.context import ServerRequestContext

from kho.kernel import paging
from kho.kernel.call import Call
from kho.kernel.capability import Resource, ResourceContent, ResourceProvider
from kho.kernel.checkpoint import Checkpoint
from kho.kernel.errors import InvalidParams

Context = ServerRequestContext[Any, Any]


class ResourceList:
    def __init__(self, checkpoint: Checkpoint, call_for: Callable[[Context], Call], page_size: int) -> None:
        self._checkpoint = checkpoint
        self._call_for = call_for
        self._page_size = page_size

    async def page(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
        """Return one page of all capabilities' resources; the cursor holds the capability's index and the position in
        its list."""
        call = self._call_for(ctx)
        several = self._visible(call)
        index, inner = _position(params.cursor if params else None, len(several))
        if not several:
            return types.ListResourcesResult(resources=[])
        found: list[Resource] = []
        following = None
        while len(found) < self._page_size:  # fill the page: many clients never ask for a second one
            some, more = await several[index].page(call, inner)
            found += some
            if more is None and index + 1 == len(several):
                following = None
                break
            index, inner = (index, more) if more is not None else (index + 1, None)
            following = paging.encode([index, inner])
        resources = [
            types.Resource(uri=r.uri, name=r.name, description=r.description, mime_type=r.mime_type) for r in found
        ]
        return types.ListResourcesResult(resources=resources, next_cursor=following)

    async def templates(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        templates = [
            types.ResourceTemplate(uri_template=t.uri, name=t.name, description=t.description, mime_type=t.mime_type)
            for resources in self._visible(self._call_for(ctx))
            for t in resources.templates
        ]
        return types.ListResourceTemplatesResult(resource_templates=templates)

    async def read(self, ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        call = self._call_for(ctx)
        uri = str(params.uri)
        for resources in self._visible(call):
            content = await resources.read(call, uri)
            if content is not None:
                return types.ReadResourceResult(contents=[_shown(content)])
        raise MCPError(types.INVALID_PARAMS, "There is no such resource, or it is not yours.", {"uri": uri})

    async def complete(self, ctx: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        call = self._call_for(ctx)
        offered: list[str] = []
        reference = params.ref
        if isinstance(reference, types.ResourceTemplateReference):
            for resources in self._visible(call):
                offered += await resources.complete(call, reference.uri, params.argument.name, params.argument.value)
        shown = offered[:100]
        completion = types.Completion(values=shown, total=len(offered), has_more=len(offered) > len(shown))
        return types.CompleteResult(completion=completion)

    def _visible(self, call: Call) -> list[ResourceProvider]:
        return [one.resources for one in self._checkpoint.visible(call.principal) if one.resources is not None]


def _position(cursor: str | None, several: int) -> tuple[int, str | None]:
    try:
        index, inner = paging.place(cursor, int, str | None) or (0, None)
        if cursor is not None and not 0 <= index < several:
            raise paging.foreign()
    except InvalidParams as error:
        raise MCPError(types.INVALID_PARAMS, error.message) from None
    return index, inner


def _shown(content: ResourceContent) -> types.TextResourceContents | types.BlobResourceContents:
    if content.blob is not None:
        blob = base64.b64encode(content.blob).decode()
        return types.BlobResourceContents(uri=content.uri, mime_type=content.mime_type, blob=blob)
    return types.TextResourceContents(uri=content.uri, mime_type=content.mime_type, text=content.text or "")
