"""Prompts over MCP."""

from collections.abc import Callable, Iterator
from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp.server.context import ServerRequestContext

from kho.kernel import paging
from kho.kernel.call import Call
from kho.kernel.capability import Prompt
from kho.kernel.checkpoint import Checkpoint
from kho.kernel.errors import InvalidParams, KhoError, TooManyRequests

Context = ServerRequestContext[Any, Any]


class Prompts:
    def __init__(self, checkpoint: Checkpoint, call_for: Callable[[Context], Call], page_size: int) -> None:
        self._checkpoint = checkpoint
        self._call_for = call_for
        self._page_size = page_size

    async def page(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
        allowed = [_shown(prompt) for prompt in self._visible(self._call_for(ctx))]
        try:
            page, more = paging.page(allowed, params.cursor if params else None, self._page_size)
        except InvalidParams as error:
            raise MCPError(types.INVALID_PARAMS, error.message) from None
        return types.ListPromptsResult(prompts=list(page), next_cursor=more)

    async def get(self, ctx: Context, params: types.GetPromptRequestParams) -> Any:
        call = self._call_for(ctx)
        prompt = next((prompt for prompt in self._visible(call) if prompt.name == params.name), None)
        if prompt is None:
            raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {params.name}")
        arguments = params.arguments or {}
        missing = [
            argument.name for argument in prompt.arguments if argument.required and argument.name not in arguments
        ]
        if missing:
            raise MCPError(types.INVALID_PARAMS, f"The prompt needs: {', '.join(missing)}")
        try:
            rendered = await prompt.render(arguments, call)
        except TooManyRequests:
            raise
        except KhoError as error:
            code = types.INVALID_PARAMS if error.status < 500 else types.INTERNAL_ERROR
            raise MCPError(code, error.message, error.as_dict()) from None
        if isinstance(rendered, types.Result):
            return rendered  # made by a capability that speaks MCP itself
        message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=rendered))
        return types.GetPromptResult(description=prompt.description, messages=[message])

    def _visible(self, call: Call) -> Iterator[Prompt]:
        return (prompt for one in self._checkpoint.visible(call.principal) for prompt in one.prompts)


def _shown(prompt: Prompt) -> types.Prompt:
    arguments = [
        types.PromptArgument(name=a.name, description=a.description, required=a.required) for a in prompt.arguments
    ]
    return types.Prompt(name=prompt.name, description=prompt.description, arguments=arguments)
