"""Where documents stand when a folder is imported: before it, and as they would stand after it."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from kho.documents import store, tree
from kho.documents.folder_sync.model import ImportDocuments
from kho.documents.model import ROOT
from kho.kernel.ports import Tx
from kho.lib.markdown import counted

Shape = dict[str, list[str]]
"""The ids of the children of each, in order."""
MAX_NAMED = 20
"""Documents that a note names."""


@dataclass(frozen=True, slots=True)
class TreeBefore:
    """Seen before anything is changed, so that a dry run says the same as the import itself."""

    above: Set[str]
    """The parent and those above it: none of them can go below it."""
    outside: Mapping[str, int]
    """Documents of the folder that stand elsewhere in the tree, and how many are below each."""


def before(tx: Tx, tenant: str, parent: str, ids: Sequence[str]) -> TreeBefore:
    if parent == ROOT:
        return TreeBefore(frozenset(), {})
    inside = {id for children in tree.shape(tx, tenant, parent, True).values() for id in children}
    outside = store.get_all(tx, tenant, [id for id in dict.fromkeys(ids) if id not in inside])
    return TreeBefore(
        {parent, *tree.above(tx, tenant, parent)},
        {one.id: len(tree.below(tx, tenant, one.id, deletion=one.deletion)) - 1 for one in outside},
    )


def came(ids: Sequence[str], before: TreeBefore, params: ImportDocuments) -> list[str]:
    """A note on those that an import moved in from elsewhere: with them comes what the folder does not show."""
    if not ids:
        return []
    said = [
        f"'{id}'" + (f" with {counted(number, 'document')} below it" if (number := before.outside[id]) else "")
        for id in ids[:MAX_NAMED]
    ]
    said += [f"{len(ids) - MAX_NAMED} more"] if len(ids) > MAX_NAMED else []
    moved = "would be moved" if params.dry_run else "were moved"
    return [f"Documents that stood outside of '{params.parent_id}' {moved} into it: {', '.join(said)}."]


def as_if(tx: Tx, tenant: str, tops: Sequence[str], parents: Mapping[str, str], undone: Set[str]) -> Shape:
    """The tree below the tops, as if some documents stood below their parents already, in this order, and some
    deletions were undone."""
    found: Shape = {}
    for top in tops:
        found |= tree.shape(tx, tenant, top, True)
    documents = store.get_all(tx, tenant, [id for children in found.values() for id in children])
    alive = {one.id for one in documents if one.deletion is None or one.deletion in undone}
    shape = {
        parent: [id for id in children if id in alive and parents.get(id, parent) == parent]
        for parent, children in found.items()
    }
    stand = {id for children in shape.values() for id in children}
    for id, parent in parents.items():
        if id not in stand:
            shape.setdefault(parent, []).append(id)
    return shape


def downwards(shape: Mapping[str, Sequence[str]], id: str) -> list[str]:
    """The document and all below it, each before those below it."""
    found, waiting = list[str](), [id]
    while waiting:
        found.append(waiting.pop())
        waiting += reversed(shape.get(found[-1], ()))
    return found


def staying(wanted: Sequence[str], now: Sequence[str], placed: Set[str]) -> set[str]:
    """Ids that stand in the wanted order already, so that the others alone need to move: as many as possible of those
    that were not placed otherwise anyway, and then of the others. It is the rising run of places that weighs most."""
    places = {id: place for place, id in enumerate(now)}
    ends, weights, last = list[int](), list[int](), list[str]()  # the best runs: the later one ends, the more it weighs
    previous: dict[str, str | None] = {}
    for id in wanted:
        first = after = bisect_left(ends, places[id])
        previous[id] = last[first - 1] if first else None
        weight = (weights[first - 1] if first else 0) + (1 if id in placed else len(wanted) + 1)
        while after < len(ends) and weights[after] <= weight:
            after += 1
        ends[first:after], weights[first:after], last[first:after] = [places[id]], [weight], [id]
    found: set[str] = set()
    id = last[-1] if last else None
    while id is not None:
        found.add(id)
        id = previous[id]
    return found
