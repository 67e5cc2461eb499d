"""Who speaks in conversations, what a query names of it, and what was said by them and then."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from itertools import product
from typing import NamedTuple

from kho.kernel.call import Left
from kho.kernel.ports import Database, SearchFilter, Tx, Where, Words, each
from kho.lib.clock import Clock, iso, system_clock
from kho.lib.dataclass import dataclass
from kho.search.indexing import passages
from kho.search.indexing.passages import StoredPassage
from kho.search.query import dialogue
from kho.search.query.mentions import NOTHING, Mentions, mentions
from kho.search.query.parsed_query import ParsedQuery
from kho.search.query.speakers import SpeakerNames, Speakers
from kho.search.text.questions import asks

MAX_LISTED = 10_000
"""Passages that a list in the order of time has."""
MAX_NARROWED = 12
"""Searches for what a query names: one for each speaker and day."""
NONE_NAMED = (
    "Nothing that was said is by the speaker and of the day that the query names. These are the nearest others."
)
MAX_SHOWN = 10
"""Names in a note."""
Shown = Callable[[Tx, str, Sequence[tuple[str, str]]], list[str]]
"""Returns how the speakers of messages are called, given the tenant and (conversation, message id)."""


class Speaker(NamedTuple):
    """Who is meant by a name that a caller gave: the name as it is compared, or a note on why it is nobody's."""

    name: str | None
    note: str = ""


@dataclass(slots=True)
class Conversations:
    db: Database
    words: Words
    spaces: Mapping[str, Shown]
    clock: Clock = system_clock
    speakers: Speakers = field(init=False)

    def __post_init__(self) -> None:
        self.speakers = Speakers(self.db)

    def of(self, where: Where) -> list[SearchFilter]:
        return [one for one in each(where) if one.space in self.spaces]

    def stamp(self, asked: ParsedQuery, where: Where) -> str:
        """What a kept answer depends on beside the index: "yesterday" is another day tomorrow."""
        return iso(self.clock())[:13] if self.of(where) and asked.days.relative else ""

    async def mentions(self, asked: ParsedQuery, where: Where, left: Left) -> Mentions:
        """What a query names. Nothing, if it is about other things as well and none of them are conversations."""
        searched = self.of(where)
        if not searched:
            return NOTHING
        names = [await self.speakers.names(one, left) for one in searched]
        now = newest = self.clock()
        if asked.days.fixed or asked.days.relative:
            last = [ref for one in searched if (ref := await self._newest(one, left)) is not None]
            if last:
                latest = max(last, key=lambda one: one.ref.created_at).ref
                now += dialogue.local(latest) - latest.created_at
                newest = min(now, dialogue.local(latest))
        found = [mentions(asked, one, now, newest) for one in names]
        return replace(found[0], tags=frozenset[str]().union(*(one.tags for one in found)))

    async def _newest(self, where: SearchFilter, left: Left) -> StoredPassage | None:
        def read(tx: Tx) -> StoredPassage | None:
            seqs = self.words.in_time(tx, where, 1, newest_first=True)
            return next(iter(passages.get(tx, where, seqs).values()), None)

        return await self.db.read(read, timeout=left())

    def narrowed(self, named: Mentions, where: Where) -> list[SearchFilter]:
        """The filters of what may be by the speakers and of the days."""
        if not named:
            return []
        found: list[SearchFilter] = []
        for one, tag, period in product(self.of(where), sorted(named.tags) or [""], named.periods() or [None]):
            since, until = one.since, one.until
            if period is not None:
                start, end = period[0] - dialogue.WIDEST, period[1] + dialogue.WIDEST
                since = start if since is None else max(since, start)
                until = end if until is None else min(until, end)
            found.append(replace(one, tags=(*one.tags, tag) if tag else one.tags, since=since, until=until))
        return found[:MAX_NARROWED]

    def asks_for_all(self, named: Mentions, where: Where) -> bool:
        """True if a query asks for nothing but what is by the speakers and of the days that it names."""
        if not named or not named.is_all or (named.days and not named.periods()):
            return False
        # A name alone may be what other things are about.
        return named.of_speech or len(self.of(where)) == len(each(where))

    async def all_named(self, named: Mentions, where: Where, most: int, left: Left) -> list[StoredPassage]:
        """What is by the speakers and of the days, if a query asks for nothing else; else nothing. Of a day in the
        order of time, otherwise the newest first."""
        if not self.asks_for_all(named, where):
            return []
        newest_first = not named.days

        def read(tx: Tx, one: SearchFilter) -> list[StoredPassage]:
            seqs = self.words.in_time(tx, one, 4 * most, newest_first=newest_first)
            return [*passages.get(tx, one, seqs).values()]

        found = [
            passage
            for one in self.narrowed(named, where)
            for passage in await self.db.read(lambda tx, one=one: read(tx, one), timeout=left())
            if dialogue.is_all_named(named, passage.ref)
        ]
        known = {one.ref.seq: one for one in found}
        found = sorted(known.values(), key=lambda one: (one.ref.created_at, one.ref.seq), reverse=newest_first)
        if named.questions:
            found.sort(key=lambda one: not asks(one.text))
        return found[:most]

    async def in_time(self, where: Where, left: Left) -> list[int]:
        """The passages of conversations that match, in the order of time."""

        def read(tx: Tx) -> list[int]:
            return [seq for one in self.of(where) for seq in self.words.in_time(tx, one, MAX_LISTED)]

        return await self.db.read(read, timeout=left())

    async def speaker(self, where: SearchFilter, name: str, left: Left) -> Speaker:
        """Find who is meant by a name."""
        names = await self.speakers.names(where, left)
        meant = names.called(name)
        if len(meant) == 1:
            return Speaker(next(iter(meant)))
        called = name if len(name) <= 100 else f"{name[:100]}…"
        if meant:
            listed = await self._shown(where, names, meant, left)
            return Speaker(None, f"'{called}' may be {_listed(listed, len(meant), 'or')}. Say which.")
        others = list(names.seqs)
        listed = await self._shown(where, names, others, left)
        if not listed:
            return Speaker(None, f"Nobody called '{called}' has spoken there, nor anybody else.")
        return Speaker(None, f"Nobody called '{called}' has spoken there, but {_listed(listed, len(others), 'and')}.")

    async def _shown(
        self, where: SearchFilter, names: SpeakerNames, meant: "set[str] | list[str]", left: Left
    ) -> list[str]:
        """Names as they were given, of those who spoke last first."""
        seqs = sorted((names.seqs[name] for name in meant), reverse=True)[:MAX_SHOWN]

        def read(tx: Tx) -> list[str]:
            found = passages.get(tx, SearchFilter(where.space, where.tenant), seqs)
            places = [(found[seq].ref.collection, found[seq].key) for seq in seqs if seq in found]
            return list(dict.fromkeys(self.spaces[where.space](tx, where.tenant, places)))

        return await self.db.read(read, timeout=left())


def _listed(names: Sequence[str], number: int, joint: str) -> str:
    more = number - len(names)
    ends = [*names, f"{more} more"] if more > 0 else [*names]
    return ends[0] if len(ends) == 1 else f"{', '.join(ends[:-1])} {joint} {ends[-1]}"
