"""`Searchable`: a slice declares one for each kind of item that `search`, `fetch` and `recent` can find."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, NamedTuple

from kho.kernel.access import Scope
from kho.kernel.call import Call
from kho.kernel.ports import SearchFilter, Tx
from kho.kernel.vocabulary import Kind
from kho.lib.dataclass import dataclass


class FoundPassage(NamedTuple):
    """A passage that a search found, as the slice indexed it."""

    key: str
    collection: str
    kind: str
    part: int
    heading: str
    text: str
    created_at: int


@dataclass(frozen=True, slots=True)
class Item:
    """One item of a slice, as returned by `search`, `fetch` or `recent`."""

    id: str
    """The slice's own id, without the prefix; with `#n` it names that passage of the item."""
    title: str
    when: int
    """Microseconds: when it was added or last changed."""
    text: str = ""
    """The text that `recent` shows, or the whole text for `fetch`. `search` shows the passage that it found."""
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Narrowing(NamedTuple):
    """What only some kinds of items have, and a caller may ask for."""

    about: str | None = None
    """A person, project or agent that it is about."""
    speaker: str | None = None


def without_any(where: SearchFilter, wanted: Narrowing) -> SearchFilter | None:
    """Default for kinds that have neither: no item matches if one is asked for."""
    return where if wanted == Narrowing() else None


@dataclass(frozen=True, slots=True)
class Searchable:
    """Items of one kind that can be searched. Its functions are only called for callers who have `scope`."""

    kind: Kind
    space: str
    """Space in which its passages are indexed."""
    scope: Scope
    described: Callable[[Tx, str, Sequence[FoundPassage]], Sequence[Item | None]]
    """Returns the items of a tenant's passages, in the same order; None for one that must not be shown."""
    fetch: Callable[[Call, str], Awaitable[Item | None]]
    """Returns an item by its own id; None if there is none that the caller may see."""
    recent: Callable[[Tx, SearchFilter, int], Sequence[Item]]
    """Returns items added or changed since the filter's time, latest first, up to a limit."""
    narrow: Callable[[SearchFilter, Narrowing], SearchFilter | None] = without_any
    """Adds what is asked for to a filter; None if no item of this kind can match."""
