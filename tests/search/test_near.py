"""Near-duplicates by bands."""

import random

from kho.search.near import BANDS, bands, likeness


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
