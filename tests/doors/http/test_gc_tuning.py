"""What is set aside when sockets come, and when it is looked through again."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from kho.doors.http.gc_tuning import GcFreezer


class Knot:
    """Holds itself: only a search frees it."""

    def __init__(self) -> None:
        self.me = self


@pytest.fixture(autouse=True)
def _by_hand() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    gc.unfreeze()
    gc.disable()
    yield
    gc.enable()
    gc.unfreeze()


def test_the_program_itself_and_then_some_sockets_at_a_time() -> None:
    freezer = GcFreezer(freeze_after=3)
    freezer.start()
    first = gc.get_freeze_count()
    assert first > 0
    kept = [[number] for number in range(50)]
    freezer.came()
    freezer.came()
    assert gc.get_freeze_count() <= first, "what is set aside may be freed, but nothing joins it yet"
    freezer.came()
    assert gc.get_freeze_count() > first
    assert len(kept) == 50


def test_garbage_is_not_set_aside() -> None:
    freezer = GcFreezer(freeze_after=1)
    freezer.start()
    knot = weakref.ref(Knot())
    assert knot() is not None
    freezer.came()
    assert knot() is None


def test_when_many_have_gone_everything_is_looked_through() -> None:
    freezer = GcFreezer(freeze_after=1, thaw_after=2)
    knot = Knot()
    seen = weakref.ref(knot)
    freezer.came()
    del knot
    freezer.went()
    gc.collect()
    assert seen() is not None, "it was set aside"
    freezer.went()
    freezer.came()
    assert seen() is None


def test_a_hub_that_stops_leaves_nothing_aside() -> None:
    freezer = GcFreezer()
    freezer.start()
    freezer.close()
    assert gc.get_freeze_count() == 0
