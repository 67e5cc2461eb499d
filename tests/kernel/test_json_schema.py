"""Schemas as models read them: no generated titles, no null variants, no references."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, Field

from kho.kernel import json_schema
from kho.kernel.call import Principal
from kho.slices import describe


class Inner(BaseModel):
    title: str
    size: int | None = None


class Outer(BaseModel):
    """What it is."""

    title: Annotated[str, Field(max_length=5)]
    inner: Inner = Field(description="the inner one")
    inners: list[Inner] = []
    perhaps: Inner | None = None
    either: int | str | None = None
    choice: Literal["a", "b"] = "a"
    note: str | None = Field(None, description="a note", max_length=3)


def test_a_schema_is_tidied() -> None:
    inner: Any = {
        "type": "object",
        "properties": {"title": {"type": "string"}, "size": {"type": "integer"}},
        "required": ["title"],
    }
    assert json_schema.of(Outer) == {
        "type": "object",
        "description": "What it is.",
        "properties": {
            "title": {"type": "string", "maxLength": 5},
            "inner": {**inner, "description": "the inner one"},
            "inners": {"type": "array", "items": inner, "default": []},
            "perhaps": inner,
            "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
            "choice": {"type": "string", "enum": ["a", "b"], "default": "a"},
            "note": {"type": "string", "maxLength": 3, "description": "a note"},
        },
        "required": ["title", "inner"],
    }


def test_an_output_schema_covers_failures() -> None:
    covered = json_schema.or_error(json_schema.of(Inner, "serialization"))
    assert covered["type"] == "object"
    assert covered["anyOf"][1] == json_schema.ERROR


def test_no_tool_s_schema_holds_what_models_stumble_over() -> None:
    registry = describe()
    everyone = Principal("", "", frozenset({"*"}))
    found = [
        (operation.name, operation.input_schema, operation.output_schema) for operation in registry.operations(everyone)
    ]
    assert len(found) >= 9
    for name, taken, given in found:
        for described in (taken, given):
            assert described is not None, name
            assert described["type"] == "object", name
            assert list(odd(described)) == [], name


def test_a_tool_s_schema_names_the_contract_s_limits() -> None:
    query = describe().tool("query_experiences")
    assert query is not None
    limit = query.input_schema["properties"]["limit"]
    assert (limit["type"], limit["default"], limit["minimum"], limit["maximum"]) == ("integer", 10, 1, 50)


KEYWORDS = set(
    "type properties required items anyOf enum const default description additionalProperties pattern minLength "
    "maxLength minItems maxItems minimum maximum exclusiveMinimum exclusiveMaximum examples".split()
)
"""Of JSON Schema, those that every client understands. References, titles and pydantic's own words are none."""


def odd(node: Any, *, names: bool = False) -> Iterator[str]:
    """What must not occur: other keywords, null variants, values of which nothing is said."""
    if isinstance(node, list):
        for item in cast(list[Any], node):
            yield from odd(item)
    elif isinstance(node, dict):
        found = cast(dict[str, Any], node)
        if not names:
            yield from sorted(found.keys() - KEYWORDS)
            if found.get("type") == "null":
                yield "null"
            if not found.keys() - {"description", "default"}:
                yield "untyped"
        for key, value in found.items():
            yield from odd(value, names=key == "properties" and not names)
