"""Verification of a tenant's trail against its chain: every row, every link, and what has neither.

It reads in batches, each one consistent snapshot, so that it neither stops writers nor keeps them from tidying up.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, TypeVar, cast

import orjson

from kho.audit import chain
from kho.audit.chain import Head, Link, TrailRow
from kho.audit.retention import CAPABILITY, NAMES, REMOVE, Run
from kho.kernel import Database, Tx
from kho.kernel.ports import Row
from kho.lib.clock import from_iso
from kho.lib.dataclass import dataclass

T = TypeVar("T")
Kind = Literal["altered", "missing", "inserted", "reordered", "unlinked"]
BATCH = 500
WINDOW = 5_000
"""Rows that are looked through at once for those without a link."""
MAX_COMPARED = 100
"""The first changed rows and links, of which each is compared with each other, to find those that were exchanged."""
MAX_KEPT = 10_000
"""Breaks of one trail that are kept; more are only counted."""
MAX_REMOVALS = 20
"""Removals that are told of, the newest."""


@dataclass(frozen=True, slots=True)
class Break:
    """Where rows and chain disagree."""

    kind: Kind
    message: str
    place: int = 0
    number: int = 0
    """Of the row; 0 if it is not known."""


@dataclass(frozen=True, slots=True)
class Removal:
    """Old rows that have left together."""

    at: int
    rows: int
    before: int | None = None
    """They were from before this time, says the row of the trail that is about it; None if that has left, too."""
    days: int | None = None
    """The setting at that time, says the same row."""


@dataclass(slots=True)
class Trail:
    """What was found about one tenant's trail."""

    tenant: str
    beginning: Head = Head()
    head: Head = Head()
    """Up to where the links have been read."""
    removals: list[Removal] = field(default_factory=list[Removal])
    """The last ones, the newest first."""
    sealed: int = 0
    unsealed: int = 0
    erased: int = 0
    broken: int = 0
    breaks: list[Break] = field(default_factory=list[Break])
    places: dict[int, bytes] = field(default_factory=dict[int, bytes])
    """Digests at the places that were asked for."""

    def add(self, kind: Kind, message: str, place: int = 0, number: int = 0) -> None:
        self.broken += 1
        if len(self.breaks) < MAX_KEPT:
            self.breaks.append(Break(kind, message, place, number))


Progress = Callable[[int, int], Awaitable[None]]


@dataclass(slots=True)
class Verification:
    db: Database
    tenant: str
    wanted: frozenset[int] = frozenset()
    """Places whose digests are wanted."""
    timeout: Callable[[], float] = lambda: 30.0
    """Seconds for the next batch."""
    trail: Trail = field(init=False)
    last_number: int = 0
    suspects: list[tuple[Link, Head, TrailRow | None]] = field(default_factory=list[tuple[Link, Head, TrailRow | None]])
    """Links that disagree with their row, or with the link before (then without the row)."""
    unnamed: list[Run] = field(default_factory=list[Run])
    """Places whose text is erased, and that no row has named so far. Such a row comes behind them in the chain."""

    async def run(self, progress: Progress) -> Trail:
        end = await self._begin()
        while batch := await self._batch():
            await asyncio.to_thread(self._check_all, *batch)
            await progress(self.trail.sealed, end.place - self.trail.beginning.place)
        await asyncio.to_thread(self._judge_suspects)
        for first, last in self.unnamed:
            said = f"The text at {_shown(first, last)} of the chain was erased, and no row says so."
            self.trail.add("altered", said, first)
        after = 0
        while rows := await self._read(lambda tx, after=after: _without_link(tx, self.tenant, after)):
            for number, unknown in rows:
                if unknown:
                    said = f"Row {number} is not in the chain, and does not wait for its link."
                    self.trail.add("inserted", said, 0, number)
            after = rows[-1][0]
        for number, gone in await self._read(lambda tx: _waiting(tx, self.tenant)):
            if gone:
                self.trail.add("missing", f"Row {number} is gone, before it was sealed.", 0, number)
            else:
                self.trail.unsealed += 1
        self.trail.breaks.sort(key=lambda one: (one.place or 2**62, one.number))
        return self.trail

    async def _read(self, work: Callable[[Tx], T]) -> T:
        return await self.db.read(work, timeout=self.timeout())

    async def _begin(self) -> Head:
        """Start where the chain begins now, and check that the trail itself says why. Return where the chain ends."""
        beginning, removals, number, row, end = await self._read(lambda tx: _ends(tx, self.tenant))
        self.trail = Trail(self.tenant, beginning, beginning, removals)
        self.last_number, self.suspects, self.unnamed = 0, [], []
        if beginning.place in self.wanted:
            self.trail.places[beginning.place] = beginning.digest
        if beginning.place and not _tells(row, beginning):
            said = f"The chain begins after place {beginning.place}, and no row says why what was before it has left."
            self.trail.add("missing", said, beginning.place, number)
        return end

    async def _batch(self) -> tuple[Sequence[Link], Mapping[int, TrailRow], bool] | None:
        """Return the next links, their rows, and whether rows are committed in the order of their numbers: where there
        is one writer at a time. None at the end of the chain."""

        def work(tx: Tx) -> tuple[Head, list[Link], dict[int, TrailRow]]:
            links = chain.links_after(tx, self.tenant, self.trail.head.place, BATCH)
            # At the end also those that wait for their link: what was erased a moment ago is named by one of them.
            numbers = [link.number for link in links] or [number for number, _ in _waiting(tx, self.tenant)]
            return chain.beginning(tx, self.tenant), links, chain.rows_of(tx, self.tenant, numbers)

        beginning, links, rows = await self._read(work)
        if beginning.place > self.trail.head.place:  # rows have left meanwhile
            await self._begin()
            return await self._batch()
        if links:
            return links, rows, self.db.engine == "sqlite"
        for row in rows.values():
            self._take_names(row)
        return None

    def _check_all(self, links: Sequence[Link], rows: Mapping[int, TrailRow], in_order: bool) -> None:
        for link in links:
            self._check(link, rows.get(link.number), in_order=in_order)

    def _check(self, link: Link, row: TrailRow | None, *, in_order: bool) -> None:
        trail, before = self.trail, self.trail.head
        if link.place != before.place + 1:
            gap = f"Places {before.place + 1} to {link.place - 1} of the chain are gone, with what they were for."
            trail.add("missing", gap, before.place + 1)
        elif chain.link_digest(self.tenant, before, link.number, link.sealed_at, link.content) != link.digest:
            self._suspect(link, before, None)
        if row is None:
            trail.add("missing", f"Row {link.number} is gone.", link.place, link.number)
        elif not chain.fits(link, row):
            self._suspect(link, before, row)
        elif in_order and link.number < self.last_number:  # one writer at a time: rows are committed in their order
            said = f"Row {link.number} came after row {self.last_number}, which has a higher number."
            trail.add("inserted", said, link.place, link.number)
        self.last_number = max(link.number, self.last_number)
        trail.sealed += row is not None
        if link.salt is None:
            trail.erased += 1
            self._add_unnamed(link.place)
        elif row is not None:
            self._take_names(row)
        trail.head = Head(link.place, link.digest)
        if link.place in self.wanted:
            trail.places[link.place] = link.digest

    def _add_unnamed(self, place: int) -> None:
        if self.unnamed and self.unnamed[-1][1] == place - 1:
            self.unnamed[-1] = (self.unnamed[-1][0], place)
        else:
            self.unnamed.append((place, place))

    def _take_names(self, row: TrailRow) -> None:
        """Forget the places that the row says were erased."""
        if self.unnamed and row.capability == CAPABILITY and row.operation in NAMES:
            self.unnamed = _without(self.unnamed, _places(_details(row)))

    def _suspect(self, link: Link, before: Head, row: TrailRow | None) -> None:
        if len(self.suspects) < MAX_COMPARED:
            self.suspects.append((link, before, row))
        else:
            self._add_changed(link, row)

    def _judge_suspects(self) -> None:
        """Tell exchanged rows and links from altered ones."""
        rows = [row for _, _, row in self.suspects if row is not None]
        ends = [before for _, before, row in self.suspects if row is None]
        for link, before, row in self.suspects:
            if row is None and any(self._follows(link, end) for end in ends if end != before):
                said = f"The link of row {link.number} is not at the place that it was made for."
                self.trail.add("reordered", said, link.place, link.number)
            elif row is not None and any(chain.fits(link, other) for other in rows if other is not row):
                said = f"Row {link.number} was exchanged: what belongs there is at another place."
                self.trail.add("reordered", said, link.place, link.number)
            else:
                self._add_changed(link, row)

    def _add_changed(self, link: Link, row: TrailRow | None) -> None:
        if row is None:
            said = f"The link of row {link.number} does not follow from the one before it: something was replaced."
            self.trail.add("unlinked", said, link.place, link.number)
        else:
            self.trail.add("altered", f"Row {link.number} is not what it was.", link.place, link.number)

    def _follows(self, link: Link, before: Head) -> bool:
        return chain.link_digest(self.tenant, before, link.number, link.sealed_at, link.content) == link.digest


def _ends(tx: Tx, tenant: str) -> tuple[Head, list[Removal], int, TrailRow | None, Head]:
    """Return where the chain begins, what has left before it, by which row, and where it ends."""
    beginning = chain.beginning(tx, tenant)
    sql = "SELECT place, number, at FROM audit_checkpoints WHERE tenant = $1 ORDER BY place DESC LIMIT $2"
    found = tx.all(sql, tenant, MAX_REMOVALS + 1)
    rows = chain.rows_of(tx, tenant, [number for _, number, _ in found])
    removals: list[Removal] = []
    for (place, number, at), (before, *_) in zip(found, [*found[1:], (0,)], strict=False):
        said = _details(rows[number]) if number in rows else {}
        days = said.get("days")
        removals.append(Removal(at, place - before, _time(said), days if isinstance(days, int) else None))
    number = found[0][1] if found else 0
    return beginning, removals[:MAX_REMOVALS], number, rows.get(number), chain.head(tx, tenant)


def _without_link(tx: Tx, tenant: str, after: int) -> list[Row]:
    """Return the next rows, each with 1 if it has no link and does not wait for one."""
    return tx.all(
        "SELECT audit.number, CASE WHEN link.number IS NULL AND waits.number IS NULL THEN 1 ELSE 0 END FROM audit "
        "LEFT JOIN audit_links AS link ON link.tenant = audit.tenant AND link.number = audit.number "
        "LEFT JOIN audit_unsealed AS waits ON waits.tenant = audit.tenant AND waits.number = audit.number "
        "WHERE audit.tenant = $1 AND audit.number > $2 ORDER BY audit.number LIMIT $3",
        tenant,
        after,
        WINDOW,
    )


def _waiting(tx: Tx, tenant: str) -> list[Row]:
    """Return the rows that wait for their link, each with 1 if it is gone."""
    return tx.all(
        "SELECT waits.number, CASE WHEN audit.number IS NULL THEN 1 ELSE 0 END FROM audit_unsealed AS waits "
        "LEFT JOIN audit ON audit.tenant = waits.tenant AND audit.number = waits.number "
        "LEFT JOIN audit_links AS link ON link.tenant = waits.tenant AND link.number = waits.number "
        "WHERE waits.tenant = $1 AND link.number IS NULL ORDER BY waits.number",
        tenant,
    )


def _tells(row: TrailRow | None, beginning: Head) -> bool:
    """True if the row says that the rows up to the chain's beginning have left."""
    if row is None or (row.capability, row.operation) != (CAPABILITY, REMOVE):
        return False
    details = _details(row)
    return (details.get("place"), details.get("digest")) == (beginning.place, beginning.digest.hex())


def _details(row: TrailRow) -> dict[str, Any]:
    """Return what a row says; nothing if somebody made it unreadable."""
    try:
        details = orjson.loads(row.details)
    except orjson.JSONDecodeError:
        return {}
    return cast(dict[str, Any], details) if isinstance(details, dict) else {}


def _time(said: Mapping[str, Any]) -> int | None:
    try:
        return from_iso(said["before"])
    except (KeyError, TypeError, ValueError):
        return None


def _places(details: Mapping[str, Any]) -> list[Run]:
    """Return the places that a row of an erasure names, in order; none if it names them in no form of ours."""
    try:
        return sorted((int(first), int(last)) for first, last in details.get("places", ()))
    except (TypeError, ValueError):
        return []


def _without(places: Sequence[Run], named: Sequence[Run]) -> list[Run]:
    """Return the places that are not named. Both are in order."""
    left: list[Run] = []
    skipped = 0
    for first, last in places:
        while skipped < len(named) and named[skipped][1] < first:
            skipped += 1
        for low, high in itertools.islice(named, skipped, None):
            if low > last:
                break
            if low > first:
                left.append((first, low - 1))
            first = max(first, high + 1)
        if first <= last:
            left.append((first, last))
    return left


def _shown(first: int, last: int) -> str:
    return f"place {first}" if first == last else f"places {first} to {last}"
