"""Ranked lists that are being paged through: the next page is cut from the list of the first one, although counts
and ages have moved on since. A list that is not here (another process ranked it, or it was long ago) is made anew."""

from collections import OrderedDict
from collections.abc import Hashable
from time import monotonic

from kho.experiences.rank import Candidate

KEPT = 120.0
"""Seconds after which a reader who turns the page gets a fresh list."""
MOST = 256


class Lists:
    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, tuple[float, list[Candidate]]] = OrderedDict()

    def keep(self, query: Hashable, ranked: list[Candidate]) -> None:
        self._kept[query] = (monotonic(), ranked)
        self._kept.move_to_end(query)
        if len(self._kept) > MOST:
            self._kept.popitem(last=False)

    def find(self, query: Hashable) -> list[Candidate] | None:
        kept = self._kept.get(query)
        return kept[1] if kept and monotonic() - kept[0] < KEPT else None
