"""Names under which models can call the boards' tools.

Boards put dots into names, which the function calls of language models refuse. What a board's tool is called depends
on that board's own tools and on nothing else, so that every process finds the same names, and none of them changes when
other boards come and go. A short digest follows a name only where two tools of one board would share it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from hashlib import sha256
from itertools import count

from kho.devices.listed import BoardTool
from kho.kernel.patterns import pattern

LONGEST = 64
PREFIX = "board_"
"""Tells a board's tools from the hub's own."""
_DIGEST = 8
_FOREIGN = pattern(r"[^a-zA-Z0-9_-]+")
Words = tuple[str, ...]
"""What a name is made of: the tool's own name, after the device's id where each board has its own."""


def aliases(tools: Iterable[BoardTool], device: str | None = None) -> dict[str, BoardTool]:
    """A board's tools by the names that models may use; with `device` by those in which the board's id is a part."""
    found: dict[Words, BoardTool] = {(*([device] if device else []), tool.name): tool for tool in tools}
    return {alias: found[words] for words, alias in distinct(found).items()}


def find(name: str, tools: Iterable[BoardTool], device: str) -> BoardTool | None:
    """The tool of a board that is meant: by its own name, or by either of its aliases."""
    listed = list(tools)
    exact = next((tool for tool in listed if tool.name == name), None)
    return exact or aliases(listed).get(name) or aliases(listed, device).get(name)


def distinct(named: Iterable[Words]) -> Mapping[Words, str]:
    """A lawful name for each, no two the same."""
    ordered = sorted(named)
    claims = Counter(_plain(words) for words in ordered)
    taken, found = set(claims), dict[Words, str]()
    for words in ordered:
        alias = _plain(words)
        if claims[alias] > 1:
            alias = next(marked for attempt in count() if (marked := _marked(words, attempt)) not in taken)
            taken.add(alias)
        found[words] = alias
    return found


def _plain(words: Words) -> str:
    """`self.` says nothing to a model: every board calls itself that."""
    *before, name = words
    said = _FOREIGN.sub("_", ".".join([*before, name.removeprefix("self.")])).strip("_")
    return (PREFIX + (said or "tool"))[:LONGEST]


def _marked(words: Words, attempt: int) -> str:
    """A board could name another tool just like this: then there is a further attempt."""
    digest = sha256("\0".join([*words, *([str(attempt)] if attempt else [])]).encode()).hexdigest()
    return f"{_plain(words)[: LONGEST - _DIGEST - 1]}_{digest[:_DIGEST]}"
