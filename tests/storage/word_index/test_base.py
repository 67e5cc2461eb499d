"""How a word search is planned on a large index: what is looked at, and what may never be missed."""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.engines import AdminPostgres

from kho.kernel.ports import PassageRef, SearchFilter, Tx, WordEntry, WordMatches, Words
from kho.storage.migrate import OWN, migrate
from kho.storage.postgres.database import PostgresLimits
from kho.storage.sqlite.database import Sqlite
from kho.storage.word_index.base import Clause, PlanLimits, Scored, WeightedToken, best, clauses, expected, full_score
from kho.storage.word_index.postgres import PostgresWords
from kho.storage.word_index.sqlite import SqliteWords, best_of_few, best_of_many

RARE, OTHER = WeightedToken("rare", 100, 500), WeightedToken("other", 90, 1_900)
COMMON, USUAL = WeightedToken("common", 30, 20_000), WeightedToken("usual", 20, 40_000)


@dataclass
class Asked:
    """Answers with given lists, and remembers what it was asked to look at."""

    answers: list[Scored]
    looks: list[list[set[str]]] = field(default_factory=list[list[set[str]]])

    def look(
        self, clauses: Sequence[Clause], tokens: Sequence[WeightedToken], newest: int | None, limit: int
    ) -> Scored:
        self.looks.append([{item.token for item in clause} for clause in clauses])
        return self.answers.pop(0)

    def look_at_newest(self, tokens: Sequence[WeightedToken], newest: int, limit: int) -> Scored:
        return self.look([tuple(tokens)], tokens, newest, limit)

    def look_at_all(self, tokens: Sequence[WeightedToken], by_time: bool, limit: int) -> Scored:
        raise AssertionError

    def count(self, terms: Sequence[tuple[str, str]]) -> list[int]:
        raise AssertionError

    def recent(self, limit: int) -> int:
        raise AssertionError


LIMITS = PlanLimits(rare=2_000, reach=4_000, walk=400_000, combined=8, max_clauses=24)
"""What follows is about how they are used, not about what they are set to."""


def filled(length: int, points: int, first: int = 1) -> Scored:
    return [(seq, points) for seq in range(first + length - 1, first - 1, -1)]


def test_rare_tokens_are_followed_to_the_end() -> None:
    ask = Asked([filled(3, 1)])
    assert best([RARE, OTHER], 100_000, 1.0, ask, 100, LIMITS) == filled(3, 1)
    assert ask.looks == [[{"rare"}, {"other"}]]


def test_a_full_list_that_nothing_else_can_enter_is_the_answer() -> None:
    ask = Asked([filled(100, full_score([COMMON]) + 1)])
    assert len(best([RARE, COMMON], 100_000, 1.0, ask, 100, LIMITS)) == 100
    assert ask.looks == [[{"rare"}]]


@pytest.mark.parametrize("first", [filled(39, 10_000), filled(100, full_score([COMMON, USUAL]))])
def test_otherwise_combinations_of_common_tokens_are_looked_for(first: Scored) -> None:
    ask = Asked([first, filled(1, 99_999, 500)])
    assert best([RARE, COMMON, USUAL], 1_000_000, 1.0, ask, 100, LIMITS)[0] == (500, 99_999)
    assert ask.looks == [[{"rare"}], [{"common", "usual"}]]


def test_many_rare_tokens_are_followed_in_portions_until_the_rest_cannot_matter() -> None:
    tokens = [WeightedToken(str(number), 1_000 - number, 1_500) for number in range(9)]
    ask = Asked([filled(10, 1), filled(10, full_score(tokens[4:]) + 1, 50)])
    assert best(tokens, 1_000_000, 1.0, ask, 10, LIMITS) == filled(10, full_score(tokens[4:]) + 1, 50)
    assert ask.looks == [[{"0"}, {"1"}], [{"2"}, {"3"}]]


def test_without_rare_tokens_what_holds_the_whole_query_comes_first() -> None:
    ask = Asked([filled(100, 1)])
    assert best([COMMON, USUAL], 100_000, 1.0, ask, 100, LIMITS) == filled(100, 1)
    assert ask.looks == [[{"common", "usual"}]]


def test_a_filter_lets_more_tokens_lead() -> None:
    assert clauses([COMMON, USUAL], 1_000_000, 1.0, LIMITS) == [(COMMON, USUAL)]
    assert clauses([COMMON, USUAL], 1_000_000, 0.1, LIMITS) == [(COMMON,)]
    assert clauses([COMMON, USUAL], 1_000_000, 0.05, LIMITS) == [(COMMON,), (USUAL,)]


def test_the_heaviest_combinations_are_looked_for_within_the_reach() -> None:
    tokens = [WeightedToken(f"t{number}", 40 - number, 30_000 + number) for number in range(12)]
    picked = clauses(tokens, 1_000_000, 1.0, LIMITS)
    assert sum(expected(clause, 1_000_000, 1.0) for clause in picked) <= LIMITS.reach
    assert sum(item.frequency for clause in picked for item in clause) <= LIMITS.walk
    assert 1 < len(picked) <= LIMITS.max_clauses
    assert not any(set(one) < set(other) for one in picked for other in picked)
    # Even when every combination is too much, one is looked for.
    assert len(clauses([WeightedToken(name, 1, 900_000) for name in "abcd"], 1_000_000, 1.0, LIMITS)) == 1


@given(
    st.lists(st.tuples(st.lists(st.integers(0, 20), unique=True), st.integers(0, 5)), max_size=30),
    st.dictionaries(st.integers(0, 20), st.integers(1, 9), min_size=1),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_few_and_many_are_scored_alike(entries: list[tuple[list[int], int]], weights: dict[int, int]) -> None:
    rows = [
        (seq, min(heads, len(numbers)), b"".join(number.to_bytes(4, "little") for number in numbers))
        for seq, (numbers, heads) in enumerate(entries)
    ] or [(1, 0, b"")]
    wanted = [(number.to_bytes(4, "little"), weight) for number, weight in weights.items()]
    assert best_of_few(rows, wanted, 7) == best_of_many(rows, wanted, 7)


Corpus = Sequence[tuple[PassageRef, Sequence[str], Sequence[str]]]
Query = tuple[SearchFilter, Sequence[tuple[str, float]], int]


def on_both(
    url: str, corpus: Corpus, dropped: Sequence[int], queries: Sequence[Query], limits: PlanLimits = LIMITS
) -> list[WordMatches]:
    """What both databases answer, which must be the same."""

    def answer(tx: Tx, words: Words) -> list[WordMatches]:
        tx.run("DELETE FROM words_entries")
        if tx.engine == "sqlite":
            tx.run("DELETE FROM words_index")
        words.put(tx, [WordEntry(filed, Counter(head), Counter(body), len(body)) for filed, head, body in corpus])
        words.drop(tx, dropped)
        return [words.match(tx, *query) for query in queries]

    async def both() -> tuple[list[WordMatches], list[WordMatches]]:
        lite, postgres = Sqlite.open(None), AdminPostgres.open(url, PostgresLimits(pool_size=1))
        try:
            await asyncio.gather(migrate(lite, [OWN]), migrate(postgres, [OWN]))
            return await asyncio.gather(
                lite.write(lambda tx: answer(tx, SqliteWords(limits))),
                postgres.write(lambda tx: answer(tx, PostgresWords(limits))),
            )
        finally:
            await asyncio.gather(lite.aclose(), postgres.aclose())

    one, other = asyncio.run(both())
    assert one == other
    return one


def fits(filed: PassageRef, where: SearchFilter) -> bool:
    return (
        (filed.space, filed.tenant) == (where.space, where.tenant)
        and (not where.collections or filed.collection in where.collections)
        and (not where.kinds or filed.kind in where.kinds)
        and set(where.tags) <= set(filed.tags)
        and (where.since is None or filed.created_at >= where.since)
        and (where.until is None or filed.created_at < where.until)
    )


def shares(corpus: Corpus, query: Query, rarity: dict[str, float]) -> dict[int, float]:
    """What each entry that fits should get, worked out plainly."""
    where, asked, _ = query
    importance: dict[str, float] = {}
    for token, value in asked:
        if value > 0:
            importance[token] = max(value, importance.get(token, 0.0))
    weights = {token: value * rarity[token] for token, value in importance.items() if token}
    total = sum(weights.values())
    found: dict[int, float] = {}
    for filed, head, body in corpus:
        points = sum(w for t, w in weights.items() if t in head) + 0.8 * sum(
            w for t, w in weights.items() if t in body and t not in head
        )
        if points and fits(filed, where):
            found[filed.seq] = points / total
    return found


_token = st.sampled_from([*"abcdefgh", "知識", "é", "a b", '"', "\0", "x" * 99])
_filed = st.builds(
    PassageRef,
    st.just(0),
    st.just("s"),
    st.sampled_from(["t", "u"]),
    st.sampled_from(["", "một"]),
    st.sampled_from(["", "k"]),
    st.lists(st.sampled_from(["x", "y"]), unique=True).map(tuple),
    st.integers(0, 9),
)
_corpus = st.lists(st.tuples(_filed, st.lists(_token, max_size=3), st.lists(_token, max_size=8)), max_size=30)
_where = st.builds(
    SearchFilter,
    st.just("s"),
    st.sampled_from(["t", "u"]),
    st.lists(st.sampled_from(["", "một"]), unique=True, max_size=2).map(tuple),
    st.lists(st.sampled_from(["", "k"]), unique=True, max_size=2).map(tuple),
    st.lists(st.sampled_from(["x", "y"]), unique=True, max_size=2).map(tuple),
    st.none() | st.integers(0, 9),
    st.none() | st.integers(0, 9),
)
_query = st.tuples(_where, st.lists(st.tuples(_token, st.floats(0.01, 10)), max_size=6), st.sampled_from([3, 100]))


@given(corpus=_corpus, queries=st.lists(_query, min_size=1, max_size=6), dropped=st.sets(st.integers(1, 30)))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_a_small_index_is_searched_exactly(
    postgres_schema_url: str, corpus: Corpus, queries: list[Query], dropped: set[int]
) -> None:
    numbered = _numbered(corpus)
    left = [entry for entry in numbered if entry[0].seq not in dropped]
    for query, answer in zip(queries, on_both(postgres_schema_url, numbered, list(dropped), queries), strict=True):
        right = shares(left, query, answer.rarity)
        assert dict(answer.found) == pytest.approx({seq: right[seq] for seq, _ in answer.found}, abs=1e-5)
        assert len(answer.found) == min(query[2], len(right))
        missed = [share for seq, share in right.items() if seq not in dict(answer.found)]
        assert not missed or max(missed) <= answer.found[-1][1] + 1e-5


@given(seed=st.integers(0, 999), reach=st.sampled_from([0, 5, 40]), clauses=st.sampled_from([1, 24]))
@example(seed=0, reach=0, clauses=1)
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_on_a_large_index_neither_whole_matches_nor_rare_tokens_are_missed(
    postgres_schema_url: str, seed: int, reach: int, clauses: int
) -> None:
    """Large by small thresholds: in a few hundred entries most tokens are common then."""
    dice = random.Random(seed)
    vocabulary = [f"w{rank}" for rank in range(300)]
    by_rank = [1 / (rank + 1) for rank in range(300)]
    corpus: list[tuple[PassageRef, list[str], list[str]]] = []
    for seq in range(1, 401):
        tokens = dice.choices(vocabulary, by_rank, k=20)
        corpus.append((PassageRef(seq, "s", "t", dice.choice("ab"), created_at=seq), tokens[:2], tokens[2:]))
    queries: list[Query] = []
    for _ in range(25):
        asked = dice.sample(sorted({*dice.choice(corpus)[2]}), 3) + dice.choices(
            vocabulary, by_rank, k=dice.randint(0, 4)
        )
        where = SearchFilter("s", "t", dice.choice([(), ("a",)]), since=dice.choice([None, 100]))
        queries.append((where, [(token, 1.0) for token in asked], dice.choice([5, 20])))
    limits = PlanLimits(rare=10, reach=reach, max_clauses=clauses, walk=800)
    answers = on_both(postgres_schema_url, corpus, [], queries, limits)
    for query, answer in zip(queries, answers, strict=True):
        right = shares(corpus, query, answer.rarity)
        assert dict(answer.found) == pytest.approx({seq: right[seq] for seq, _ in answer.found}, abs=1e-5)
        assert answer.found == sorted(answer.found, key=lambda item: (-item[1], -item[0]))
        held = {filed.seq: {*head, *body} for filed, head, body in corpus}
        asked = {token for token, _ in query[1]}
        rare = {token for token in asked if sum(token in tokens for tokens in held.values()) < 10}
        listed = dict(answer.found)
        last = answer.found[-1][1] if len(listed) == query[2] else 0.0
        for seq, share in right.items():
            if seq not in listed and rare & held[seq]:
                assert share <= last + 1e-5, (query, seq)
            if seq not in listed and asked <= held[seq]:
                assert share <= last + 1e-5 or all(asked <= held[other] for other in listed), (query, seq)


def _numbered(corpus: Corpus) -> list[tuple[PassageRef, Sequence[str], Sequence[str]]]:
    return [
        (PassageRef(seq, it.space, it.tenant, it.collection, it.kind, it.tags, it.created_at), head, body)
        for seq, (it, head, body) in enumerate(corpus, 1)
    ]
