"""What is set aside when boards come, and when it is looked through again."""

import gc
from collections.abc import Iterator

import pytest

from kho.devices.lasting import Lasting


@pytest.fixture(autouse=True)
def _nothing_set_aside() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    gc.unfreeze()
    gc.disable()  # it would search of its own accord
    yield
    gc.enable()
    gc.unfreeze()


def test_the_program_itself_and_then_some_boards_at_a_time() -> None:
    lasting = Lasting(some=3)
    lasting.set_aside()
    first = gc.get_freeze_count()
    assert first > 0
    kept = [[] for _ in range(50)]
    lasting.came()
    lasting.came()
    assert gc.get_freeze_count() <= first, "what is set aside may be freed, but nothing joins it yet"
    lasting.came()
    assert gc.get_freeze_count() > first
    assert len(kept) == 50


def test_when_many_have_gone_everything_is_searched_before_anything_is_set_aside_again() -> None:
    lasting = Lasting(some=1, many=2)
    lasting.came()
    lasting.went()
    assert gc.get_freeze_count() > 0
    lasting.went()
    lasting.came()
    assert gc.get_freeze_count() == 0
    gc.collect()
    lasting.came()
    assert gc.get_freeze_count() > 0


def test_a_hub_that_stops_leaves_nothing_aside() -> None:
    lasting = Lasting()
    lasting.set_aside()
    lasting.close()
    assert gc.get_freeze_count() == 0
