"""Word index on PostgreSQL: an array of 64-bit terms per entry, with a GIN index.

A term's number includes (space, tenant), so that a query reads its own tenant's postings only. Numbers instead of a
tsvector: any token fits, however long or unusual, a row is half the size, and there is no query grammar.
"""

from collections.abc import Iterable, Sequence

from kho.kernel.ports import PassageRef, SearchFilter, TokenCounts, Tx, WordEntry, WordMatches
from kho.lib.sql import number_of
from kho.storage.word_index import base

_FIRST, _LAST = -(2**63), 2**63 - 1

_PUT = """
INSERT INTO words_entries (seq, scope, created_at, heads, terms, counts, length)
SELECT seq, scope, created_at, heads, terms::bigint[], decode(counts, 'hex'), length
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::int[], $5::text[], $6::text[], $7::int[])
AS new (seq, scope, created_at, heads, terms, counts, length)
"""
_COUNTED = """
SELECT seq, CASE counts WHEN '' THEN terms ELSE terms[1:length(counts)] END, counts, length FROM words_entries
WHERE seq = ANY($1::bigint[]) AND scope = $2
"""
_COUNTS = """
SELECT (SELECT count(*) FROM words_entries WHERE terms @> ARRAY[asked.term])
FROM unnest($1::bigint[]) WITH ORDINALITY AS asked (term, place) ORDER BY asked.place
"""
_RECENT = """
SELECT count(*) FROM
(SELECT 1 FROM words_entries WHERE scope = $1 AND created_at >= $2 AND created_at <= $3 LIMIT $4) AS recent
"""
_IN_TIME = """
SELECT seq FROM words_entries WHERE scope = $1 AND created_at >= $2 AND created_at <= $3{fitting}
ORDER BY created_at {order}, seq {order} LIMIT $4
"""
# Each entry is scored from its own terms, so that a common token does not require reading all entries that have it.
# A long array is stored outside of its row, and each mention would fetch it again: `||` behind OFFSET fetches it once.
_SCORED = """
SELECT seq, {points} AS points FROM
(SELECT seq, heads, terms || '{{}}'::bigint[] AS terms FROM words_entries
WHERE scope = $1 AND created_at >= $2 AND created_at <= $3{fitting}{newest} OFFSET 0) AS held
"""
_BEST = "SELECT seq, points FROM ({entries}) AS looked_at ORDER BY points DESC, seq DESC LIMIT $4"
# OFFSET separates the two steps: entries are to be found by their terms and then sorted without them.
_NEWEST = "SELECT seq, points FROM ({scored} OFFSET 0) AS scored ORDER BY seq DESC LIMIT {newest}"
# Entries read by number, newest first.
_FIRST_MET = " ORDER BY seq DESC LIMIT {newest}"
# The estimated cost of the pending list, added for each of many clauses, would make the planner read the whole table.
_BY_INDEX, _AS_BEFORE = "SET LOCAL enable_seqscan = off", "SET LOCAL enable_seqscan TO DEFAULT"


class PostgresWords:
    """The `Words` port."""

    def __init__(self, limits: base.PlanLimits = base.DEFAULT_LIMITS) -> None:
        self._limits = limits

    def put(self, tx: Tx, entries: Iterable[WordEntry]) -> None:
        columns: tuple[list[object], ...] = ([], [], [], [], [], [], [])
        numbers: dict[int, _Numbers] = {}
        for entry in entries:
            filed = entry.ref
            tokens, heads, counts = base.distinct(entry)
            mark, number = _scope(filed)
            if mark not in numbers:
                numbers[mark] = _Numbers(mark)
            terms = list(map(numbers[mark].__getitem__, tokens))
            others = base.marks(filed)
            if base.is_sampled(filed.seq, self._limits.sampled):
                others += [(f"s{letter}", text) for letter, text in [*others, *(("w", token) for token in tokens)]]
            terms += (str(mark ^ number_of(*term)) for term in others)
            held = '"{' + ",".join(terms) + '}"'
            row = (filed.seq, number, filed.created_at, heads, held, f'"{counts.hex()}"', entry.length)
            for column, value in zip(columns, row, strict=True):
                column.append(value)
        if columns[0]:
            tx.run(_PUT, *map(_array, columns))

    def drop(self, tx: Tx, seqs: Sequence[int]) -> None:
        tx.run("DELETE FROM words_entries WHERE seq = ANY($1::bigint[])", _array(seqs))

    def match(self, tx: Tx, where: SearchFilter, tokens: Sequence[tuple[str, float]], limit: int) -> WordMatches:
        tx.run(_BY_INDEX)
        found = base.search(_Search(tx, where), where, tokens, limit, self._limits)
        tx.run(_AS_BEFORE)
        return found

    def in_time(self, tx: Tx, where: SearchFilter, limit: int, *, newest_first: bool = False) -> list[int]:
        return _Search(tx, where).in_time("DESC" if newest_first else "ASC", limit)

    def counted(
        self, tx: Tx, where: SearchFilter, seqs: Sequence[int], tokens: Iterable[str]
    ) -> dict[int, TokenCounts]:
        mark, number = _scope(where)
        wanted = {mark ^ number_of("w", token): token for token in tokens}
        found: dict[int, TokenCounts] = {}
        for seq, terms, counts, length in tx.all(_COUNTED, _array(seqs), number):
            held = wanted.keys() & set(terms)
            found[seq] = {wanted[term]: base.count_of(counts, terms.index(term)) for term in held}, length or len(terms)
        return found


class _Search:
    """One query. Numbers are written into the statements: they are our own digests and weights."""

    def __init__(self, tx: Tx, where: SearchFilter) -> None:
        self._tx = tx
        self._mark, number = _scope(where)
        self._window = (
            number,
            _FIRST if where.since is None else where.since,
            _LAST if where.until is None else where.until - 1,
        )
        groups = [[self._term(term) for term in group] for group in base.filters(where)]
        self._fitting = "".join(f" AND terms {'@>' if len(group) == 1 else '&&'} {_literal(group)}" for group in groups)

    def count(self, terms: Sequence[base.Term]) -> list[int]:
        return [row[0] for row in self._tx.all(_COUNTS, _array(self._term(term) for term in terms))]

    def recent(self, limit: int) -> int:
        row = self._tx.one(_RECENT, *self._window, limit)
        return row[0] if row else 0

    def look(
        self, clauses: Sequence[base.Clause], tokens: Sequence[base.WeightedToken], newest: int | None, limit: int
    ) -> base.Scored:
        single = [self._term(("w", clause[0].token)) for clause in clauses if len(clause) == 1]
        leading = [f"terms && {_literal(single)}"] if single else []
        leading += (self._together(clause) for clause in clauses if len(clause) > 1)
        scored = self._scored(tokens, f" AND ({' OR '.join(leading)})")
        return self._best(scored if newest is None else _NEWEST.format(scored=scored, newest=newest), limit)

    def look_at_newest(self, tokens: Sequence[base.WeightedToken], newest: int, limit: int) -> base.Scored:
        scored = self._scored(tokens, f" AND {self._together(tokens)}", _FIRST_MET.format(newest=newest))
        return self._best(scored, limit)

    def look_at_all(self, tokens: Sequence[base.WeightedToken], by_time: bool, limit: int) -> base.Scored:
        return self._best(self._scored(tokens, ""), limit)

    def in_time(self, order: str, limit: int) -> list[int]:
        select = _IN_TIME.format(fitting=self._fitting, order=order)
        return [row[0] for row in self._tx.all(select, *self._window, limit)]

    def _scored(self, tokens: Sequence[base.WeightedToken], leading: str, newest: str = "") -> str:
        points = " + ".join(_points(self._term(("w", item.token)), item.weight) for item in tokens)
        return _SCORED.format(points=points, fitting=leading + self._fitting, newest=newest)

    def _best(self, entries: str, limit: int) -> base.Scored:
        return [(row[0], row[1]) for row in self._tx.all(_BEST.format(entries=entries), *self._window, limit) if row[1]]

    def _together(self, tokens: Sequence[base.WeightedToken]) -> str:
        return f"terms @> {_literal(self._term(('w', item.token)) for item in tokens)}"

    def _term(self, term: base.Term) -> int:
        return self._mark ^ number_of(*term)


class _Numbers(dict[str, str]):
    """Cache of the terms of tokens, as text. Most passages of a batch share most of their tokens."""

    def __init__(self, mark: int) -> None:
        super().__init__()
        self._mark = mark

    def __missing__(self, token: str) -> str:
        self[token] = term = str(self._mark ^ number_of("w", token))
        return term


def _points(term: int, weight: int) -> str:
    return (
        f"CASE WHEN {term} = ANY(terms) THEN"
        f" CASE WHEN {term} = ANY(terms[1:heads]) THEN {weight * (base.IN_BODY + base.IN_HEAD)}"
        f" ELSE {weight * base.IN_BODY} END"
        f" ELSE 0 END"
    )


def _scope(where: SearchFilter | PassageRef) -> tuple[int, int]:
    mark, number = base.scope(where)
    return int(mark, 16), number


def _array(values: Iterable[object]) -> str:
    return "{" + ",".join(map(str, values)) + "}"


def _literal(numbers: Iterable[int]) -> str:
    return f"'{_array(numbers)}'::bigint[]"
