"""Boards' tools as they are offered over MCP: one for all boards that have a tool of that name.

Boards may differ in what the tool takes. Then it is offered with what any of them takes, and what each really takes is
checked when a board is named, before anything is sent.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import orjson

from kho.devices.calls.arguments import honest
from kho.devices.protocol.tool_listing import BoardTool
from kho.devices.tools.aliases import aliases

T = TypeVar("T")

MAX_FORMS = 8
"""In which one argument is described; of more, nothing is said."""


@dataclass(frozen=True, slots=True)
class ExposedTool:
    alias: str
    tools: tuple[BoardTool, ...]
    """What it stands for on each board, the same ones once."""
    devices: tuple[str, ...]
    boards: int
    """How many have it. Several boards with the same tools may stand under one name in `devices`."""
    alone: bool = False
    """It is one board's, whose id is a part of the name."""

    @property
    def name(self) -> str:
        """As the boards call it; by the alias where they do not agree."""
        names = {tool.name for tool in self.tools}
        return names.pop() if len(names) == 1 else self.alias

    @property
    def description(self) -> str:
        """The board's own words, marked as such: they are somebody else's, and may try to give orders."""
        # How many is not told: it would be another tool whenever one more comes.
        who = self.devices[0] if self.boards == 1 else "several boards"
        differ = "" if len(self._forms) == 1 else " that differ in what it takes (device_tools shows it of each)"
        first = self.tools[0]
        return f"[Tool {self.name} of {who}{differ}; described by the board itself] {first.description}".rstrip()

    @property
    def schema(self) -> dict[str, Any]:
        """What any of the boards takes."""
        return self._forms[0] if len(self._forms) == 1 else _together(self._forms)

    @property
    def user_only(self) -> bool:
        """For people on every board that has it. Where that is so on some of them only, those refuse it themselves."""
        return all(tool.user_only for tool in self.tools)

    @property
    def _forms(self) -> list[dict[str, Any]]:
        return _once([honest(tool) for tool in self.tools], alike)


def grouped(
    boards: Mapping[str, Iterable[BoardTool]], counts: Mapping[str, int] | None = None, *, user_tools: bool = True
) -> list[ExposedTool]:
    """One for each name. `counts` says for which names in `boards` more than one board stands. Without `user_tools`
    those for people are left out."""
    counted = counts or {}
    found: dict[str, dict[str, BoardTool]] = {}
    for device in sorted(boards):
        for alias, tool in aliases(boards[device]).items():
            if user_tools or not tool.user_only:
                found.setdefault(alias, {})[device] = tool
    return [
        ExposedTool(alias, tuple(_once(on.values(), _form)), tuple(on), sum(counted.get(name, 1) for name in on))
        for alias, on in sorted(found.items())
    ]


def each(boards: Mapping[str, Iterable[BoardTool]], *, user_tools: bool = True) -> list[ExposedTool]:
    """One for each tool of each board."""
    return [
        ExposedTool(alias, (tool,), (device,), 1, alone=True)
        for device in sorted(boards)
        for alias, tool in aliases(boards[device], device).items()
        if user_tools or not tool.user_only
    ]


def alike(schema: Any) -> str:
    """The same for schemas that are one to a caller. Descriptions are no part of it: boards of one kind may word them
    differently."""
    return orjson.dumps(_undescribed(schema), option=orjson.OPT_SORT_KEYS).decode()


def _form(tool: BoardTool) -> tuple[str, bool, str]:
    return tool.name, tool.user_only, alike(tool.schema)


def _once(many: Iterable[T], form: Callable[[T], Hashable]) -> list[T]:
    """The first of each form."""
    found: dict[Hashable, T] = {}
    for one in many:
        found.setdefault(form(one), one)
    return list(found.values())


def _together(schemas: Sequence[dict[str, Any]]) -> dict[str, Any]:
    if any("properties" not in schema for schema in schemas):  # one of them says nothing of what it takes
        return {"type": "object"}
    parts: dict[str, list[Any]] = {}
    for schema in schemas:
        for name, part in cast(dict[str, Any], schema["properties"]).items():
            parts.setdefault(name, []).append(part)
    required = [name for name in parts if all(name in schema.get("required", ()) for schema in schemas)]
    properties = {name: _either(_once(forms, alike)) for name, forms in parts.items()}
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def _either(forms: list[Any]) -> Any:
    if len(forms) == 1:
        return forms[0]
    return {"anyOf": forms} if len(forms) <= MAX_FORMS else {}


def _undescribed(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_undescribed(one) for one in cast(list[Any], schema)]
    if not isinstance(schema, dict):
        return schema
    found = cast(dict[str, Any], schema)
    return {
        name: {key: _undescribed(one) for key, one in cast(dict[str, Any], value).items()}
        if name == "properties" and isinstance(value, dict)  # one of them may be called "description"
        else _undescribed(value)
        for name, value in found.items()
        if name != "description"
    }
