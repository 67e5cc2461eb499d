"""Parents and order of documents before an import, and as they would be after it."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence, Set

from kho.documents import store, tree
from kho.documents.folder_sync.model import ImportDocuments
from kho.documents.model import ROOT
from kho.kernel.ports import Tx
from kho.lib.dataclass import dataclass
from kho.lib.markdown import counted

Shape = dict[str, list[str]]
"""Ids of the children, in order, by parent."""
MAX_NAMED = 20
"""Maximum number of documents named in a note."""


@dataclass(frozen=True, slots=True)
class TreeBefore:
    """State of the tree before anything is changed, so that a dry run reports the same as the import itself."""

    above: Set[str]
    """The parent and its ancestors: none of them can be moved below it."""
    outside: Mapping[str, int]
    """Documents of the folder that are elsewhere in the tree, and the number of documents below each."""


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
    """Return a note on documents moved in from elsewhere: what is below them and not in the folder moves, too."""
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
    """Return the tree below `tops` as if the documents in `parents` were below their new parents already, in this
    order, and the deletions in `undone` were undone."""
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
    """Return the document and all below it, parents before their children."""
    found, waiting = list[str](), [id]
    while waiting:
        found.append(waiting.pop())
        waiting += reversed(shape.get(found[-1], ()))
    return found


def staying(wanted: Sequence[str], now: Sequence[str], placed: Set[str]) -> set[str]:
    """Return ids that are in the wanted order already, so that only the others need to move: as many as possible of
    those that are not in `placed`, then of the others. Computed as the heaviest increasing subsequence of places."""
    places = {id: place for place, id in enumerate(now)}
    ends, weights, last = list[int](), list[int](), list[str]()  # best subsequences: later end, more weight
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
