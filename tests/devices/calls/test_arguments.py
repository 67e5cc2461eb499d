"""Arguments are checked before a board sees them, and what is wrong is said so that a model can mend it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kho.devices.calls import arguments
from kho.devices.errors import WrongArguments
from kho.devices.protocol.tool_listing import BoardTool
from kho.kernel.errors import InvalidParams
from kho.simulator.board_tools import COMMON, USER_ONLY

SCHEMAS = {tool.name: tool.listed["inputSchema"] for tool in (*COMMON, *USER_ONLY)}
VOLUME = SCHEMAS["self.audio_speaker.set_volume"]
SNAPSHOT = SCHEMAS["self.screen.snapshot"]


def said(schema: dict[str, Any], given: dict[str, Any]) -> str:
    with pytest.raises(WrongArguments) as caught:
        arguments.check(schema, given)
    assert caught.value.status == 400
    assert caught.value.rpc == -32602
    return caught.value.message


@pytest.mark.parametrize("value", [50, 50.0, "50", " 50 ", "50.0", "+50"])
def test_what_means_fifty_is_fifty(value: Any) -> None:
    found = arguments.check(VOLUME, {"volume": value})
    assert found == {"volume": 50}
    assert type(found["volume"]) is int


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"volume": 101}, "'volume' is 101, but must be a whole number from 0 to 100."),
        ({"volume": -1}, "'volume' is -1, but must be a whole number from 0 to 100."),
        ({"volume": 50.5}, "'volume' is 50.5, but must be a whole number from 0 to 100."),
        ({"volume": "loud"}, "'volume' is \"loud\", but must be a whole number from 0 to 100."),
        ({"volume": True}, "'volume' is true, but must be a whole number from 0 to 100."),
        ({"volume": [1]}, "'volume' is [1], but must be a whole number from 0 to 100."),
        ({}, "'volume' is missing: it must be a whole number from 0 to 100."),
        ({"volume": None}, "'volume' is missing: it must be a whole number from 0 to 100."),
        ({"volume": 5, "Volum": 5}, "'Volum' is not known: perhaps 'volume' is meant."),
        ({"volume": 5, "zzz": 5}, "'zzz' is not known: the tool takes volume."),
    ],
)
def test_what_is_wrong_is_named(given: dict[str, Any], message: str) -> None:
    assert said(VOLUME, given) == message


def test_everything_that_is_wrong_is_named_at_once() -> None:
    with pytest.raises(WrongArguments) as caught:
        arguments.check(SNAPSHOT, {"quality": 0, "urll": "x"})
    assert [problem["field"] for problem in caught.value.details["problems"]] == ["quality", "urll", "url"]


def test_an_optional_argument_of_a_wrong_type_is_not_left_to_the_board() -> None:
    assert arguments.check(SNAPSHOT, {"url": "http://a/b"}) == {"url": "http://a/b"}
    assert "'quality' is \"best\"" in said(SNAPSHOT, {"url": "http://a/b", "quality": "best"})


def test_a_tool_without_arguments_takes_none() -> None:
    assert arguments.check(SCHEMAS["self.reboot"], {}) == {}
    assert said(SCHEMAS["self.reboot"], {"now": True}) == "'now' is not known: the tool takes no arguments."


def named(name: str, schema: dict[str, Any]) -> BoardTool:
    return BoardTool(name, "", schema, True)


def test_the_address_of_new_firmware_has_to_be_given() -> None:
    schema = SCHEMAS["self.upgrade_firmware"]
    assert "required" not in schema
    meant = arguments.honest(named("self.upgrade_firmware", schema))
    assert meant == {"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"]}
    assert said(meant, {}) == "'url' is missing: it must be a text."
    assert arguments.check(meant, {"url": "http://a/fw.bin"}) == {"url": "http://a/fw.bin"}


@pytest.mark.parametrize("default", ["", "none", "the usual one", "http://a/b"])
def test_an_optional_address_of_another_tool_stays_optional(default: str) -> None:
    for name in ("url", "image_url"):
        schema = {"type": "object", "properties": {name: {"type": "string", "default": default}}}
        assert arguments.honest(named("self.screen.preview_image", schema)) == schema
        assert arguments.check(schema, {}) == {}


def test_an_honest_address_of_firmware_stays() -> None:
    schema = {"type": "object", "properties": {"url": {"type": "string", "default": "http://a/fw.bin"}}}
    assert arguments.honest(named("self.upgrade_firmware", schema)) == schema


def test_other_kinds_than_firmware_knows() -> None:
    schema = {
        "type": "object",
        "properties": {
            "on": {"type": "boolean"},
            "level": {"type": "number", "minimum": 0.5},
            "most": {"type": "integer", "maximum": 9},
            "colour": {"type": "string", "enum": ["red", "blue"]},
            "steps": {"type": "array"},
            "any": {},
            "odd": {"type": ["string", "null"], "minimum": "x"},
            "raw": {"type": "integer"},
        },
        "required": ["hidden"],
    }
    good: dict[str, Any] = {
        "on": "True",
        "level": 0.5,
        "colour": "red",
        "steps": [],
        "any": {},
        "odd": 5,
        "raw": -5,
        "hidden": 1,
    }
    assert arguments.check(schema, good) == {**good, "on": True}
    assert said(schema, {**good, "on": 1}) == "'on' is 1, but must be true or false."
    assert said(schema, {**good, "level": 0}) == "'level' is 0, but must be a number, 0.5 or more."
    assert said(schema, {**good, "most": 10}) == "'most' is 10, but must be a whole number, 9 or less."
    assert said(schema, {**good, "colour": "green"}) == '\'colour\' is "green", but must be one of "red", "blue".'
    assert said(schema, {**good, "steps": "x"}) == "'steps' is \"x\", but must be a list."
    assert said(schema, {**good, "raw": 2**31}) == "'raw' is 2147483648, but must be a whole number of 32 bits."


def test_a_tool_whose_schema_was_unusable_takes_anything() -> None:
    assert arguments.check({"type": "object"}, {"x": [1], "y": None}) == {"x": [1]}


def test_arguments_that_cannot_be_sent() -> None:
    assert "longer than 64 KiB" in said({"type": "object"}, {"x": "x" * 70_000})
    assert "cannot be sent" in said({"type": "object"}, {"x": 2**70})
    for text in ("\0", "\ud800"):
        with pytest.raises(InvalidParams):
            arguments.check({"type": "object"}, {"x": text})


VALUES = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10) | st.lists(st.integers(), max_size=2)
)


@given(
    st.sampled_from(sorted(SCHEMAS)),
    st.dictionaries(st.sampled_from(["volume", "url", "quality", "theme"]) | st.text(max_size=5), VALUES),
)
def test_what_passes_fits_the_schema(tool: str, given: dict[str, Any]) -> None:
    schema = arguments.honest(named(tool, SCHEMAS[tool]))
    try:
        found = arguments.check(schema, given)
    except InvalidParams:
        return
    assert found.keys() <= schema["properties"].keys()
    assert set(schema.get("required", [])) <= found.keys()
    for name, value in found.items():
        part = schema["properties"][name]
        assert type(value) is {"integer": int, "string": str}[part["type"]]
        if "maximum" in part:
            assert part["minimum"] <= value <= part["maximum"]
