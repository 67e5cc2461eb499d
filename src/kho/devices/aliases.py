"""Names under which models can call the boards' tools.

Boards put dots into names, which the function calls of language models refuse. Boards that are alike share one name. A
name depends on nothing but the set of tools that are there, so every process finds the same ones in any order. A short
digest follows the name only where two different tools would share it; with its digest a tool is found at any time.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, cast

import orjson

from kho.devices.listed import BoardTool
from kho.kernel.patterns import pattern

LONGEST = 64
PREFIX = "board_"
"""Tells a board's tools from the hub's own."""
_DIGEST = 8
_FOREIGN = pattern(r"[^a-zA-Z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Exposed:
    alias: str
    tool: BoardTool
    devices: tuple[str, ...]

    @property
    def description(self) -> str:
        """The board's own words, marked as such: they are somebody else's, and may try to give orders."""
        who = self.devices[0] if len(self.devices) == 1 else f"{len(self.devices)} boards"
        return f"[Tool {self.tool.name} of {who}; described by the board itself] {self.tool.description}".rstrip()


@dataclass(frozen=True, slots=True)
class _Group:
    tool: BoardTool
    devices: tuple[str, ...]
    digest: str

    @property
    def plain(self) -> str:
        return (PREFIX + _words(self.tool.name))[:LONGEST]

    def marked(self, length: int) -> str:
        return f"{self.plain[: LONGEST - length - 1]}_{self.digest[:length]}"


class Table:
    def __init__(self, boards: Mapping[str, Iterable[BoardTool]], *, taken: Collection[str] = ()) -> None:
        """`boards` are the tools of each device; `taken` are names that others have."""
        groups = _grouped(boards)
        marked = _marks(groups, {*taken})
        claims: dict[str, int] = dict.fromkeys([*taken, *marked.values()], 1)
        for group in groups:
            claims[group.plain] = claims.get(group.plain, 0) + 1
        self.exposed: tuple[Exposed, ...] = ()
        self._found: dict[str, Exposed] = {}
        for group in groups:
            alias = group.plain if claims[group.plain] == 1 else marked[group.digest]
            exposed = Exposed(alias, group.tool, group.devices)
            self.exposed += (exposed,)
            self._found[alias] = self._found[marked[group.digest]] = exposed

    def find(self, alias: str) -> Exposed | None:
        """By the name that is shown, or by the one with the digest."""
        return self._found.get(alias)


def _words(name: str) -> str:
    """`self.` says nothing to a model: every board calls itself that."""
    return _FOREIGN.sub("_", name.removeprefix("self.")).strip("_") or "tool"


def _grouped(boards: Mapping[str, Iterable[BoardTool]]) -> list[_Group]:
    found: dict[str, tuple[BoardTool, list[str]]] = {}
    for device in sorted(boards):
        for tool in boards[device]:
            found.setdefault(alike(tool), (tool, []))[1].append(device)
    groups = [_Group(tool, tuple(dict.fromkeys(devices)), digest) for digest, (tool, devices) in found.items()]
    return sorted(groups, key=lambda group: (group.tool.name, group.digest))


def alike(tool: BoardTool) -> str:
    """The same for tools that are one to a caller. Descriptions are no part of it, neither the tool's nor those of its
    arguments: boards of one kind may word them differently."""
    plain = [tool.name, _undescribed(tool.schema), tool.user_only]
    return sha256(orjson.dumps(plain, option=orjson.OPT_SORT_KEYS)).hexdigest()


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


def _marks(groups: list[_Group], taken: set[str]) -> dict[str, str]:
    """The name with the digest, for each digest: a longer part of it where the short one is not enough."""
    marks: dict[str, str] = {}
    for length in (_DIGEST, 2 * _DIGEST, 4 * _DIGEST):
        count = Counter(group.marked(length) for group in groups)
        for group in groups:
            name = group.marked(length)
            if group.digest not in marks and count[name] == 1 and name not in taken:
                marks[group.digest] = name
    return marks
