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


def without_about(where: SearchFilter, about: str | None) -> SearchFilter | None:
    """Default for kinds without a subject: with `about` no item matches."""
    return where if about is None else None


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
    narrow: Callable[[SearchFilter, str | None], SearchFilter | None] = without_about
    """Adds `about` to a filter; None if no item of this kind can match."""
