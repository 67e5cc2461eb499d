"""T6: what is typed or stored reaches a shell. No command starts another program, whatever its arguments are."""

import subprocess
import sys
from pathlib import Path

import orjson
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from tests.acceptance.processes import Place
from tests.timeouts import PATIENCE

WATCHED = """
import sys
STARTS = {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.startfile", "pty.spawn", "os.fork"}
started = []
sys.addaudithook(lambda event, arguments: started.append((event, arguments)) if event in STARTS else None)
from kho import entrypoint
import json
for arguments in json.load(sys.stdin):
    sys.argv = ["kho", *arguments]
    try:
        entrypoint.main()
    except SystemExit:
        pass
    assert not started, started
print("nothing was started", file=sys.stderr)
"""
HOSTILE = (
    "$(touch pwned)",
    "`touch pwned`",
    "; touch pwned",
    "| touch pwned",
    "&& touch pwned",
    "\n touch pwned",
    "-- --help",
)
COMMANDS = (
    ["docs", "get"],
    ["search"],
    ["fetch"],
    ["remember"],
    ["experiences", "query"],
    ["kb", "info"],
    ["docs", "create"],
)


def run(place: Place, lines: list[list[str]]) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-c", WATCHED], input=orjson.dumps(lines), capture_output=True, timeout=PATIENCE, check=False,
        env=place.environment(), cwd=place.home.parent,
    )  # fmt: skip


def test_t06_hostile_arguments_start_nothing(tmp_path: Path) -> None:
    lines = [[*command, text] for command in COMMANDS for text in HOSTILE]
    done = run(Place(tmp_path / "home"), lines)
    assert done.stderr.endswith(b"nothing was started\n"), done.stderr[-2000:]
    assert not list(tmp_path.rglob("pwned"))


@given(
    st.lists(
        st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), max_size=4), max_size=20
    )
)
@examples(max_examples=3)
def test_t06_nor_do_any_others(words: list[list[str]]) -> None:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        lines = [["search", *some] for some in words if not {"-h", "--help"} & set(some)]
        done = run(Place(Path(folder) / "home"), lines)
        assert done.stderr.endswith(b"nothing was started\n"), done.stderr[-2000:]
