"""Files to import that are small to send and large to read, or that never end."""

import os
import subprocess
from pathlib import Path

import pytest
from tests.acceptance.processes import KHO, Place

from kho.doors.cli.transfer import MAX_LINE

pytestmark = pytest.mark.skipif(not hasattr(os, "wait4"), reason="how much a process took is asked of the system")

GIB = 1024**3
MEMORY = 700 * 1024
"""KiB: what the command takes anyway, and some lines."""


def ran(place: Place, *arguments: str) -> tuple[int, str, int]:
    """Exit status, what it said, and the memory that it took at most, in KiB."""
    out = place.home.parent / "out"
    with out.open("wb") as log:
        process = subprocess.Popen(
            [*KHO, *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=place.environment()
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, out.read_text("utf-8", "replace"), usage.ru_maxrss


def sparse(file: Path, size: int) -> Path:
    """A file of zeros that takes no room."""
    with file.open("ab") as made:
        made.truncate(size)
    return file


def test_a_line_without_an_end_is_skipped_and_the_others_imported(tmp_path: Path) -> None:
    place = Place(tmp_path / "home")
    file = tmp_path / "facts.jsonl"
    file.write_bytes(b'{"text": "The kettle is blue."}\n')
    sparse(file, GIB)
    with file.open("ab") as made:
        made.write(b'\n{"text": "The lamp is red."}\n')
    status, said, memory = ran(place, "facts", "import", str(file))
    assert status == 1
    assert f"line 2: it is longer than {MAX_LINE // 1024**2} MiB" in said
    assert "2 " in said.splitlines()[-1], said
    assert memory < MEMORY
    listed = place.run("facts", "list").stdout.decode()
    assert "blue" in listed
    assert "red" in listed


@pytest.mark.parametrize("group", ["experiences", "memory", "kb"])
def test_every_import_bears_a_line_without_an_end_and_nonsense(tmp_path: Path, group: str) -> None:
    file = tmp_path / "lines.jsonl"
    nonsense = (b"[" * 2_000_000, b"[" + b"0," * 2_000_000 + b"0]", b"1e999", b'{"a": "\xff"}', b"{}", b"[]", b"null")
    file.write_bytes(b"\n".join(nonsense) + b"\n")
    sparse(file, GIB)
    status, said, memory = ran(Place(tmp_path / "home"), group, "import", str(file))
    assert status == 1
    assert "line 1:" in said
    assert f"longer than {MAX_LINE // 1024**2} MiB" in said
    assert "Traceback" not in said
    assert memory < MEMORY


@pytest.mark.parametrize(
    "line",
    [b"[" * 2_000_000, b'{"text":' * 100_000, b"[" + b"0," * 2_000_000 + b"0]", b'{"text": "\xff\xfe"}', b"1e999"],
)
def test_a_line_of_nonsense_is_named(tmp_path: Path, line: bytes) -> None:
    file = tmp_path / "facts.jsonl"
    file.write_bytes(b'{"text": "The kettle is blue."}\n' + line + b"\n")
    status, said, memory = ran(Place(tmp_path / "home"), "facts", "import", str(file))
    assert status == 1
    assert "line 2:" in said
    assert "Traceback" not in said
    assert memory < MEMORY


def test_a_folder_of_bombs_is_imported_without_them(tmp_path: Path) -> None:
    place, folder = Place(tmp_path / "home"), tmp_path / "docs"
    folder.mkdir()
    (folder / "good.md").write_text("# Good\n\nText.\n", "utf-8")
    sparse(folder / "large.md", GIB)
    (folder / "beside.json").write_text("{}", "utf-8")
    sparse(folder / "beside.json.yaml", GIB)
    sparse(folder / "beside.json.meta.yaml", GIB)
    sparse(folder / ".kho-export.json", GIB)
    os.mkfifo(folder / "pipe.md")
    (folder / "circle").symlink_to(folder, target_is_directory=True)
    (folder / "aliases.md").write_text(
        "---\n" + "a: &a [x, x]\n" + "".join(f"b{n}: &b{n} [*{'a' if n == 0 else f'b{n - 1}'}, *{'a' if n == 0 else f'b{n - 1}'}]\n" for n in range(40)) + "---\n# Aliases\n",
        "utf-8",
    )  # fmt: skip
    _, said, memory = ran(place, "docs", "import", str(folder))
    assert "Traceback" not in said
    assert memory < MEMORY
    assert "Good" in place.run("docs", "list").stdout.decode()


def test_a_pipe_in_the_place_of_the_manifest_is_not_waited_for(tmp_path: Path) -> None:
    place, folder = Place(tmp_path / "home"), tmp_path / "docs"
    folder.mkdir()
    (folder / "good.md").write_text("# Good\n\nText.\n", "utf-8")
    os.mkfifo(folder / ".kho-export.json")
    done = place.run("docs", "import", str(folder))
    assert b"Traceback" not in done.stderr
    assert "Good" in place.run("docs", "list").stdout.decode()
