"""The word index, alike on both databases."""

import asyncio
from collections.abc import Sequence
from math import log

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kho.kernel.ports import Database, Tx, Words
from kho.storage import words as shared
from kho.storage.migrate import OWN, migrate
from kho.storage.postgres import Postgres
from kho.storage.sqlite import Sqlite
from kho.storage.words_postgres import PostgresWords
from kho.storage.words_sqlite import SqliteWords

Entry = tuple[str, Sequence[str], Sequence[str]]
HOSTILE = ['"', "'", "\\", "a b", "NEAR(", "head:", "a*", "*", "^", "AND", "ＯＲ", "0xdead", "", " ", "\0", "\ud800", "é", "É",
           "x" * 5000, "知識", "🏠", "';--", "{1}", "-", "ไทย", "हिन्दी", "K", "k"]  # fmt: skip


async def put(db: Database, words: Words, *entries: Entry, tenant: str = "t", space: str = "s") -> None:
    def work(tx: Tx) -> None:
        for key, head, body in entries:
            words.put(tx, space, tenant, key, head, body)

    await db.write(work)


async def match(
    db: Database, words: Words, *tokens: str, tenant: str = "t", space: str = "s", limit: int = 10
) -> list[tuple[str, float]]:
    return await db.read(lambda tx: words.match(tx, space, tenant, [(token, 1.0) for token in tokens], limit))


async def test_the_score_is_the_share_of_the_weight(db: Database, words: Words) -> None:
    await put(db, words, ("both", ["red"], ["fox"]), ("red", ["red"], ()), ("fox", (), ["fox", "den"]))
    red = log(1 + 13 / 3)
    unknown = log(1 + 13 / 1)
    total = 2 * red + unknown
    expected = [("both", 1.8 * red / total), ("red", red / total), ("fox", 0.8 * red / total)]
    found = await match(db, words, "red", "fox", "unknown")
    assert [key for key, _ in found] == [key for key, _ in expected]
    assert [score for _, score in found] == pytest.approx([score for _, score in expected], abs=1e-6)


async def test_everything_in_the_head_is_a_full_score(db: Database, words: Words) -> None:
    await put(db, words, ("a", ["red", "fox"], ()))
    assert await match(db, words, "red", "fox") == [("a", 1.0)]


async def test_rare_tokens_weigh_more(db: Database, words: Words) -> None:
    await put(db, words, *((f"c{number}", (), ["common"]) for number in range(9)), ("rare", (), ["rare"]))
    assert (await match(db, words, "common", "rare"))[0][0] == "rare"


async def test_importance_outweighs(db: Database, words: Words) -> None:
    await put(db, words, ("a", (), ["x"]), ("b", (), ["y"]))
    for one, other, first in ((1.0, 5.0, "b"), (5.0, 1.0, "a")):
        found = await db.read(
            lambda tx, one=one, other=other: words.match(tx, "s", "t", [("x", one), ("y", other)], 10)
        )
        assert found[0][0] == first


async def test_equals_come_newest_first_and_are_limited(db: Database, words: Words) -> None:
    await put(db, words, *((f"k{number}", (), ["same"]) for number in range(20)))
    assert [key for key, _ in await match(db, words, "same", limit=3)] == ["k19", "k18", "k17"]
    assert await match(db, words, "same", limit=0) == []


async def test_nothing_matches_nothing(db: Database, words: Words) -> None:
    await put(db, words, ("a", ["red"], ["fox"]))
    assert await match(db, words, "blue") == []
    assert await match(db, words) == []
    assert (
        await db.read(lambda tx: words.match(tx, "s", "t", [("red", 0.0), ("fox", -1.0), ("a", float("nan"))], 5)) == []
    )


async def test_put_replaces_and_drop_removes(db: Database, words: Words) -> None:
    await put(db, words, ("a", ["old"], ["older"]), ("b", ["old"], ()))
    await put(db, words, ("a", ["new"], ()))
    assert [key for key, _ in await match(db, words, "old", "older")] == ["b"]
    assert await match(db, words, "new") == [("a", 1.0)]
    await db.write(lambda tx: words.drop(tx, "s", "t", "a"))
    await db.write(lambda tx: words.drop(tx, "s", "t", "never there"))
    assert await match(db, words, "new") == []
    await put(db, words, ("a", ["again"], ()))
    assert await match(db, words, "again") == [("a", 1.0)]


async def test_a_rolled_back_entry_is_not_found(db: Database, words: Words) -> None:
    def work(tx: Tx) -> None:
        words.put(tx, "s", "t", "a", ["red"], [])
        raise KeyError

    with pytest.raises(KeyError):
        await db.write(work)
    assert await match(db, words, "red") == []


async def test_tenants_and_spaces_are_apart(db: Database, words: Words) -> None:
    for tenant in ("t1", "t2"):
        for space in ("s1", "s2"):
            await put(db, words, ("k", ["secret"], [tenant + space]), tenant=tenant, space=space)
    await put(db, words, *((f"n{number}", ["secret"], ()) for number in range(9)), tenant="t1", space="s1")
    # Other tenants' entries change neither what is found nor what it weighs.
    assert await match(db, words, "secret", tenant="t2", space="s1") == [("k", 1.0)]
    assert await match(db, words, "t1s1", tenant="t2", space="s1") == []
    assert await match(db, words, "secret", tenant="t3", space="s1") == []
    await db.write(lambda tx: words.drop(tx, "s1", "t2", "k"))
    assert await match(db, words, "secret", tenant="t2", space="s2") == [("k", 1.0)]
    assert len(await match(db, words, "secret", tenant="t1", space="s1", limit=99)) == 10


async def test_a_tenants_name_cannot_reach_into_anothers(db: Database, words: Words) -> None:
    await put(db, words, ("k", ["x"], ()), space="a", tenant="b c")
    assert await match(db, words, "x", space="a b", tenant="c") == []
    assert await match(db, words, "x", space="a", tenant="b") == []


async def test_hostile_tokens_are_only_tokens(db: Database, words: Words) -> None:
    await put(db, words, *((f"k{number}", (), [token]) for number, token in enumerate(HOSTILE) if token))
    for number, token in enumerate(HOSTILE):
        assert [key for key, _ in await match(db, words, token)] == ([f"k{number}"] if token else []), token


async def test_long_entries_and_long_queries_are_cut(db: Database, words: Words) -> None:
    many = [f"w{number}" for number in range(30_000)]
    await put(db, words, ("a", (), many))
    assert await match(db, words, many[19_999]) == [("a", 0.8)]
    assert await match(db, words, many[20_000]) == []
    asked = [*((f"no{number}", 1.0) for number in range(100)), ("w1", 2.0)]
    assert await db.read(lambda tx: len(words.match(tx, "s", "t", asked, 5))) == 1
    asked = [*((f"no{number}", 1.0) for number in range(100)), ("w1", 0.5)]
    assert await db.read(lambda tx: len(words.match(tx, "s", "t", asked, 5))) == 0


async def test_common_tokens_alone_bring_nothing_in_beside_rare_ones(
    db: Database, words: Words, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus: list[Entry] = [(f"c{number}", (), ["the", "of"]) for number in range(300)]
    corpus += [(f"r{number}", ["the"], ["rare", "words"]) for number in range(3)]
    await put(db, words, *corpus)
    exact = await match(db, words, "the", "rare", "words", "gone", limit=1000)
    monkeypatch.setattr(shared, "COMMON", 100)
    pruned = await match(db, words, "the", "rare", "words", "gone", limit=1000)
    assert pruned == exact[:3]
    assert len(exact) == 303
    assert max(score for _, score in exact[3:]) < shared.NEGLIGIBLE
    # A query of common tokens only still finds them.
    assert len(await match(db, words, "the", "of", limit=1000)) == 303


_token = st.sampled_from([*"abcdefgh", *HOSTILE])
_entry = st.tuples(st.lists(_token, max_size=3), st.lists(_token, max_size=8), st.sampled_from(["t", "u"]))
_query = st.lists(st.tuples(_token, st.floats(0, 10)), max_size=6)


@given(
    corpus=st.lists(_entry, max_size=25), asked=_query, common=st.sampled_from([0, 5, 2000]), dropped=st.integers(0, 25)
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_both_databases_give_the_same(
    postgres_schema_url: str,
    corpus: list[tuple[list[str], list[str], str]],
    asked: list[tuple[str, float]],
    common: int,
    dropped: int,
) -> None:
    def fill_and_match(tx: Tx, words: Words) -> list[list[tuple[str, float]]]:
        tx.run("DELETE FROM words_entries")
        if tx.engine == "sqlite":
            tx.run("DELETE FROM words_index")
        for number, (head, body, tenant) in enumerate(corpus):
            words.put(tx, "s", tenant, f"k{number % 20}", head, body)
        words.drop(tx, "s", "t", f"k{dropped}")
        return [words.match(tx, "s", tenant, asked, limit) for tenant in "tu" for limit in (3, 100)]

    async def both() -> Sequence[list[list[tuple[str, float]]]]:
        lite, postgres = Sqlite.open(None), Postgres.open(postgres_schema_url, pool_size=1)
        try:
            await asyncio.gather(migrate(lite, [OWN]), migrate(postgres, [OWN]))
            return await asyncio.gather(
                lite.write(lambda tx: fill_and_match(tx, SqliteWords())),
                postgres.write(lambda tx: fill_and_match(tx, PostgresWords())),
            )
        finally:
            await asyncio.gather(lite.aclose(), postgres.aclose())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared, "COMMON", common)
        one, other = asyncio.run(both())
    assert one == other
    assert all(0 < score <= 1 for found in one for _, score in found)
