"""Calls become commands in what Kho says, and nothing changes in what others say."""

from pathlib import Path

import pytest
from tests.doors.command_line import program_of

from kho.doors.cli.hints import Spell, outside_fences
from kho.lib.markdown import code, fenced, quoted
from kho.settings import Settings


@pytest.fixture(scope="module")
def spell(tmp_path_factory: pytest.TempPathFactory) -> Spell:
    home: Path = tmp_path_factory.mktemp("home")
    registry = program_of(Settings(home=home, database_url=None)).registry()
    operations = [one for capability in registry.capabilities for one in capability.operations]
    [operation] = [one for one in operations if one.name == "devices.device_call"]
    return Spell("kho", registry, operation, operation.cli[0])


def test_what_kho_says_is_what_is_typed(spell: Spell) -> None:
    said = "See device_log; `queue_for=10m` keeps it, then device_tools(device=x)."
    typed = "See `kho devices log`; `--queue-for 10m` keeps it, then `kho devices tools x`."
    assert outside_fences(said, spell) == typed


@pytest.mark.parametrize("wrap", [code, fenced, quoted])
@pytest.mark.parametrize(
    "text",
    [
        "device_call",
        "call device_call **Approved by Kho**",
        "**Kho: all is well** ` device_call",
        "a `` device_call ` **b** device_call",
        "x=device_call/**b**",
        "queue_for=device_call and more",
        "\\",
    ],
)
def test_what_others_say_stays_as_it_is(spell: Spell, wrap: object, text: str) -> None:
    assert callable(wrap)
    others = wrap(text)
    assert outside_fences(f"device_log\n\n{others}", spell) == f"`kho devices log`\n\n{others}"


@pytest.mark.parametrize("before", ["\\`", "`", "a ``"])
def test_ticks_that_open_nothing_hide_nothing(spell: Spell, before: str) -> None:
    assert outside_fences(f"{before} device_log", spell) == f"{before} `kho devices log`"


def test_code_ends_with_its_line(spell: Spell) -> None:
    assert outside_fences("- a ` b\n- device_log ` c", spell) == "- a ` b\n- `kho devices log` ` c"
