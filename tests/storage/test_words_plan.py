"""How a word search is planned on a large index: which tokens lead, what is counted anew, when a list is good enough."""

import pytest

from kho.kernel.ports import Database, Tx
from kho.storage import words
from kho.storage.words import COMMON, FAIR_LENGTH, TOO_MANY, Counts, Found, Weighed, best, full_score, weigh
from kho.storage.words_postgres import PostgresWords
from kho.storage.words_sqlite import SqliteWords

pytestmark = pytest.mark.anyio


def leading(weighed: list[Weighed]) -> set[str]:
    return {item.token for item in weighed if item.leads}


def test_rare_tokens_weigh_more() -> None:
    weights = {
        item.token: item.weight for item in weigh({"rare": 1.0, "common": 1.0}, 1000, {"rare": 1, "common": 900})
    }
    assert weights["rare"] > weights["common"] > 0


def test_on_a_small_index_every_token_leads() -> None:
    assert leading(weigh({"a": 1.0, "b": 0.1}, 100, {"a": 1, "b": 100})) == {"a", "b"}


def test_a_token_that_is_everywhere_only_follows() -> None:
    weighed = weigh({"rare": 1.0, "other": 1.0, "the": 0.1}, 100_000, {"rare": 10, "other": 50, "the": 100_000})
    assert leading(weighed) == {"rare", "other"}


def test_a_query_of_nothing_but_common_tokens_is_still_led() -> None:
    frequencies = {"a": 90_000, "b": 95_000}
    assert leading(weigh(dict.fromkeys(frequencies, 1.0), 100_000, frequencies))


class Asked:
    """Answers with lists of given lengths, and remembers who led."""

    def __init__(self, *answers: Found) -> None:
        self.answers = list(answers)
        self.led: list[set[str]] = []
        self.every: list[bool] = []

    def __call__(self, weighed: list[Weighed], every: bool) -> Found:
        self.led.append(leading(weighed))
        self.every.append(every)
        return self.answers.pop(0)


RARE, MIDDLE, LARGE = Weighed("rare", 100, 500), Weighed("middle", 50, COMMON + 1), Weighed("large", 10, TOO_MANY + 1)


def filled(length: int, points: int) -> Found:
    return [(str(number), points) for number in range(length)]


def test_rare_tokens_alone_are_asked_for_once() -> None:
    ask = Asked(filled(3, 1))
    assert best([RARE], 100, ask) == filled(3, 1)
    assert ask.led == [{"rare"}]


def test_a_full_list_that_nothing_else_can_beat_is_the_answer() -> None:
    ask = Asked(filled(100, full_score([MIDDLE]) + 1))
    assert len(best([RARE, MIDDLE], 100, ask)) == 100
    assert ask.led == [{"rare"}]


@pytest.mark.parametrize("first", [filled(99, 10_000), filled(100, full_score([MIDDLE]))])
def test_otherwise_the_others_lead_too(first: Found) -> None:
    ask = Asked(first, filled(100, 1))
    assert best([RARE, MIDDLE], 100, ask) == filled(100, 1)
    assert ask.led == [{"rare"}, {"rare", "middle"}]


def test_a_fair_list_saves_a_walk_that_is_too_long() -> None:
    ask = Asked(filled(FAIR_LENGTH, 1))
    assert best([RARE, LARGE], 1000, ask) == filled(FAIR_LENGTH, 1)
    ask = Asked(filled(FAIR_LENGTH - 1, 1), filled(5, 1))
    assert best([RARE, LARGE], 1000, ask) == filled(5, 1)


def test_when_every_token_is_common_entries_that_hold_several_come_first() -> None:
    tokens = [Weighed(name, 10, TOO_MANY + number) for number, name in enumerate("dcba", 1)]
    ask = Asked(filled(FAIR_LENGTH, 1))
    assert best(tokens, 1000, ask) == filled(FAIR_LENGTH, 1)
    assert (ask.led, ask.every) == ([{"d", "c", "b"}], [True])
    ask = Asked(filled(1, 1), filled(1000, 100))
    assert best(tokens, 1000, ask) == filled(1000, 100)
    assert (ask.led, ask.every) == ([{"d", "c", "b"}, {"d"}], [True, False])


def test_only_large_counts_are_kept_and_only_while_the_index_is_of_a_size() -> None:
    counts, questions = Counts(), list[list[str]]()

    def ask(unknown: list[str]) -> list[int]:
        questions.append(unknown)
        return [COMMON + 1 if token == "common" else 1 for token in unknown]

    for entries in (10_000, 10_900, 11_100):
        assert counts.of("s", "t", entries, ["common", "rare"], ask) == {"common": COMMON + 1, "rare": 1}
    assert counts.of("s", "other", 11_100, ["common"], ask) == {"common": COMMON + 1}
    assert questions == [["common", "rare"], ["rare"], ["common", "rare"], ["common"]]


async def test_common_words_find_what_holds_the_whole_query(db: Database) -> None:
    """The plan changes what is walked, not what a whole match scores; shown on both databases with small thresholds."""
    index = SqliteWords() if db.engine == "sqlite" else PostgresWords()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("COMMON", 5), ("TOO_MANY", 20), ("FAIR_LENGTH", 3)):
            patch.setattr(words, name, value)

        def fill(tx: Tx) -> None:
            for number in range(60):
                body = (
                    ["common", f"n{number}"]
                    + (["usual"] if number % 2 else [])
                    + (["rare"] if number % 20 == 1 else [])
                )
                index.put(tx, "s", "t", f"k{number:02}", [], body)

        await db.write(fill)
        found = await db.read(
            lambda tx: index.match(tx, "s", "t", [("common", 1.0), ("usual", 1.0), ("rare", 1.0)], 10)
        )
    assert {key for key, _ in found[:3]} == {"k01", "k21", "k41"}
    assert found[0][1] == pytest.approx(found[2][1])
    assert found[0][1] >= 0.8


async def test_a_query_of_common_words_alone_finds_what_holds_them_all(db: Database) -> None:
    index = SqliteWords() if db.engine == "sqlite" else PostgresWords()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("COMMON", 5), ("TOO_MANY", 20), ("FAIR_LENGTH", 3)):
            patch.setattr(words, name, value)

        def fill(tx: Tx) -> None:
            for number in range(60):
                index.put(
                    tx, "s", "t", f"k{number:02}", [], ["one", "two"] if number >= 55 else [("one", "two")[number % 2]]
                )

        await db.write(fill)
        found = await db.read(lambda tx: index.match(tx, "s", "t", [("one", 1.0), ("two", 1.0)], 10))
    assert [key for key, _ in found] == ["k59", "k58", "k57", "k56", "k55"]
    assert {score for _, score in found} == {1.0}
