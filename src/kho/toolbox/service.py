"""The tool server: an operation for each tool, and the contract's methods tools/list and tools/call."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import JsonValue

from kho.kernel import Call, Command, Contract, Operation, Params, Result
from kho.toolbox.errors import UnknownTool
from kho.toolbox.tool import Tool

USE = "tools:use"


class ListTools(Params):
    cursor: str | None = None
    """Accepted but ignored: all tools fit on one page."""


class CallTool(Params):
    name: str
    arguments: dict[str, JsonValue] | None = None


class Described(Result):
    name: str
    description: str
    inputSchema: dict[str, Any]


class ListedTools(Result):
    tools: list[Described]


class ToolText(Result):
    type: str = "text"
    text: str


class ToolAnswer(Result):
    content: list[ToolText]


TOOLBOX = Contract("toolbox", read_scope=USE, write_scope=USE, tool=False, action=False)


class Toolbox:
    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._operations = {tool.name: _operation(tool) for tool in tools}

    @property
    def operations(self) -> Sequence[Operation]:
        return (*self._operations.values(), *TOOLBOX.bind(self))

    @TOOLBOX.read("tools/list")
    async def list_(self, params: ListTools, call: Call) -> ListedTools:
        """The tools of this server."""
        described = [
            Described(name=tool.name, description=tool.description, inputSchema=dict(tool.input_schema))
            for tool in self._tools.values()
        ]
        return ListedTools(tools=described)

    @TOOLBOX.read("tools/call", example={"name": "duckduckgo_search", "arguments": {"query": "sâu răng nguyên nhân"}})
    async def call(self, params: CallTool, call: Call) -> ToolAnswer:
        """Call a tool by its name."""
        operation = self._operations.get(params.name)
        if operation is None:
            raise UnknownTool(f"There is no tool called '{params.name}'. tools/list names them all.", field="name")
        return await operation.run(operation.parse(params.arguments or {}), call)


def _operation(tool: Tool) -> Operation:
    async def run(params: Any, call: Call) -> ToolAnswer:
        return ToolAnswer(content=[ToolText(text=await tool.run(params, call))])

    return Operation(
        name=f"toolbox.{tool.name}",
        summary=tool.description,
        params=tool.params,
        result=ToolAnswer,
        run=run,
        scope=USE,
        tool=tool.name,
        title=tool.title,
        open_world=tool.open_world,
        action=tool.name,
        cli=(Command(f"tools {tool.name.replace('_', '-')}", positional=(_first(tool.input_schema),), sentence=True),),
        example=tool.example,
        literal_input=tool.input_schema,
        text=lambda answer: "\n".join(part.text for part in answer.content),
        markdown=True,
    )


def _first(schema: Mapping[str, Any]) -> str:
    return str(schema["required"][0])
