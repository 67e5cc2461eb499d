"""Our `dataclass` behaves as the standard library's, but for what the type checker sees to."""

import dataclasses
from dataclasses import field, replace

from kho.lib.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 2
    secret: str = field(default="", repr=False)


@dataclass(slots=True)
class Place:
    names: list[str] = field(default_factory=list[str])


def test_it_is_one() -> None:
    assert Point(1) == Point(1, 2)
    assert Point(1) != Point(2)
    assert len({Point(1), Point(1, 2)}) == 1
    assert replace(Point(1), y=3) == Point(1, 3)
    assert [one.name for one in dataclasses.fields(Point)] == ["x", "y", "secret"]
    assert not hasattr(Point(1), "__dict__")


def test_it_shows_its_values_but_those_that_are_hidden() -> None:
    assert repr(Point(1, secret="canary")) == "Point(x=1, y=2)"
    assert repr(Place(["a"])) == "Place(names=['a'])"


def test_what_can_change_has_no_hash() -> None:
    assert Place.__hash__ is None
