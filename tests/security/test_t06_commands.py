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
import io, json
for said, *arguments in json.load(sys.stdin):
    sys.argv, sys.stdin = ["kho", *arguments], io.TextIOWrapper(io.BytesIO(said.encode()))
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
    """Each with nothing on stdin, in a folder of its own, which is also where editors would keep their settings."""
    return said_to(place, [["", *line] for line in lines])


def said_to(place: Place, lines: list[list[str]]) -> subprocess.CompletedProcess[bytes]:
    """The first of each line is what it reads from stdin."""
    return subprocess.run(
        [sys.executable, "-c", WATCHED], input=orjson.dumps(lines), capture_output=True, timeout=PATIENCE, check=False,
        env=place.environment(HOME=str(place.home.parent)), cwd=place.home.parent,
    )  # fmt: skip


def test_t06_hostile_arguments_start_nothing(tmp_path: Path) -> None:
    lines = [[*command, text] for command in COMMANDS for text in HOSTILE]
    done = run(Place(tmp_path / "home"), lines)
    assert done.stderr.endswith(b"nothing was started\n"), done.stderr[-2000:]
    assert not list(tmp_path.rglob("pwned"))


def test_t06_nor_do_names_of_files_editors_and_sessions(tmp_path: Path) -> None:
    """Commands that walk folders, change settings of other programs, or are run by them."""
    place, lines = Place(tmp_path / "home"), list[list[str]]()
    for number, text in enumerate(HOSTILE):
        folder = tmp_path / text
        folder.mkdir()
        (folder / f"{text}.md").write_text("# A file\n\nWith a line.\n", "utf-8")
        event = {"cwd": text, "session_id": text, "transcript_path": str(folder / f"{text}.md"), "source": text}
        lines += [
            ["", "kb", "ingest-folder", f"./{text}", "--collection", f"c{number}", "--create"],
            ["", "kb", "ingest-folder", text, "--collection", text, "--pattern", text],
            ["", "watch", f"./no such {text}", "--collection", text],
            ["", "watch", "--", text, "x"],
            ["", "docs", "import", f"./{text}"],
            ["", "docs", "export", f"./{text} out"],
            ["", "connect", "cursor", "--yes", "--tools", text],
            ["", "connect", text, "--http", "--yes"],
            ["", "connect", "claude", "--hooks", "--rules", "--scope", "project", "--yes"],
            ["", "disconnect", text],
            [orjson.dumps(event).decode(), "hook", "session-start"],
            [orjson.dumps(event).decode(), "hook", "stop"],
            [text, "hook", "stop"],
        ]
    done = said_to(place, lines)
    assert done.stderr.endswith(b"nothing was started\n"), done.stderr[-2000:]
    assert not list(tmp_path.rglob("pwned"))
    assert place.run("kb", "list-documents", "--collection", f"c{len(HOSTILE) - 1}").stdout.count(b"A file") == 1
    assert (tmp_path / ".claude").is_dir(), "it was connected"


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
