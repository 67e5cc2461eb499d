"""The tool server: each tool as an operation of its own, and the contract's two methods over all of them."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import JsonValue

from kho.kernel.call import Call
from kho.kernel.command import Command
from kho.kernel.operation import Operation
from kho.kernel.params import Params, Result
from kho.toolbox.errors import UnknownTool
from kho.toolbox.tool import Tool

USE = "tools:use"


class ListTools(Params):
    cursor: str | None = None
    """Accepted: all tools fit on one page."""


class CallTool(Params):
    name: str
    arguments: dict[str, JsonValue] | None = None


class Described(Result):
    name: str
    description: str
    inputSchema: dict[str, Any]


class Tools(Result):
    tools: list[Described]


class Text(Result):
    type: str = "text"
    text: str


class Answer(Result):
    content: list[Text]


class Toolbox:
    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._operations = {tool.name: _operation(tool) for tool in tools}

    @property
    def operations(self) -> Sequence[Operation]:
        return (
            *self._operations.values(),
            Operation(
                name="toolbox.list",
                summary="The tools of this server.",
                params=ListTools,
                result=Tools,
                run=self._list,
                scope=USE,
                rpc="tools/list",
            ),
            Operation(
                name="toolbox.call",
                summary="Call a tool by its name.",
                params=CallTool,
                result=Answer,
                run=self._call,
                scope=USE,
                rpc="tools/call",
                example={"name": "duckduckgo_search", "arguments": {"query": "sâu răng nguyên nhân"}},
            ),
        )

    async def _list(self, params: ListTools, call: Call) -> Tools:
        described = [
            Described(name=tool.name, description=tool.description, inputSchema=dict(tool.input_schema))
            for tool in self._tools.values()
        ]
        return Tools(tools=described)

    async def _call(self, params: CallTool, call: Call) -> Answer:
        operation = self._operations.get(params.name)
        if operation is None:
            raise UnknownTool(
                f"There is no tool called '{params.name}'. tools/list names those there are.", field="name"
            )
        return await operation.run(operation.parse(params.arguments or {}), call)


def _operation(tool: Tool) -> Operation:
    async def run(params: Any, call: Call) -> Answer:
        return Answer(content=[Text(text=await tool.run(params, call))])

    return Operation(
        name=f"toolbox.{tool.name}",
        summary=tool.description,
        params=tool.params,
        result=Answer,
        run=run,
        scope=USE,
        tool=tool.name,
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
