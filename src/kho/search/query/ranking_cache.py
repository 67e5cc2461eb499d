"""Ranked lists, kept for a while: a page is cut from the list that the one before was cut from, and the same question
need not be ranked again while nothing has changed."""

from dataclasses import dataclass, field
from hashlib import blake2b

from cachetools import LRUCache

from kho.kernel import paging
from kho.kernel.ports import SearchFilter
from kho.search.indexing.passages import StoredPassage
from kho.search.query.scoring import ScoreParts

MAX_RANKINGS = 512
"""Lists that are remembered."""
FIRST_PAGE = 10
"""Passages that a list has at hand with their texts."""


@dataclass(frozen=True, slots=True)
class RankedPassage:
    seq: int
    key: str
    score: float
    """In 0..1, the same measure in every answer."""
    parts: ScoreParts


@dataclass(frozen=True, slots=True)
class Ranking:
    """One ranked list. Pages are cut from it."""

    ranked: list[RankedPassage]
    notes: tuple[str, ...] = ()
    """What was left out, in plain words: an answer by words alone says so."""
    pending: int = 0
    """Passages that still wait for their vectors, counted up to 10,000."""
    version: int = 0
    texts: dict[int, StoredPassage] = field(default_factory=dict[int, StoredPassage])
    """The passages of the first page."""


class RankingCache:
    """By what they answer, how long they are, and the version of the index they were made from."""

    def __init__(self, size: int = MAX_RANKINGS) -> None:
        self._lists: LRUCache[tuple[str, int, int], Ranking] = LRUCache(size)
        self._asked: LRUCache[tuple[str, int], bool] = LRUCache(size)

    def knows(self, mark: str, depth: int) -> bool:
        """Whether there may be a list for it, of whatever version."""
        return (mark, depth) in self._asked

    def find(self, mark: str, depth: int, version: int) -> Ranking | None:
        return self._lists.get((mark, depth, version))

    def keep(self, mark: str, depth: int, ranking: Ranking) -> None:
        self._lists[mark, depth, ranking.version] = ranking
        self._asked[mark, depth] = True


def mark_of(where: SearchFilter, *asked: str | bool) -> str:
    """What a list is the answer to, in short: a query may be long, and a cursor goes with its own list only."""
    return blake2b(repr((where, *asked)).encode(), digest_size=12).hexdigest()


def cursor_for(start: int, ranking: Ranking, mark: str) -> str | None:
    """Where the page that begins at `start` is found, if there is one."""
    return paging.encode([start, ranking.version, mark]) if start < len(ranking.ranked) else None


def place_of(cursor: str | None, mark: str) -> tuple[int, int | None]:
    """Where a page begins, and the version of the list that it is cut from."""
    found = paging.place(cursor, int, int, str)
    if found is None:
        return 0, None
    start, version, list_ = found
    if not 0 <= start <= 1_000_000 or list_ != mark:
        raise paging.foreign()
    return start, version
