"""Names under which models can call the boards' tools.

Boards put dots into names, which the function calls of language models refuse. What a board's tool is called depends
on that board alone, so that every process finds the same names, and none of them changes when other boards come and go.
A short digest follows a name only where two tools of one board would share it; it precedes a board's id, where that is
a part of the name, unless the id is a MAC: other ids and the names of tools could run together.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from hashlib import sha256
from itertools import count

from kho.devices.protocol.tool_listing import BoardTool
from kho.lib.lazy_regex import pattern

LONGEST = 64
PREFIX = "board_"
"""Tells a board's tools from the hub's own."""
LONGEST_ID = 20
"""Characters of an id behind its digest: they are for people."""
_DIGEST = 8
_FOREIGN = pattern(r"[^a-zA-Z0-9_-]+")
_MAC = pattern(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")


def aliases(tools: Iterable[BoardTool], device: str | None = None) -> dict[str, BoardTool]:
    """A board's tools by the names that models may use; with `device` by those in which the board's id is a part."""
    found = {tool.name: tool for tool in tools}
    return {alias: found[name] for name, alias in _distinct(found, PREFIX + _of(device)).items()}


def find(name: str, tools: Iterable[BoardTool], device: str) -> BoardTool | None:
    """The tool of a board that is meant: by its own name, or by either of its aliases."""
    listed = list(tools)
    exact = next((tool for tool in listed if tool.name == name), None)
    return exact or aliases(listed).get(name) or aliases(listed, device).get(name)


def _of(device: str | None) -> str:
    """No board's is the beginning of another's: a MAC has its first `_` where a digest has none."""
    if device is None:
        return ""
    said = _FOREIGN.sub("_", device)
    if _MAC.fullmatch(device):
        return f"{said}_"
    return f"{_digest(device)}_{said[:LONGEST_ID]}".rstrip("_") + "_"


def _distinct(names: Iterable[str], prefix: str) -> Mapping[str, str]:
    """A lawful alias for each, no two the same."""
    ordered = sorted(names)
    plain = {name: _plain(name, prefix) for name in ordered}
    claims = Counter(plain.values())
    taken, found = set(claims), dict[str, str]()
    for name in ordered:
        alias = plain[name]
        if claims[alias] > 1:
            alias = next(marked for attempt in count() if (marked := _marked(name, alias, attempt)) not in taken)
            taken.add(alias)
        found[name] = alias
    return found


def _plain(name: str, prefix: str) -> str:
    """`self.` says nothing to a model: every board calls itself that."""
    said = _FOREIGN.sub("_", name.removeprefix("self.")).strip("_")
    return (prefix + (said or "tool"))[:LONGEST]


def _marked(name: str, alias: str, attempt: int) -> str:
    """A board could name another tool just like this: then there is a further attempt."""
    digest = _digest(f"{name}\0{attempt}" if attempt else name)
    return f"{alias[: LONGEST - _DIGEST - 1]}_{digest}"


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:_DIGEST]
