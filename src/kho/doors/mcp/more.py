"""The tool `more`: lists the tools that a client does not list, explains one, and runs it.

A model can only call what its client lists. This way a short list does not keep it from the rest.
"""

from collections.abc import Awaitable, Callable, Sequence
from difflib import get_close_matches
from typing import Annotated, Any

import orjson
from pydantic import Field

from kho.kernel.call import Call
from kho.kernel.errors import InvalidParams
from kho.kernel.operation import Operation
from kho.kernel.params import Params
from kho.kernel.registry import Registry
from kho.kernel.toolset import MORE
from kho.lib.dataclass import dataclass


class MoreParams(Params):
    tool: Annotated[str | None, Field(max_length=64, description="Tool to explain.")] = None
    arguments: Annotated[dict[str, Any] | None, Field(description="Run the tool with these; {} if it takes none.")] = (
        None
    )


@dataclass(frozen=True, slots=True)
class Chosen:
    """The tool to run, which the door then calls as if the client had: with the same checks, audit and answer."""

    operation: Operation
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class More:
    registry: Registry
    unlisted: Callable[[Call], Awaitable[Sequence[Operation]]]
    """Finds the tools that the caller may use but does not list."""

    def operation(self) -> Operation:
        return Operation(
            name=f"mcp.{MORE}",
            title="More tools",
            summary="List further tools by purpose, explain one, or run it.",
            description="Use it when no listed tool fits. Alone it lists further tools by purpose; with `tool` it "
            "explains one; with `arguments`, too, it runs it.",
            params=MoreParams,
            run=self.run,
            scope=frozenset(self.registry.scopes),
            effect="write",
            hands_on=True,
            tool=MORE,
            text=str,
            markdown=True,
            open_world=True,
        )

    async def run(self, params: MoreParams, call: Call) -> str | Chosen:
        if params.tool is None:
            if params.arguments is not None:
                raise InvalidParams("Name the tool that takes these arguments.", field="tool")
            return self._list(await self.unlisted(call))
        operation = await self._find(params.tool, call)
        if params.arguments is None:
            return _explained(operation)
        if operation.effect == "destructive":
            return f"{_refused(operation)}\n\n{_explained(operation)}"
        return Chosen(operation, params.arguments)

    async def _find(self, name: str, call: Call) -> Operation:
        usable = [one for one in self.registry.operations(call.principal) if one.tool]
        found = next((one for one in usable if one.tool == name), None)
        found = found or await self.registry.absent_tool(name, call.principal)
        if found is None:
            near = get_close_matches(name, [one.tool for one in usable if one.tool], 1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise InvalidParams(f"There is no tool called '{name}'.{hint} '{MORE}' alone lists them.", field="tool")
        return found

    def _list(self, operations: Sequence[Operation]) -> str:
        parts: list[str] = []
        for capability in self.registry.capabilities:
            lines = [f"- {one.tool}: {one.summary}" for one in operations if one.capability == capability.name]
            if lines:
                parts.append("\n".join([f"{capability.summary or capability.name}", *lines]))
        if not parts:
            return "There are no further tools: all that you may use are listed."
        return "\n\n".join([*parts, f"Call {MORE} with a tool's name to see what it takes."])


def _explained(operation: Operation) -> str:
    schema = orjson.dumps(operation.input_schema).decode()
    how = (
        "It deletes or hides something." if operation.effect == "destructive" else f"Run it with {MORE} and arguments."
    )
    return f"{operation.tool}: {operation.description or operation.summary}\n{how}\nArguments: {schema}"


def _refused(operation: Operation) -> str:
    return (
        f"Not run: {operation.tool} deletes or hides something, so it must be listed for your user to confirm it. Ask "
        f"your user to start Kho with --tools default,{operation.tool} (or KHO_MCP__TOOLS, or ?tools= in the address), "
        f"then call {operation.tool} itself."
    )
