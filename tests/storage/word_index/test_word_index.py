"""The word index, alike on both databases."""

import shutil
from collections import Counter
from collections.abc import Sequence
from math import log
from pathlib import Path
from typing import Any

import pytest
from tests.engines import words_of

from kho.kernel import errors
from kho.kernel.ports import Database, PassageRef, SearchFilter, Tx, WordEntry, WordMatches, Words
from kho.storage.migrate import OWN, migrate
from kho.storage.word_index import base as shared
from kho.storage.word_index.postgres import PostgresWords
from kho.storage.word_index.sqlite import SqliteWords

Texts = tuple[Sequence[str], Sequence[str]]
HERE = SearchFilter("s", "t")
HOSTILE = ['"', "'", "\\", "a b", "NEAR(", "head:", "a*", "*", "^", "AND", "ＯＲ", "0xdead", "", " ", "\0", "\ud800", "é", "É",
           "x" * 5000, "知識", "🏠", "';--", "{1}", "-", "ไทย", "हिन्दी", "K", "k"]  # fmt: skip


def entry(filed: PassageRef, head: Sequence[str], body: Sequence[str]) -> WordEntry:
    return WordEntry(filed, Counter(head), Counter(body), len(body))


async def put(db: Database, words: Words, *entries: Texts, where: SearchFilter = HERE, first: int = 1) -> None:
    """Entries numbered from `first`."""
    filed = [
        entry(PassageRef(seq, where.space, where.tenant, created_at=seq), head, body)
        for seq, (head, body) in enumerate(entries, first)
    ]
    await db.write(lambda tx: words.put(tx, filed))


async def file(db: Database, words: Words, *filed: PassageRef) -> None:
    await db.write(lambda tx: words.put(tx, [entry(it, (), ["x"]) for it in filed]))


async def match(db: Database, words: Words, *tokens: str, where: SearchFilter = HERE, limit: int = 10) -> WordMatches:
    return await db.read(lambda tx: words.match(tx, where, [(token, 1.0) for token in tokens], limit))


async def found(db: Database, words: Words, *tokens: str, where: SearchFilter = HERE, limit: int = 99) -> list[int]:
    return [seq for seq, _ in (await match(db, words, *tokens, where=where, limit=limit)).found]


async def test_the_score_is_the_share_of_the_weight(db: Database, words: Words) -> None:
    await put(db, words, (["red"], ["fox"]), (["red"], ()), ((), ["fox", "den"]))
    red = log(1 + 13 / 3)
    unknown = log(1 + 13 / 1)
    total = 2 * red + unknown
    answer = await match(db, words, "red", "fox", "unknown")
    assert answer.rarity == pytest.approx({"red": red, "fox": red, "unknown": unknown})
    assert [seq for seq, _ in answer.found] == [1, 2, 3]
    shares = [1.8 * red / total, red / total, 0.8 * red / total]
    assert [score for _, score in answer.found] == pytest.approx(shares, abs=1e-6)


async def test_everything_in_the_head_is_a_full_score(db: Database, words: Words) -> None:
    await put(db, words, (["red", "fox"], ["red"]))
    assert (await match(db, words, "red", "fox")).found == [(1, 1.0)]


async def test_rare_tokens_weigh_more(db: Database, words: Words) -> None:
    await put(db, words, ((), ["rare"]), *[((), ["common"])] * 9)
    assert (await found(db, words, "common", "rare"))[0] == 1


async def test_importance_outweighs(db: Database, words: Words) -> None:
    await put(db, words, ((), ["x"]), ((), ["y"]))
    for one, other, first in ((1.0, 5.0, 2), (5.0, 1.0, 1)):
        asked = [("x", one), ("y", other)]
        answer = await db.read(lambda tx, asked=asked: words.match(tx, HERE, asked, 10))
        assert answer.found[0][0] == first


async def test_equals_come_newest_first_and_are_limited(db: Database, words: Words) -> None:
    await put(db, words, *[((), ["same"])] * 20)
    assert await found(db, words, "same", limit=3) == [20, 19, 18]
    assert await found(db, words, "same", limit=0) == []


async def test_nothing_matches_nothing(db: Database, words: Words) -> None:
    assert (await match(db, words, "red")).found == []
    await put(db, words, (["red"], ["fox"]))
    assert await found(db, words, "blue") == []
    assert await match(db, words) == WordMatches([], {})
    useless = [("red", 0.0), ("fox", -1.0), ("a", float("nan")), ("", 1.0)]
    assert await db.read(lambda tx: words.match(tx, HERE, useless, 5)) == WordMatches([], {})


async def test_drop_removes_and_the_number_can_be_filed_again(db: Database, words: Words) -> None:
    await put(db, words, (["old"], ["older"]), (["old"], ()))
    await db.write(lambda tx: words.drop(tx, [1, 77]))
    assert await found(db, words, "old", "older") == [2]
    assert (await match(db, words, "older")).rarity["older"] == pytest.approx(log(1 + 11 / 1))
    await db.write(lambda tx: words.drop(tx, []))
    await put(db, words, (["new"], ()))
    assert (await match(db, words, "new")).found == [(1, 1.0)]
    assert await found(db, words, "older") == []


async def test_an_empty_batch_and_an_entry_without_tokens_are_fine(db: Database, words: Words) -> None:
    await db.write(lambda tx: words.put(tx, []))
    await put(db, words, ((), ()), ((), ["x"]))
    assert await found(db, words, "x") == [2]


async def test_a_number_is_filed_once(db: Database, words: Words) -> None:
    await put(db, words, ((), ["x"]))
    with pytest.raises(errors.UniqueViolation):
        await put(db, words, ((), ["y"]))
    assert await found(db, words, "x", "y") == [1]


async def test_a_rolled_back_batch_leaves_nothing(db: Database, words: Words) -> None:
    await put(db, words, ((), ["kept"]))

    def work(tx: Tx) -> None:
        words.put(tx, [entry(PassageRef(seq, "s", "t"), ["red"], []) for seq in range(2, 100)])
        words.drop(tx, [1])
        raise KeyError

    with pytest.raises(KeyError):
        await db.write(work)
    answer = await match(db, words, "red", "kept")
    assert [seq for seq, _ in answer.found] == [1]
    assert answer.rarity["red"] == pytest.approx(log(1 + 11 / 1))


async def test_tenants_and_spaces_are_apart(db: Database, words: Words) -> None:
    places = [SearchFilter(space, tenant) for tenant in ("t1", "t2") for space in ("s1", "s2")]
    for number, where in enumerate(places, 1):
        await put(db, words, (["secret"], [where.tenant + where.space]), where=where, first=number)
    await put(db, words, *[(["secret"], ())] * 9, where=places[0], first=10)
    # Other tenants' entries change neither what is found nor what it weighs.
    answer = await match(db, words, "secret", where=SearchFilter("s1", "t2"))
    assert answer.found == [(3, 1.0)]
    assert answer.rarity == pytest.approx({"secret": log(1 + 11 / 2)})
    assert await found(db, words, "t1s1", where=SearchFilter("s1", "t2")) == []
    assert await found(db, words, "secret", where=SearchFilter("s1", "t3")) == []
    assert len(await found(db, words, "secret", where=places[0])) == 10


async def test_a_tenants_name_cannot_reach_into_anothers(db: Database, words: Words) -> None:
    await put(db, words, (["x"], ()), where=SearchFilter("a", "b c"))
    assert await found(db, words, "x", where=SearchFilter("a b", "c")) == []
    assert await found(db, words, "x", where=SearchFilter("a", "b")) == []


LONG = "kiến thức " * 12
FILED = [
    PassageRef(1, "s", "t", "một", "note", ("a", "b"), 100),
    PassageRef(2, "s", "t", "một", "code", ("a",), 200),
    PassageRef(3, "s", "t", LONG, "note", (), 300),
    PassageRef(4, "s", "t", LONG + "2", "note", ("b", LONG), 400),
    PassageRef(5, "s", "t", "", "", ("a", "a"), 500),
    PassageRef(6, "s", "u", "một", "note", ("a", "b"), 100),
]
NARROWED: list[tuple[SearchFilter, list[int]]] = [
    (SearchFilter("s", "t"), [5, 4, 3, 2, 1]),
    (SearchFilter("s", "t", collections=("một",)), [2, 1]),
    (SearchFilter("s", "t", collections=("một", LONG)), [3, 2, 1]),
    (SearchFilter("s", "t", collections=("",)), [5]),
    (SearchFilter("s", "t", collections=("mot",)), []),
    (SearchFilter("s", "t", kinds=("note",)), [4, 3, 1]),
    (SearchFilter("s", "t", kinds=("note", "code")), [4, 3, 2, 1]),
    (SearchFilter("s", "t", tags=("a",)), [5, 2, 1]),
    (SearchFilter("s", "t", tags=("a", "b")), [1]),
    (SearchFilter("s", "t", tags=("a", LONG)), []),
    (SearchFilter("s", "t", tags=(LONG,)), [4]),
    # A tag is not a kind, nor a token.
    (SearchFilter("s", "t", tags=("note",)), []),
    (SearchFilter("s", "t", collections=("một",), kinds=("note",), tags=("b",)), [1]),
    (SearchFilter("s", "t", since=200), [5, 4, 3, 2]),
    (SearchFilter("s", "t", until=200), [1]),
    (SearchFilter("s", "t", since=200, until=400), [3, 2]),
    (SearchFilter("s", "t", since=-(2**63), until=2**63 - 1), [5, 4, 3, 2, 1]),
    (SearchFilter("s", "t", since=200, kinds=("note",)), [4, 3]),
    (SearchFilter("s", "t", since=300, until=100), []),
]


@pytest.mark.parametrize("reach", [0, 2, shared.DEFAULT_LIMITS.reach])
async def test_filters_hold(db: Database, reach: int) -> None:
    """However the plan comes to look at them: by their tokens, by a narrow filter, or by a narrow time."""
    words = words_of(db, shared.PlanLimits(reach=reach))
    await file(db, words, *FILED)
    for where, seqs in NARROWED:
        assert await found(db, words, "x", where=where) == seqs, where


async def test_filters_hold_before_the_limit(db: Database, words: Words) -> None:
    await file(db, words, *(PassageRef(seq, "s", "t", "ab"[seq % 10 == 0], created_at=seq) for seq in range(1, 101)))
    assert await found(db, words, "x", where=SearchFilter("s", "t", ("b",)), limit=3) == [100, 90, 80]
    assert await found(db, words, "x", where=SearchFilter("s", "t", until=3), limit=2) == [2, 1]
    # What a token weighs does not depend on the filter.
    narrow, wide = [
        (await match(db, words, "x", where=where)).rarity for where in (SearchFilter("s", "t", ("b",)), HERE)
    ]
    assert narrow == wide


async def test_a_token_cannot_pass_for_a_filter(db: Database, words: Words) -> None:
    tokens = [letter + text for letter in ("c", "k", "t", "e", "s", "sw", "se") for text in ("", "a", "\0a")]
    await put(db, words, ((), tokens), *[((), ["x"])] * 3)
    for where in (
        SearchFilter("s", "t", ("a",)),
        SearchFilter("s", "t", kinds=("a",)),
        SearchFilter("s", "t", tags=("a",)),
    ):
        assert await found(db, words, *tokens, where=where) == []
    for token in tokens:
        answer = await match(db, words, token)
        assert answer.found == [(1, 0.8)]
        assert answer.rarity[token] == pytest.approx(log(1 + 14 / 2))


async def test_hostile_tokens_are_only_tokens(db: Database, words: Words) -> None:
    await put(db, words, *(((), [token] if token else []) for token in HOSTILE))
    for number, token in enumerate(HOSTILE, 1):
        assert await found(db, words, token) == ([number] if token else []), token


async def test_long_entries_and_long_queries_are_cut(db: Database, words: Words) -> None:
    many = [f"w{number}" for number in range(30_000)]
    await put(db, words, ((), many))
    assert (await match(db, words, many[19_999])).found == [(1, 0.8)]
    assert await found(db, words, many[20_000]) == []
    asked = [*((f"no{number}", 1.0) for number in range(100)), ("w1", 2.0)]
    answer = await db.read(lambda tx: words.match(tx, HERE, asked, 5))
    assert (len(answer.found), len(answer.rarity)) == (1, shared.MAX_QUERY_TOKENS)
    asked = [*((f"no{number}", 1.0) for number in range(100)), ("w1", 0.5)]
    assert await db.read(lambda tx: words.match(tx, HERE, asked, 5).found) == []
    # A query of as many tokens as there may be finds what holds them all.
    assert await found(db, words, *many[: shared.MAX_QUERY_TOKENS]) == [1]


async def test_common_tokens_are_counted_by_a_sample(db: Database) -> None:
    words = words_of(db, shared.PlanLimits(sampled=4, enough=16))
    entries = [((), ["all", *(["half"] if seq % 2 else []), *(["few"] if seq < 20 else [])]) for seq in range(1, 801)]
    await put(db, words, *entries)
    sampled = [seq for seq in range(1, 801) if shared.is_sampled(seq, 4)]
    assert 150 < len(sampled) < 250
    rarity = (await match(db, words, "all", "half", "few")).rarity
    size = 4 * len(sampled)
    assert rarity["all"] == pytest.approx(log(1 + (size + 10) / (size + 1)))
    assert rarity["half"] == pytest.approx(log(1 + (size + 10) / (4 * sum(seq % 2 for seq in sampled) + 1)))
    assert rarity["few"] == pytest.approx(log(1 + (size + 10) / 20))


async def test_an_index_of_the_old_form_makes_room(blank: Database, tmp_path: Path) -> None:
    old = tmp_path / "migrations"
    old.mkdir()
    for file in OWN[1].glob("00[123]_*.sql"):
        shutil.copy(file, old)
    await migrate(blank, [(OWN[0], old)])
    row = (
        "INSERT INTO words_entries (space, tenant, key"
        + {
            "sqlite": ") VALUES ('s', 't', 'k')",
            "postgres": ", terms, heads) VALUES ('s', 't', 'k', '{1}', '{}')",
        }[blank.engine]
    )
    await blank.write(lambda tx: tx.run(row))
    await migrate(blank, [OWN])
    words: Words = SqliteWords() if blank.engine == "sqlite" else PostgresWords()
    await put(blank, words, (["red"], ()))
    assert await found(blank, words, "red") == [1]


async def test_what_tokens_count(db: Database, words: Words) -> None:
    entries = [
        WordEntry(
            PassageRef(1, "s", "t"), {"head": 1.5, "both": 3}, {"both": 2, "body": 1, "many": 900, "little": 0.01}, 7
        ),
        WordEntry(PassageRef(2, "s", "t"), {}, {"body": 2}, 2),
        WordEntry(PassageRef(3, "s", "other"), {}, {"body": 2}, 2),
    ]
    await db.write(lambda tx: words.put(tx, entries))
    wanted = ["both", "body", "head", "many", "little", "absent"]
    counted = await db.read(lambda tx: words.counted(tx, HERE, [1, 2, 3, 4], wanted))
    assert counted == {
        1: ({"head": 1.5, "both": 5.0, "body": 1.0, "many": 63.75, "little": 0.25}, 7),
        2: ({"body": 2.0}, 2),
    }


async def test_hostile_tokens_are_counted(db: Database, words: Words) -> None:
    tokens = [token for token in HOSTILE if token]
    await put(db, words, ((), tokens))
    counted = await db.read(lambda tx: words.counted(tx, HERE, [1], tokens))
    assert counted[1][0] == dict.fromkeys(tokens, 1.0)


async def test_an_entry_from_before_has_each_token_once(db: Database, words: Words) -> None:
    await put(db, words, (["red"], ["blue", "blue"]))
    await db.write(lambda tx: tx.run("UPDATE words_entries SET counts = $1, length = 0", b""))
    held, length = (await db.read(lambda tx: words.counted(tx, HERE, [1], ["red", "blue", "green"])))[1]
    assert held == {"red": 1.0, "blue": 1.0}
    assert length >= 2


async def test_what_matches_a_filter_in_the_order_of_time(db: Database, words: Words) -> None:
    refs = [
        PassageRef(seq, "s", tenant, collection, tags=tags, created_at=at)
        for seq, tenant, collection, tags, at in (
            (1, "t", "a", ("x",), 30),
            (2, "t", "a", ("x", "y"), 10),
            (3, "t", "b", ("y",), 20),
            (4, "t", "b", (), 20),
            (5, "other", "a", ("x",), 10),
        )
    ]
    await file(db, words, *refs)

    async def listed(limit: int = 9, newest_first: bool = False, **more: Any) -> list[int]:
        where = SearchFilter("s", "t", **more)
        return await db.read(lambda tx: words.in_time(tx, where, limit, newest_first=newest_first))

    assert await listed() == [2, 3, 4, 1]
    assert await listed(newest_first=True) == [1, 4, 3, 2]
    assert await listed(2) == [2, 3]
    assert await listed(tags=("x",)) == [2, 1]
    assert await listed(any_tags=("y", "z")) == [2, 3]
    assert await listed(collections=("b",), since=20, until=30) == [3, 4]
    assert await listed(since=21, until=30) == []
