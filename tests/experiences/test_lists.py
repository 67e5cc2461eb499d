"""Lists that outlive a page."""

from kho.experiences import lists as lists_module
from kho.experiences.lists import MOST, Lists
from kho.experiences.rank import Candidate


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
