"""Tools of boards as they are offered: one for all boards that have it, however much they differ."""

from typing import Any

from tests.devices.tools.test_aliases import tool

from kho.devices.protocol.tool_listing import ANYTHING, BoardTool
from kho.devices.tools.mcp_tools import MAX_FORMS, each, grouped

INTEGER, STRING = {"type": "integer"}, {"type": "string"}


def test_boards_that_are_alike_share_a_tool() -> None:
    [exposed] = grouped({"b": [tool("self.x", v=INTEGER)], "a": [tool("self.x", description="other words", v=INTEGER)]})
    assert (exposed.alias, exposed.name, exposed.devices) == ("board_x", "self.x", ("a", "b"))
    assert exposed.description == "[Tool self.x of several boards; described by the board itself] other words"
    assert exposed.schema["properties"] == {"v": INTEGER}


def test_other_words_for_an_argument_make_no_other_form() -> None:
    said = [tool("self.x", volume={"type": "integer", "description": text}) for text in ("one", "two")]
    [exposed] = grouped({"a": said[:1], "b": said[1:]})
    assert len(exposed.tools) == 1
    assert "differ" not in exposed.description


def test_boards_that_differ_keep_the_name_and_it_takes_what_any_of_them_takes() -> None:
    one = BoardTool(
        "self.x", "", {"type": "object", "properties": {"a": INTEGER, "b": STRING}, "required": ["a"]}, False
    )
    other = BoardTool(
        "self.x", "", {"type": "object", "properties": {"a": STRING, "c": STRING}, "required": ["a"]}, False
    )
    [exposed] = grouped({"1": [one], "2": [other], "3": [one]})
    assert exposed.alias == "board_x"
    assert exposed.schema == {
        "type": "object",
        "properties": {"a": {"anyOf": [INTEGER, STRING]}, "b": STRING, "c": STRING},
        "required": ["a"],
    }
    assert "several boards that differ in what it takes (device_tools shows it of each)" in exposed.description


def test_of_too_many_forms_or_of_an_unusable_one_nothing_is_said() -> None:
    boards: dict[str, list[BoardTool]] = {
        str(number): [tool("self.x", a={"type": "integer", "maximum": number})] for number in range(MAX_FORMS + 1)
    }
    [exposed] = grouped(boards)
    assert exposed.schema["properties"] == {"a": {}}
    [exposed] = grouped({**boards, "odd": [BoardTool("self.x", "", ANYTHING, False, flawed=True)]})
    assert exposed.schema == {"type": "object"}


def test_different_names_with_one_alias_are_told_by_the_alias() -> None:
    [exposed] = grouped({"a": [tool("self.led.on")], "b": [tool("self.led_on")]})
    assert exposed.name == exposed.alias == "board_led_on"


def test_what_is_for_people_on_some_boards_only() -> None:
    boards: dict[str, Any] = {"a": [tool("self.reboot", user_only=True)], "b": [tool("self.reboot")]}
    [everybody] = grouped(boards)
    assert everybody.user_only is False
    [models] = grouped(boards, user_tools=False)
    assert models.devices == ("b",)
    assert grouped({"a": boards["a"]})[0].user_only is True
    assert grouped({"a": boards["a"]}, user_tools=False) == []


def test_what_is_for_people_counts_when_names_are_told_apart() -> None:
    """So that everybody knows a tool by the same name."""
    tools = [tool("self.a.b", user_only=True), tool("self.a_b")]
    [shown] = grouped({"a": tools}, user_tools=False)
    assert shown.alias in {one.alias for one in grouped({"a": tools})}
    assert shown.alias != "board_a_b"


def test_each_board_by_itself() -> None:
    one, two = "aa:bb:cc:dd:ee:01", "aa:bb:cc:dd:ee:02"
    found = each({one: [tool("self.x")], two: [tool("self.x", a=INTEGER), tool("self.y", user_only=True)]})
    assert [(one.alias, one.name, one.devices, one.alone) for one in found] == [
        ("board_aa_bb_cc_dd_ee_01_x", "self.x", (one,), True),
        ("board_aa_bb_cc_dd_ee_02_x", "self.x", (two,), True),
        ("board_aa_bb_cc_dd_ee_02_y", "self.y", (two,), True),
    ]
    assert len(each({two: [tool("self.y", user_only=True)]}, user_tools=False)) == 0


def test_what_a_board_s_tool_is_called_does_not_depend_on_other_boards() -> None:
    boards = {id: [tool("self.x"), tool("b.x")] for id in ("a", "a.b", "a:b", "a_b", "aa:bb:cc:dd:ee:ff")}
    boards["aa_bb_cc_dd_ee_ff"] = [tool("self.x")]
    together = [(one.devices, one.alias) for one in each(boards)]
    assert together == [(one.devices, one.alias) for id in sorted(boards) for one in each({id: boards[id]})]
    assert len({alias for _, alias in together}) == len(together)
