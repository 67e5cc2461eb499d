"""Aliases: names that models accept, the same in every process, and always leading back to one tool."""

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kho.devices.aliases import Table
from kho.devices.listed import BoardTool

LAWFUL = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def tool(name: str, *, user_only: bool = False, description: str = "", **properties: Any) -> BoardTool:
    return BoardTool(name, description, {"type": "object", "properties": properties}, user_only)


def names(table: Table) -> list[str]:
    return [exposed.alias for exposed in table.exposed]


def test_a_name_loses_what_models_refuse() -> None:
    table = Table({"aa:bb:cc:dd:ee:ff": [tool("self.audio_speaker.set_volume")]})
    assert names(table) == ["board_audio_speaker_set_volume"]
    found = table.find("board_audio_speaker_set_volume")
    assert found is not None
    assert found.tool.name == "self.audio_speaker.set_volume"
    assert found.devices == ("aa:bb:cc:dd:ee:ff",)
    assert table.find("board_audio_speaker_set") is None


def test_boards_that_are_alike_share_a_name() -> None:
    volume = {"type": "integer", "minimum": 0}
    table = Table(
        {"b": [tool("self.x", volume=volume)], "a": [tool("self.x", description="other words", volume=volume)]}
    )
    [exposed] = table.exposed
    assert exposed.devices == ("a", "b")
    assert exposed.description == "[Tool self.x of 2 boards; described by the board itself] other words"


def test_other_words_for_an_argument_make_no_other_tool() -> None:
    said = [tool("self.x", volume={"type": "integer", "description": text}) for text in ("one", "two")]
    [exposed] = Table({"a": said[:1], "b": said[1:]}).exposed
    assert exposed.devices == ("a", "b")
    assert len(Table({"a": said[:1], "b": [tool("self.x", other={"type": "string"})]}).exposed) == 2


def test_tools_that_differ_do_not_share_a_name() -> None:
    one, other = tool("self.x", a={"type": "integer"}), tool("self.x", a={"type": "string"})
    before = Table({"a": [one]})
    after = Table({"a": [one], "b": [other]})
    assert names(before) == ["board_x"]
    assert len({*names(after)}) == 2
    assert all(re.fullmatch("board_x_[0-9a-f]{8}", name) for name in names(after))
    assert after.find("board_x") is None  # it would be either
    for exposed in after.exposed:
        assert after.find(exposed.alias) is exposed
    # The long name was good before, too.
    found = before.find(next(exposed.alias for exposed in after.exposed if exposed.tool == one))
    assert found is not None
    assert found.tool == one


def test_names_that_become_alike_are_told_apart() -> None:
    table = Table(
        {"a": [tool("self.led.on"), tool("self.led_on"), tool("led on"), tool("x" * 100 + "1"), tool("x" * 100 + "2")]}
    )
    assert len({*names(table)}) == 5
    assert all(LAWFUL.fullmatch(name) for name in names(table))


def test_a_tool_for_people_is_not_mixed_up_with_one_for_models() -> None:
    table = Table({"a": [tool("self.reboot", user_only=True)], "b": [tool("self.reboot")]})
    assert len({*names(table)}) == 2


def test_names_of_the_hub_stay_its_own() -> None:
    [name] = names(Table({"a": [tool("self.x")]}, taken=["board_x"]))
    assert re.fullmatch("board_x_[0-9a-f]{8}", name)


def test_a_name_that_looks_like_one_with_a_digest() -> None:
    one, other = tool("self.x", a={"type": "integer"}), tool("self.x", a={"type": "string"})
    marked = names(Table({"a": [one, other]}))[0]
    table = Table({"a": [one, other, tool("self." + marked.removeprefix("board_"))]})
    assert len({*names(table)}) == 3


def test_names_of_nothing_but_odd_signs() -> None:
    table = Table({"a": [tool("self."), tool("đèn"), tool("灯")]})
    assert len({*names(table)}) == 3
    assert all(LAWFUL.fullmatch(name) for name in names(table))


NAMES = st.text(min_size=1, max_size=80) | st.sampled_from(["self.a.b", "self.a_b", "self_a.b", "a.b", "A.b", "x" * 70])


def made(name: str, kind: str, people: bool) -> BoardTool:
    return tool(name, user_only=people, a={"type": kind})


TOOLS = st.builds(
    made, NAMES.filter(lambda name: name.isprintable()), st.sampled_from(["integer", "string"]), st.booleans()
)


@given(st.dictionaries(st.sampled_from("abcd"), st.lists(TOOLS, max_size=5)), st.randoms())
def test_every_name_is_lawful_and_leads_back(boards: dict[str, list[BoardTool]], chance: Any) -> None:
    table = Table(boards)
    assert all(LAWFUL.fullmatch(name) for name in names(table))
    assert len({*names(table)}) == len(table.exposed)
    for device, tools in boards.items():
        for one in tools:
            [exposed] = [
                found
                for found in table.exposed
                if (found.tool.name, found.tool.schema, found.tool.user_only) == (one.name, one.schema, one.user_only)
            ]
            assert device in exposed.devices
            assert table.find(exposed.alias) is exposed
    shuffled = list(boards.items())
    chance.shuffle(shuffled)
    assert names(Table({device: list(reversed(tools)) for device, tools in shuffled})) == names(table)
