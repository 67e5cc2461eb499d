"""Names under which models call the boards' tools.

Names of boards contain dots, which the function calls of language models refuse. A tool's alias depends on its board
alone, so that every process finds the same names, and none changes when other boards come and go. A short digest is
appended only where two tools of one board would share an alias. Where the alias contains the board's id, a digest
precedes the id unless it is a MAC: other ids and tool names could be ambiguous together.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from hashlib import sha256
from itertools import count

from kho.devices.protocol.tool_listing import BoardTool
from kho.lib.lazy_regex import pattern

LONGEST = 64
PREFIX = "board_"
"""Distinguishes boards' tools from the hub's own."""
LONGEST_ID = 20
"""Maximum characters of an id after its digest: they are only for people."""
_DIGEST = 8
_FOREIGN = pattern(r"[^a-zA-Z0-9_-]+")
_MAC = pattern(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")


def aliases(tools: Iterable[BoardTool], device: str | None = None) -> dict[str, BoardTool]:
    """Return a board's tools by alias; with `device`, by aliases that contain the board's id."""
    found = {tool.name: tool for tool in tools}
    return {alias: found[name] for name, alias in _distinct(found, PREFIX + _of(device)).items()}


def find(name: str, tools: Iterable[BoardTool], device: str) -> BoardTool | None:
    """Return the board's tool by its own name or by either of its aliases."""
    listed = list(tools)
    exact = next((tool for tool in listed if tool.name == name), None)
    return exact or aliases(listed).get(name) or aliases(listed, device).get(name)


def _of(device: str | None) -> str:
    """Return the part of an alias for a board. None is a prefix of another's: a MAC has its first `_` where a digest
    has none."""
    if device is None:
        return ""
    said = _FOREIGN.sub("_", device)
    if _MAC.fullmatch(device):
        return f"{said}_"
    return f"{_digest(device)}_{said[:LONGEST_ID]}".rstrip("_") + "_"


def _distinct(names: Iterable[str], prefix: str) -> Mapping[str, str]:
    """Return a valid, unique alias for each name."""
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
    """Return the alias without a digest. `self.` is removed: every board uses that prefix."""
    said = _FOREIGN.sub("_", name.removeprefix("self.")).strip("_")
    return (prefix + (said or "tool"))[:LONGEST]


def _marked(name: str, alias: str, attempt: int) -> str:
    """Return the alias with a digest; `attempt` is increased if another tool has that very name."""
    digest = _digest(f"{name}\0{attempt}" if attempt else name)
    return f"{alias[: LONGEST - _DIGEST - 1]}_{digest}"


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:_DIGEST]
