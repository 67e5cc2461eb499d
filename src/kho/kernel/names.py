"""Names of operations in what is said to a caller.

A text names an operation once and for all doors, by its tool or by its method. Where a door has another name for it,
the caller reads that one: `memory/list` is `memory_list` over MCP. The command line has sentences to make of it, and
does so itself.
"""

import re
from collections.abc import Callable, Iterable
from functools import cached_property

from kho.kernel.operation import Operation

_WIRES: dict[str, Callable[[Operation], str | None]] = {
    "mcp": lambda operation: operation.tool,
    "actions": lambda operation: operation.action,
}


class Names:
    def __init__(self, operations: Iterable[Operation]) -> None:
        self._methods = {found.rpc: found for found in operations if found.rpc and "/" in found.rpc}

    @cached_property
    def _pattern(self) -> re.Pattern[str] | None:
        """Made when something is said that may name one: most starts never need it."""
        named = "|".join(map(re.escape, self._methods))
        # Not within a longer path, and not what stands in quotes, which may be somebody's own words.
        return re.compile(rf"""(?<![\w/"'-])({named})(?![\w/"'-])""") if named else None

    def spelt(self, text: str, door: str) -> str:
        wire = _WIRES.get(door)
        if wire is None or self._pattern is None:
            return text
        return self._pattern.sub(lambda found: wire(self._methods[found[1]]) or found[1], text)
