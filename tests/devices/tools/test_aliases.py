"""Aliases: names that models accept, the same in every process, and always leading back to one tool of a board."""

import re
from hashlib import sha256
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kho.devices.protocol.tool_listing import BoardTool
from kho.devices.tools.aliases import aliases, find

LAWFUL = re.compile(r"[a-zA-Z0-9_-]{1,64}")
MAC = "aa:bb:cc:dd:ee:ff"


def tool(name: str, *, user_only: bool = False, description: str = "", **properties: Any) -> BoardTool:
    return BoardTool(name, description, {"type": "object", "properties": properties}, user_only)


def names(*tools: str) -> list[str]:
    return list(aliases([tool(name) for name in tools]))


def test_a_name_loses_what_models_refuse() -> None:
    assert names("self.audio_speaker.set_volume") == ["board_audio_speaker_set_volume"]
    tools = [tool("self.audio_speaker.set_volume"), tool("self.reboot")]
    assert list(aliases(tools, MAC)) == [
        "board_aa_bb_cc_dd_ee_ff_audio_speaker_set_volume",
        "board_aa_bb_cc_dd_ee_ff_reboot",
    ]


def test_a_tool_is_found_by_its_name_and_by_either_alias() -> None:
    tools = [tool("self.x"), tool("board_x")]
    assert find("self.x", tools, MAC) is tools[0]
    assert find("board_x", tools, MAC) is tools[1], "its own name before another's alias"
    assert find("board_board_x", tools, MAC) is tools[1]
    assert find("board_aa_bb_cc_dd_ee_ff_x", tools, MAC) is tools[0]
    assert find("board_aa_bb_cc_dd_ee_00_x", tools, MAC) is None
    assert find("board_y", tools, MAC) is None


def test_names_that_become_alike_are_told_apart() -> None:
    found = names("self.led.on", "self.led_on", "led on", "x" * 100 + "1", "x" * 100 + "2", "self.other")
    assert len({*found}) == 6
    assert all(LAWFUL.fullmatch(name) for name in found)
    assert "board_other" in found
    assert sum(re.fullmatch("board_led_on_[0-9a-f]{8}", name) is not None for name in found) == 3


def test_a_board_that_guesses_the_digest_takes_no_other_s_name() -> None:
    marked = "led_on_" + sha256(b"self.led.on").hexdigest()[:8]
    found = aliases([tool("self.led.on"), tool("self.led_on"), tool(f"self.{marked}")])
    assert found[f"board_{marked}"].name == f"self.{marked}"
    assert len(found) == 3


def test_ids_and_names_that_run_together_are_told_apart() -> None:
    boards = {"a.b": "c", "a:b": "c", "a": "b.c", "x" * 70: "c", "x" * 71: "c", "灯": "c"}
    found = [alias for id, name in boards.items() for alias in aliases([tool(name)], id)]
    assert len({*found}) == len(boards)
    assert all(LAWFUL.fullmatch(alias) for alias in found)
    assert found[0] == f"board_{sha256(b'a.b').hexdigest()[:8]}_a_b_c"
    assert all(alias.endswith("_c") for alias in found), "however long an id is, the tool's name is there"


def test_names_of_nothing_but_odd_signs() -> None:
    found = names("self.", "đèn", "灯")
    assert len({*found}) == 3
    assert all(LAWFUL.fullmatch(name) for name in found)


NAMES = st.text(min_size=1, max_size=80) | st.sampled_from(["self.a.b", "self.a_b", "self_a.b", "a.b", "A.b", "x" * 70])


@given(st.lists(NAMES.filter(lambda name: name.isprintable()), unique=True, max_size=12), st.randoms())
def test_every_name_is_lawful_and_leads_back(tools: list[str], chance: Any) -> None:
    listed = [tool(name) for name in tools]
    for device in (None, MAC):
        found = aliases(listed, device)
        assert {one.name for one in found.values()} == {*tools}
        assert all(LAWFUL.fullmatch(alias) for alias in found)
        shuffled = list(listed)
        chance.shuffle(shuffled)
        assert aliases(shuffled, device) == found
        for alias, one in found.items():
            if alias not in tools:
                assert find(alias, listed, MAC) is one or (device is not None and alias in aliases(listed))
