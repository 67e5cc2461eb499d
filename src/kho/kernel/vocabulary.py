"""One vocabulary for slices: the words that commands, scopes, servers and toolsets use for each mean the same; and the
global ids of what they hold.

A global id is the prefix of its kind, a colon and the slice's own id: `fact:…`, `doc:…`. `#n` at its end names a
passage.
"""

from collections.abc import Collection
from typing import NamedTuple


class Kind(NamedTuple):
    """A kind of items that have global ids."""

    name: str
    """In hits and in the parameter `kinds`: 'fact', 'document'."""
    prefix: str
    """Of its global ids."""
    tool: str
    """Reads an item by its id; named when another tool gets such an id."""


ALIASES = {
    "docs": "documents",
    "exp": "experiences",
    "kb": "research",
    "tool": "toolbox",
    "tools": "toolbox",
}
"""Slices by the other words for them: `kho docs`, `docs:read`, `exp:read`, `kb:read`, `tools:use`, `tool-server`. Each
is accepted wherever a slice is named: `--tools docs`, `kho documents list`, `--scope documents:read`,
`toolbox-server/tools/list`, `kho audit list --slice kb`."""
SERVER = "-server"


def slice_name(word: str) -> str:
    """Return the name of the slice that a word means: the word itself, unless it is an alias."""
    name = word.removesuffix(SERVER)
    return ALIASES.get(name, name)


def synonym(word: str, known: Collection[str], separator: str = "") -> str:
    """Return the one of `known` that means the same as `word`; the word itself if none does. Only what stands before
    `separator` is a name: `documents:read` and `docs:read` mean the same."""
    if word in known:
        return word
    name, mark, rest = word.partition(separator) if separator else (word, "", "")
    ours = slice_name(name)
    same = (ours, *(alias for alias, meant in ALIASES.items() if meant == ours))
    spelt = (f"{one}{suffix}{mark}{rest}" for one in same for suffix in ("", SERVER))
    return next((one for one in spelt if one in known), word)


def split_passage(id: str) -> tuple[str, int | None]:
    """Split `id#n` into the id and the number of the passage; without `#n` there is no number."""
    whole, _, number = id.rpartition("#")
    return (whole, int(number)) if whole and is_number(number) else (id, None)


def is_number(text: str) -> bool:
    """Of at most 18 digits, which fit into a column."""
    return 1 <= len(text) <= 18 and text.isascii() and text.isdecimal()
