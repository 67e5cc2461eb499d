"""`--rules`: a marked section that comes, is renewed and goes; other text stays to the byte."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.doors.connect.conftest import Machine

from kho.doors.connect import marked_section, rules
from kho.doors.connect.clients import CLIENTS, SCOPES, Places

WITH_RULES = [(name, scope) for name, client in CLIENTS.items() for scope in SCOPES if scope in client.rules]


def rules_file(machine: Machine, name: str, scope: str) -> Path:
    places = Places("linux", machine.home, machine.project, machine.environment)
    return places.path(CLIENTS[name].rules["user" if scope == "user" else "project"])


@pytest.mark.parametrize("old", [None, b"", b"# Mine", b"# Mine\n", b"# Mine\r\n\r\nText\r\n", b"\xef\xbb\xbf# M\n"])
@pytest.mark.parametrize(("name", "scope"), WITH_RULES)
def test_rules_come_and_go(machine: Machine, name: str, scope: str, old: bytes | None) -> None:
    if scope not in CLIENTS[name].files:
        refused = machine.run("connect", name, "--scope", scope, "--rules", "--yes")
        assert refused.status == 1
        return
    path = rules_file(machine, name, scope)
    if old is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(old)
    before = machine.files()
    assert machine.run("connect", name, "--scope", scope, "--rules", "--yes").status == 0
    text = path.read_bytes()
    assert text.startswith(old or b"")
    assert b"`remember`" in text
    assert b"`search`" in text
    assert (b"\r\n" in text) == (b"\r\n" in (old or b""))
    assert machine.run("connect", name, "--scope", scope, "--rules", "--yes").status == 0
    assert path.read_bytes() == text
    assert machine.run("disconnect", name).status == 0
    assert machine.files() == before


def test_cursor_reads_a_file_of_its_own(machine: Machine) -> None:
    assert machine.run("connect", "cursor", "--scope", "project", "--rules", "--yes").status == 0
    text = (machine.project / ".cursor" / "rules" / "kho.mdc").read_text()
    assert text.startswith("---\n")
    assert "alwaysApply: true" in text


def test_what_was_written_around_it_since_stays(machine: Machine) -> None:
    path = machine.project / "CLAUDE.md"
    path.write_text("# Mine\n")
    assert machine.run("connect", "claude", "--scope", "project", "--rules", "--yes").status == 0
    path.write_text("Before\n" + path.read_text() + "After\n")
    assert machine.run("disconnect", "claude").status == 0
    assert path.read_text() == "Before\n# Mine\nAfter\n"


def test_an_older_section_is_renewed(machine: Machine) -> None:
    path = machine.project / "CLAUDE.md"
    path.write_text("# Mine\n\n<!-- kho: begin (old) -->\nold words\n<!-- kho: end -->\nAfter\n")
    assert machine.run("connect", "claude", "--scope", "project", "--rules", "--yes").status == 0
    text = path.read_text()
    assert "old words" not in text
    assert text.startswith("# Mine\n\n<!-- kho: begin")
    assert text.endswith("<!-- kho: end -->\nAfter\n")


def test_a_file_that_several_agents_read_keeps_it_until_the_last_goes(machine: Machine) -> None:
    path = machine.project / "AGENTS.md"
    path.write_text("# Mine\n")
    for name in ("vscode", "opencode", "zed"):
        assert machine.run("connect", name, "--scope", "project", "--rules", "--yes").status == 0
    held = path.read_text()
    for name in ("opencode", "vscode", "vscode"):
        assert machine.run("disconnect", name).status == 0
        assert path.read_text() == held
    assert machine.run("disconnect", "zed").status == 0
    assert path.read_text() == "# Mine\n"


@given(st.lists(st.sampled_from(["a", "#", "\n", "\r\n", " ", "-", "<!--", "-->"])).map("".join))
def test_it_goes_to_the_end_and_stays_there(text: str) -> None:
    edited, fragment = marked_section.put(text, rules.BODY)
    assert edited == text + fragment
    assert marked_section.put(edited, rules.BODY).text == edited
