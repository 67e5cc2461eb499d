"""Near-duplicates by bands, and lists that outlive a page."""

import random

from kho.experiences import lists as lists_module
from kho.experiences.lists import MOST, Lists
from kho.experiences.near import BANDS, bands, likeness
from kho.experiences.rank import Candidate


def words(seed: int, count: int) -> set[str]:
    chance = random.Random(seed)
    return {f"w{chance.randrange(100_000)}" for _ in range(count)}


def test_equal_words_share_every_band_and_strangers_none() -> None:
    assert bands(words(1, 80)) == bands(words(1, 80))
    assert len(bands(words(1, 80))) == BANDS
    assert not {*bands(words(1, 80))} & {*bands(words(2, 80))}
    assert bands(set()) == []


def test_nine_of_ten_common_words_nearly_always_share_a_band() -> None:
    found = 0
    for seed in range(100):
        one = words(seed, 100)
        other = {*sorted(one)[5:], *words(seed + 1000, 5)}
        assert likeness(one, other) > 0.88
        found += bool({*bands(one)} & {*bands(other)})
    assert found >= 97


def test_likeness_is_the_share_of_common_words() -> None:
    assert likeness({"a", "b"}, {"b", "c"}) == 1 / 3
    assert likeness(set(), set()) == 0


def test_a_list_is_kept_for_a_while() -> None:
    kept, ranked = Lists(), [Candidate("a", 1.0, 0, 0)]
    kept.keep(("t", "q"), ranked)
    assert kept.find(("t", "q")) == ranked
    assert kept.find(("other", "q")) is None
    before, lists_module.KEPT = lists_module.KEPT, 0.0
    try:
        assert kept.find(("t", "q")) is None
    finally:
        lists_module.KEPT = before


def test_the_oldest_list_makes_room() -> None:
    kept = Lists()
    for number in range(MOST + 1):
        kept.keep(number, [])
    assert kept.find(0) is None
    assert kept.find(1) == []
