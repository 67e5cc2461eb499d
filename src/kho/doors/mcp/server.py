"""The MCP door: operations as tools, over any transport and in both protocol eras."""

import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

import mcp_types as types
import orjson
from mcp import MCPError
from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from kho.doors.mcp import toolsets
from kho.doors.mcp.more import Chosen, More
from kho.doors.mcp.notifications import Notices
from kho.doors.mcp.prompts import Prompts
from kho.doors.mcp.resources import ResourceList
from kho.doors.mcp.roots import StatedRoots
from kho.kernel import json_schema, paging
from kho.kernel.background import Background
from kho.kernel.call import Call, Principal
from kho.kernel.errors import KhoError
from kho.kernel.hub import Hub
from kho.kernel.operation import Operation
from kho.kernel.registry import Outcome
from kho.kernel.toolset import MORE, Selection

Context = ServerRequestContext[Any, Any]
PrincipalOf = Callable[[Context], Principal]
Handler = Callable[[Context, Any], Awaitable[Any]]

# Listings depend on the caller's credential, so no shared cache may keep them.
LISTS = CacheHint(ttl_ms=30_000, scope="private")
CONTENTS = CacheHint(ttl_ms=0, scope="private")

TOOLSET = "kho.toolset"
"""Key in the scope of an HTTP request of the tools that its address chooses."""
INSTRUCTIONS: ContextVar[str | None] = ContextVar("instructions", default=None)
"""Set while an HTTP request is handled whose address chooses its tools: the instructions that fit them."""


class HubServer(Server[Any]):
    """Also announces to clients of the handshake era that the lists of tools and resources may change. Instructions
    follow the tools that an address chooses."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        changes = notification_options or NotificationOptions(tools_changed=True, resources_changed=True)
        options = super().create_initialization_options(changes, experimental_capabilities, extensions)
        options.instructions = INSTRUCTIONS.get() or self.instructions
        return options

    def get_capabilities(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
        *,
        protocol_version: str | None = None,
    ) -> types.ServerCapabilities:
        """Announce log messages only to the era that gets them."""
        found = super().get_capabilities(
            notification_options, experimental_capabilities, extensions, protocol_version=protocol_version
        )
        if protocol_version in MODERN_PROTOCOL_VERSIONS:
            found.logging = None
        return found

    async def discover(self, ctx: Context, params: types.RequestParams | None) -> types.DiscoverResult:
        return types.DiscoverResult(
            supported_versions=list(MODERN_PROTOCOL_VERSIONS),
            capabilities=self.get_capabilities(protocol_version=ctx.protocol_version),
            instructions=INSTRUCTIONS.get() or self.instructions,
        )


class McpDoor:
    """MCP server of the hub. `selection` is what its clients list, unless an address chooses otherwise."""

    def __init__(
        self, hub: Hub, background: Background, principal_of: PrincipalOf, selection: Selection, page_size: int
    ) -> None:
        self._registry = hub.registry
        self._principal_of = principal_of
        self.own_selection = selection
        self._page_size = page_size
        self._roots = StatedRoots()
        self._more = More(hub.registry, self._unlisted).operation()
        checkpoint = hub.registry.checkpoint
        self.notices = Notices(checkpoint, principal_of, self.selection, background, hub.limiter)
        prompts = Prompts(checkpoint, self.call_for, page_size)
        resources = ResourceList(checkpoint, self.call_for, page_size)
        handlers: Mapping[str, Handler] = {
            "tools/list": self._list_tools,
            "tools/call": self._call_tool,
            "prompts/list": prompts.page,
            "prompts/get": _told(prompts.get),
            "resources/list": _told(resources.page),
            "resources/templates/list": resources.templates,
            "resources/read": _told(resources.read),
            "completion/complete": _told(resources.complete),
            "subscriptions/listen": self.notices.listen,
            "notifications/initialized": self._initialized,
            "notifications/roots/list_changed": self._roots.changed,
            "logging/setLevel": self.notices.set_level,
        }
        self.handlers = {name: self._discreet(handler) for name, handler in handlers.items()}
        told = self.instructions(selection)
        self.server = hub_server(hub.version, told, self.handlers.__getitem__, self._input_schema)

    def _discreet(self, handler: Handler) -> Handler:
        """Return the handler, whose errors repeat no secret of what the client sent."""

        async def answer(ctx: Context, params: Any) -> Any:
            try:
                return await handler(ctx, params)
            except MCPError as error:
                raise await self._without_secrets(error) from None

        return answer

    async def _without_secrets(self, error: MCPError) -> MCPError:
        told = KhoError(error.error.message, data=error.error.data)
        await self.redact(told)
        return MCPError(error.error.code, told.message, told.details["data"])

    def instructions(self, selection: Selection) -> str:
        return toolsets.instructions(selection, {one.name: one.instructions for one in self._registry.capabilities})

    def selection(self, ctx: Context) -> Selection:
        """Return what the client lists."""
        return self.own_selection if ctx.request is None else ctx.request.scope.get(TOOLSET, self.own_selection)

    async def redact(self, error: KhoError) -> None:
        await self._registry.redact(error)

    def select(self, names: Sequence[str]) -> Selection:
        """Return the selection of these names. Raises InvalidParams if one means nothing."""
        return self._registry.select(names)

    def call_for(self, ctx: Context) -> Call:
        return Call(
            self._principal_of(ctx),
            "mcp",
            progress=ctx.session.report_progress,
            roots=functools.partial(self._roots.of, ctx),
            peer=ctx,
        )

    async def _list_tools(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        try:
            tools = [tool(operation) for operation in await self._tools(ctx, listed=True)]
            if self.selection(ctx).lists_more:
                tools.append(tool(self._more))
            page, more = paging.page(tools, params.cursor if params else None, self._page_size)
        except KhoError as error:
            raise protocol_error(error) from None
        return types.ListToolsResult(tools=list(page), next_cursor=more)

    async def _call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> Any:
        principal, arguments = self._principal_of(ctx), params.arguments or {}
        operation = self._more if params.name == MORE else self._registry.tool(params.name, principal)
        operation = operation or await self._absent(params.name, principal)
        if operation is None:
            hint = f" '{MORE}' names those not in tools/list." if self.selection(ctx).lists_more else ""
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}.{hint}")
        outcome = await self._registry.call(operation, arguments, self.call_for(ctx))
        if isinstance(outcome.result, Chosen):
            operation, arguments = outcome.result.operation, outcome.result.arguments
            outcome = await self._registry.call(operation, arguments, self.call_for(ctx))
        error = outcome.error
        if error is not None and operation.protocol_errors and ctx.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS:
            raise MCPError(error.contract_code, error.message, error.contract_data())
        return tool_result(outcome)

    async def _absent(self, name: str, principal: Principal) -> Operation | None:
        try:
            return await self._registry.absent_tool(name, principal)
        except KhoError as error:
            raise protocol_error(error) from None

    async def _tools(self, ctx: Context, *, listed: bool) -> list[Operation]:
        """Return the tools that the caller may use and lists, or does not list."""
        principal, selection = self._principal_of(ctx), self.selection(ctx)
        idle = await self._registry.checkpoint.idle(principal.tenant)
        usable = (operation for operation in self._registry.operations(principal) if operation.tool)
        return [operation for operation in usable if selection.lists(operation, idle) is listed]

    async def _unlisted(self, call: Call) -> Sequence[Operation]:
        return await self._tools(call.peer, listed=False)

    def _input_schema(self, name: str) -> dict[str, Any] | None:
        operation = self._registry.tool(name)
        return operation.input_schema if operation else None

    async def _initialized(self, ctx: Context, params: types.NotificationParams) -> None:
        # Over HTTP, clients of the handshake era get notifications through their GET stream instead (see http.py).
        if ctx.request is None:
            self.notices.add(ctx)


def _told(handler: Handler) -> Handler:
    """Return the handler of what is no tool: its errors become those of the protocol."""

    async def handle(ctx: Context, params: Any) -> Any:
        try:
            return await handler(ctx, params)
        except KhoError as error:
            raise protocol_error(error) from None

    return handle


def hub_server(
    version: str,
    instructions: str,
    handler: Callable[[str], Handler],
    input_schema: Callable[[str], dict[str, Any] | None] | None = None,
) -> HubServer:
    """Create the SDK's server; `handler` returns the handler of a method."""
    server = HubServer(
        "kho",
        version=version,
        instructions=instructions,
        cache_hints={
            "server/discover": LISTS,
            "tools/list": LISTS,
            "prompts/list": LISTS,
            "resources/list": LISTS,
            "resources/templates/list": LISTS,
            "resources/read": CONTENTS,
        },
        get_tool_input_schema=input_schema,
        on_list_tools=handler("tools/list"),
        on_call_tool=handler("tools/call"),
        on_list_prompts=handler("prompts/list"),
        on_get_prompt=handler("prompts/get"),
        on_list_resources=handler("resources/list"),
        on_list_resource_templates=handler("resources/templates/list"),
        on_read_resource=handler("resources/read"),
        on_completion=handler("completion/complete"),
        on_subscriptions_listen=handler("subscriptions/listen"),
    )
    for notice in ("notifications/initialized", "notifications/roots/list_changed"):
        server.add_notification_handler(notice, types.NotificationParams, handler(notice))
    server.middleware.append(_unnamed)
    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, handler("logging/setLevel"))
    server.add_request_handler("server/discover", types.RequestParams, server.discover)
    return server


async def _unnamed(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Refuse an unknown method without its name, which the SDK repeats: it is the client's text."""
    try:
        return await call_next(ctx)
    except MCPError as error:
        if error.code == types.METHOD_NOT_FOUND:
            raise MCPError(error.code, error.message) from None
        raise


@functools.lru_cache(maxsize=4096)
def tool(operation: Operation) -> types.Tool:
    assert operation.tool is not None
    title = operation.title or operation.tool.replace("_", " ").capitalize()
    output = operation.output_schema
    return types.Tool(
        name=operation.tool,
        title=title,
        description=operation.description or operation.summary,
        input_schema=operation.literal_input or json_schema.compact(operation.input_schema, operation.explained),
        output_schema=None if output is None else json_schema.compact(output),
        annotations=types.ToolAnnotations(
            title=title,  # where clients before 2025-06-18 look for it
            read_only_hint=operation.effect == "read",
            destructive_hint=operation.effect == "destructive",
            open_world_hint=operation.open_world,
        ),
    )


def tool_result(outcome: Outcome) -> Any:
    """Convert an outcome to a tool result. A failure that a model can act on is a result with isError, in the
    contract's envelope if there is one."""
    if isinstance(outcome.result, types.Result):
        return outcome.result  # made by a capability that speaks MCP itself
    operation, error = outcome.operation, outcome.error
    value = outcome.value if error is None else operation.failure(error)
    told = operation.text(outcome.result) if operation.markdown and operation.text and error is None else None
    content = [{"type": "text", "text": orjson.dumps(value).decode() if told is None else told}]
    # Beside the result, whose keys a contract may fix, and where models see them.
    content += [{"type": "text", "text": f"Warning: {warning}"} for warning in outcome.warnings]
    # A plain dict in wire form: the SDK validates it when sending, so building its model first would be double work.
    result: dict[str, Any] = {"resultType": "complete", "content": content, "isError": error is not None}
    if operation.output_schema is not None:
        result["structuredContent"] = value
    return result


def protocol_error(error: KhoError) -> MCPError:
    return MCPError(error.rpc, error.message, error.as_dict())
