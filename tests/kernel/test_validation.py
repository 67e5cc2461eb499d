"""What a validator finds is said in plain words, by every type of error that a caller can cause."""

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, ValidationError

from kho.kernel.params import Id, Params, Strings, Whole
from kho.kernel.validation import found


class Inner(Params):
    size: int = 1


class Everything(Params):
    id: Id = "x"
    name: Annotated[str, Field(min_length=1, max_length=5)] = "x"
    code: Annotated[str, Field(min_length=3)] = "xxx"
    tags: Strings = Field(default_factory=list)
    some: Annotated[list[str], Field(min_length=1, max_length=2)] = ["x"]  # noqa: RUF012 (never shared)
    pair: Annotated[list[str], Field(min_length=2)] = ["x", "y"]  # noqa: RUF012 (the same)
    count: Annotated[int, Field(ge=1, le=20), Whole] = 1
    share: Annotated[float, Field(gt=0, lt=1)] = 0.5
    flag: bool = True
    mode: Literal["auto", "code"] = "auto"
    inner: Inner = Field(default_factory=Inner)
    more: dict[str, Any] = Field(default_factory=dict)


def said(model: type[BaseModel], value: Any) -> list[tuple[str, str]]:
    with pytest.raises(ValidationError) as failure:
        model.model_validate(value)
    return [(problem.field, problem.message) for problem in found(failure.value)]


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("id", "é", "must be 1 to 128 letters without accents, digits or characters of . _ : / -"),
        ("id", "x" * 129, "must be 1 to 128 letters without accents, digits or characters of . _ : / -"),
        ("name", 1, "must be a text"),
        ("name", "", "must not be empty"),
        ("name", "toolong", "must have at most 5 characters"),
        ("code", "ab", "must have at least 3 characters"),
        ("tags", "a,b", 'must be a list, such as ["a", "b"]'),
        ("some", [], "must not be empty"),
        ("some", ["a", "b", "c"], "must have at most 2 items"),
        ("pair", ["a"], "must have at least 2 items"),
        ("count", 0, "must be 1 or more"),
        ("count", 21, "must be 20 or less"),
        ("count", "many", "must be a whole number"),
        ("count", 1.5, "must be a whole number"),
        ("count", True, "must be a whole number, not true or false"),
        ("share", 0, "must be more than 0.0"),
        ("share", 1, "must be less than 1.0"),
        ("share", "half", "must be a number"),
        ("flag", "perhaps", "must be true or false"),
        ("mode", "hand", "must be 'auto' or 'code'"),
        ("inner", 1, "must be an object"),
        ("more", [], "must be an object"),
        ("other", 1, "is not a known parameter"),
    ],
)
def test_every_kind_of_problem_has_its_words(field: str, value: Any, words: str) -> None:
    assert said(Everything, {field: value}) == [(field, words)]


def test_a_part_is_named_by_its_path() -> None:
    assert said(Everything, {"inner": {"size": "x", "sise": 1}}) == [
        ("inner.size", "must be a whole number"),
        ("inner.sise", "is not a known parameter"),
    ]
    assert said(Everything, []) == [("", "must be an object")]


class Needed(Params):
    name: str


def test_what_is_missing() -> None:
    assert said(Needed, {}) == [("name", "is required")]
