"""Who speaks in conversations: every name that messages are marked with, and which of them a text means.

Upper and lower case do not count, nor do accents if they are left out, and a first or last name will do. The names are
read from the passages once per process and tenant, and then only from new ones.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import field

from cachetools import LRUCache

from kho.kernel.call import Left
from kho.kernel.ports import Database, SearchFilter, Tx
from kho.lib.dataclass import dataclass
from kho.lib.name_key import name_key
from kho.search.indexing import passages
from kho.search.text.stopwords import ENGLISH, UNMARKED, VIETNAMESE
from kho.search.text.tokens import fold

SPEAKER = "speaker:"
"""Prefix of the tag that says who said a passage."""
MAX_NAMES = 10_000
"""Names of a tenant that are known, those who spoke last."""
MAX_TENANTS = 256
MAX_WORDS = 6
"""Words of a name as it may stand in a text; a Han character is one."""
LOOKED_AT = 300
"""Words of a text in which names are looked for."""
LATE = 1_000
"""Passages that are read once more: on PostgreSQL a lower number may be committed after a higher one."""
_WORDS = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]|[^\W\u2e80-\U0010ffff]+")


def speaker_tag(name: str) -> str:
    return f"{SPEAKER}{name_key(name)}"


def words(text: str) -> list[str]:
    """The words of a text as names are compared: in one case, Han characters one by one."""
    return _WORDS.findall(name_key(text))


@dataclass(frozen=True, slots=True)
class SpeakerNames:
    """Names by the words that mean them: the whole name, or its first or last word; as they are, and without marks."""

    seqs: dict[str, int]
    """The number of the last passage of each name, which is in one case."""
    whole: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    bare: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    parts: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    bare_parts: dict[str, set[str]] = field(default_factory=dict[str, set[str]])

    @classmethod
    def of(cls, rows: Iterable[tuple[Sequence[str], int]]) -> "SpeakerNames":
        seqs: dict[str, int] = {}
        for tags, seq in rows:
            for tag in tags:
                if tag.startswith(SPEAKER):
                    name = tag.removeprefix(SPEAKER)
                    seqs[name] = max(seq, seqs.get(name, 0))
        found = cls(dict(sorted(seqs.items(), key=lambda one: -one[1])[:MAX_NAMES]))
        for name in found.seqs:
            found._add(name)
        return found

    def _add(self, name: str) -> None:
        held = words(name)
        self.whole.setdefault(" ".join(held), set()).add(name)
        self.bare.setdefault(fold(" ".join(held)), set()).add(name)
        if len(held) > 1 and held[0] < "\u2e80":
            for part in {held[0], held[-1]}:
                if len(part) > 1 and part.isalpha() and not _is_function_word(part):
                    self.parts.setdefault(part, set()).add(name)
                    self.bare_parts.setdefault(fold(part), set()).add(name)

    def called(self, name: str) -> set[str]:
        """Those who may be meant by a name that is given on its own; accents do not count here."""
        own, said = name_key(name), " ".join(words(name))
        if own in self.seqs:
            return {own}
        bare = fold(said)
        return (
            self.whole.get(said)
            or self.bare.get(bare)
            or self.parts.get(said)
            or self.bare_parts.get(bare)
            or set[str]()
        )

    def named_in(self, text: str) -> tuple[set[str], list[str]]:
        """Those whom a text names, the longest names first, and the other words of the text."""
        said = words(text)[:LOOKED_AT]
        found: set[str] = set()
        for length in range(min(MAX_WORDS, len(said)), 0, -1):
            at = 0
            while at + length <= len(said):
                if meant := self._meant(" ".join(said[at : at + length])):
                    found |= meant
                    said[at : at + length] = [""]
                at += 1
        return found, [word for word in said if word]

    def _meant(self, said: str) -> set[str] | None:
        if not said.strip():
            return None
        if meant := self.whole.get(said):
            return meant
        bare = said.isascii() and said not in ENGLISH  # with marks, it means another name
        return (
            (self.bare.get(said) if bare else None)
            or self.parts.get(said)
            or (self.bare_parts.get(said) if bare else None)
        )


def _is_function_word(word: str) -> bool:
    return word in ENGLISH or word in VIETNAMESE or word in UNMARKED


@dataclass(slots=True)
class _Known:
    last: int
    rows: dict[tuple[str, ...], int]
    names: SpeakerNames


class Speakers:
    def __init__(self, db: Database) -> None:
        self._db = db
        self._known: LRUCache[tuple[str, str], _Known] = LRUCache(MAX_TENANTS)

    async def names(self, where: SearchFilter, left: Left) -> SpeakerNames:
        """The names of those who speak in what a filter covers, apart from its times."""
        if where.collections:
            rows = await self._db.read(lambda tx: _read(tx, where, 0), timeout=left())
            return SpeakerNames.of(_fitting(rows, where))
        known = self._known.get((where.space, where.tenant))
        start = 0 if known is None else max(0, known.last - LATE)
        rows = await self._db.read(lambda tx: _read(tx, where, start), timeout=left())
        if known is None:
            known = _Known(0, {}, SpeakerNames.of(()))
        last, new = known.last, [tags for tags in rows if tags not in known.rows]
        for tags, seq in rows.items():
            known.rows[tags] = max(seq, known.rows.get(tags, 0))
            last = max(last, seq)
        if new:
            known.names = SpeakerNames.of(known.rows.items())
        known.last = last
        self._known[where.space, where.tenant] = known
        return known.names if not where.tags and not where.any_tags else SpeakerNames.of(_fitting(known.rows, where))


def _read(tx: Tx, where: SearchFilter, start: int) -> dict[tuple[str, ...], int]:
    return passages.last_by_tags(tx, where.space, where.tenant, where.collections, start)


def _fitting(rows: dict[tuple[str, ...], int], where: SearchFilter) -> Iterable[tuple[Sequence[str], int]]:
    return (
        (tags, seq)
        for tags, seq in rows.items()
        if set(where.tags) <= set(tags) and (not where.any_tags or not set(where.any_tags).isdisjoint(tags))
    )
