"""Markdown on a terminal: tables that fit, nothing hidden behind colours, and a pager for what is long."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from tests.timeouts import PATIENCE

from kho.lib.terminal_markdown import fitted, shortened

ID = "86e4fc79-dc59-4325-b7a9-0cc9e924343b"
TABLE = f"""| document | from | id |
| --- | --- | --- |
| Bread | `/home/lan/notes/kitchen/2026/sourdough/bread.md` | `{ID}` |
| Tea \\| green | `tea.md` | `{ID}` |"""


def test_paths_are_shortened_in_the_middle_and_ids_stay_whole() -> None:
    text = fitted(f"Two documents:\n\n{TABLE}\n", 84)
    assert text.count(f"`{ID}`") == 2
    assert "`/home/l…" in text
    assert "bread.md`" in text
    assert "…" in text
    assert "Tea \\| green" in text
    assert max(map(len, text.splitlines())) < max(map(len, TABLE.splitlines()))
    assert fitted(TABLE, 200) == TABLE


def test_a_path_keeps_its_beginning_and_its_name() -> None:
    assert shortened("`/home/lan/notes/kitchen/bread.md`", 22) == "`/home/…chen/bread.md`"
    assert shortened("bread.md", 22) == "bread.md"


def shown(script: str, lines: int, **environment: str) -> str:
    """What a terminal of that many lines gets to see."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "COLUMNS": "80", "LINES": str(lines), "TERM": "xterm", **environment}
    process = subprocess.Popen([sys.executable, "-c", script], stdin=theirs, stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    seen = b""
    try:
        while block := os.read(ours, 65_536):
            seen += block
    except OSError:  # the other side is closed
        pass
    assert process.wait(PATIENCE) == 0
    os.close(ours)
    return seen.decode()


SHOW = "from kho.lib import terminal_markdown; terminal_markdown.show('# Best\\n\\n```text\\na `b` {}\\n```\\n' * 30)"


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_long_answers_go_through_the_pager_and_short_ones_do_not(tmp_path: Path) -> None:
    pager = tmp_path / "pager"
    pager.write_text("#!/bin/sh\necho PAGED; cat\n")
    pager.chmod(0o755)
    assert shown(SHOW, 20, PAGER=str(pager)).startswith("PAGED")
    assert "PAGED" not in shown(SHOW, 400, PAGER=str(pager))


def test_no_colour_of_the_background() -> None:
    text = shown(SHOW, 400)
    assert "a `b` {}" in text
    assert ";40m" not in text
    assert "[40m" not in text
