"""Toolsets: named choices of tools, and what a choice of sets, capabilities and single tools covers.

A client's choice says what is listed for it, because each listed tool costs a model tokens and attention; it is no
limit. The choice on an API key is one: what it does not cover is refused at every door.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Literal, NamedTuple, Protocol, get_args

from kho.kernel.errors import InvalidParams
from kho.kernel.vocabulary import slice_name
from kho.lib.dataclass import dataclass

Toolset = Literal["minimal", "default", "all"]
"""Each contains the one before."""
TOOLSETS: tuple[Toolset, ...] = get_args(Toolset)
MORE = "more"
"""Name of the tool that lists, explains and runs the tools that are not listed."""


class Instructions(NamedTuple):
    """What a slice says to models before they choose among its tools: a sentence or two."""

    text: str = ""
    toolset: Toolset = "default"
    """Smallest set whose clients are given it: one that lists the tools that it names."""


class Choosable(Protocol):
    """The part of an operation that a choice looks at."""

    @property
    def tool(self) -> str | None: ...
    @property
    def capability(self) -> str: ...
    @property
    def toolset(self) -> Toolset: ...


@dataclass(frozen=True, slots=True)
class Selection:
    toolset: Toolset | None = "default"
    """The largest of the chosen sets; None if only capabilities or tools were chosen."""
    capabilities: frozenset[str] = frozenset()
    tools: frozenset[str] = frozenset()

    def lists(self, operation: Choosable, idle: Collection[str] = ()) -> bool:
        """True if the tool is listed. Of `idle` capabilities, whose tools have nothing to act on, only what was chosen
        by name is."""
        if operation.tool is None:
            return False
        if operation.tool in self.tools or operation.capability in self.capabilities or self.toolset == "all":
            return True
        return self.reaches(operation.toolset) and operation.capability not in idle

    def covers(self, operation: Choosable) -> bool:
        """True if a key that is limited to this choice may call it. What is no tool belongs to its capability."""
        return self.covers_capability(operation.capability) or self.lists(operation)

    def covers_capability(self, name: str) -> bool:
        """True if all of a capability was chosen, and so its resources, prompts and streams, too."""
        return self.toolset == "all" or name in self.capabilities

    def changes_with(self, operation: Choosable) -> bool:
        """True if the list is another one when the tool has come or gone. A capability's own tools, which come and go
        with what they act on, are always listed where they were chosen by name."""
        own = operation.toolset != "all"
        return self.lists(operation) and not (own and self.lists(operation, {operation.capability}))

    @property
    def lists_more(self) -> bool:
        return MORE in self.tools or self.toolset == "default"

    @property
    def names(self) -> list[str]:
        """The names that choose the same."""
        return [*([self.toolset] if self.toolset else []), *sorted(self.capabilities), *sorted(self.tools)]

    def reaches(self, toolset: Toolset) -> bool:
        return self.toolset is not None and TOOLSETS.index(toolset) <= TOOLSETS.index(self.toolset)


ALL = Selection("all")


def split_names(given: Iterable[str]) -> list[str]:
    """Split names that are separated by commas, repeated, or both."""
    return [name for text in given for part in text.split(",") if (name := part.strip())]


def select(given: Iterable[str], capabilities: Collection[str], tools: Callable[[], Collection[str]]) -> Selection:
    """Return what the names choose: the default set if there are none. `tools` is asked only for a name that is neither
    a set nor a capability, because it may have to load every slice. Raises InvalidParams for names of nothing."""
    chosen = split_names(given) or ["default"]
    sets: list[Toolset] = [name for name in TOOLSETS if name in chosen]
    slices = frozenset(name for word in chosen if (name := slice_name(word)) in capabilities)
    others = frozenset(word for word in chosen if word not in sets and slice_name(word) not in capabilities)
    known = {MORE, *tools()} if others else set[str]()
    if unknown := sorted(others - known):
        raise InvalidParams(
            f"There is no toolset, capability or tool called {', '.join(unknown)}. Sets: {', '.join(TOOLSETS)}. "
            f"Capabilities: {', '.join(capabilities)}. Tools: {', '.join(sorted(known))}.",
            field="tools",
        )
    return Selection(sets[-1] if sets else None, slices, others)
