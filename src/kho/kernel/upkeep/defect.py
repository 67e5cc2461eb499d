"""What is wrong with a store, as data."""

from collections.abc import Callable, Iterator
from typing import Literal

from kho.lib.dataclass import dataclass
from kho.lib.markdown import counted

Cure = Literal["repair", "salvage", "none"]
"""What helps: making anew what is derived from rows, reading what is left into a new store, or nothing."""
Progress = Callable[[str, int, int], None]
"""Reports what is being done, how much of it is done, and of how much (0: unknown)."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong."""

    problem: str
    """A sentence."""
    table: str = ""
    count: int = 1
    """Rows, pages or entries that it is about."""
    cure: Cure = "salvage"


def found(count: int, what: str, how: str, table: str, cure: Cure = "salvage") -> Iterator[Finding]:
    """Yield '3 documents are without a text.', and nothing if there are none."""
    if count:
        yield Finding(f"{counted(count, what)} {'is' if count == 1 else 'are'} {how}.", table, count, cure)
