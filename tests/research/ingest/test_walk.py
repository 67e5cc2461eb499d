"""The files below a folder."""

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from kho.research.ingest.allowed_paths import Roots
from kho.research.ingest.globs import Patterns
from kho.research.ingest.walk import File, SkippedFile, walk


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "papers"
    for path in ("b.md", "a.txt", "z/1.md", "z/y/2.md", "c/3.pdf", ".git/config", ".hidden.md", "node_modules/x/i.js"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(path, "utf-8")
    return folder


def walked(
    folder: Path, *, roots: Roots | None = None, recursive: bool = True, **more: Any
) -> list[File | SkippedFile]:
    roots = roots or Roots((folder,))
    return list(walk(roots, roots.locate(str(folder)), recursive=recursive, **more))


def names(found: list[File | SkippedFile]) -> list[str]:
    return [item.relative for item in found if isinstance(item, File)]


def passed(found: list[File | SkippedFile]) -> dict[str, str]:
    return {item.relative: item.reason for item in found if isinstance(item, SkippedFile)}


def test_files_come_in_order_without_hidden_ones_and_junk(folder: Path) -> None:
    found = walked(folder)
    assert names(found) == ["a.txt", "b.md", "c/3.pdf", "z/1.md", "z/y/2.md"]
    assert found == walked(folder)
    assert passed(found) == {}


def test_a_file_is_described(folder: Path) -> None:
    os.utime(folder / "a.txt", ns=(0, 1_700_000_000_123_456_789))
    [file] = walked(folder, recursive=False, patterns=Patterns.of("*.txt"))
    assert isinstance(file, File)
    assert (file.path, file.relative, file.size) == (folder / "a.txt", "a.txt", 5)
    assert file.modified == 1_700_000_000_123_456
    assert Roots((folder,)).read(file.located, 100) == b"a.txt"


def test_only_the_folder_itself_unless_recursive(folder: Path) -> None:
    assert names(walked(folder, recursive=False)) == ["a.txt", "b.md"]


def test_patterns_choose(folder: Path) -> None:
    assert names(walked(folder, patterns=Patterns.of("*.md", exclude="z/y"))) == ["b.md", "z/1.md"]
    assert names(walked(folder, patterns=Patterns.of(".git/*, node_modules/**"))) == [
        ".git/config", "node_modules/x/i.js",
    ]  # fmt: skip


def test_a_hidden_folder_that_is_asked_for_is_walked(folder: Path) -> None:
    assert names(walked(folder / ".git")) == ["config"]


def test_links_to_folders_are_not_followed_and_links_to_files_only_inside(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.md").touch()
    (folder / "circle").symlink_to(".")
    (folder / "z" / "up").symlink_to("..")
    (folder / "inside.md").symlink_to("z/1.md")
    (folder / "outside.md").symlink_to("../secret.md")
    (folder / "dangling.md").symlink_to("nothing")
    found = walked(folder)
    assert names(found) == ["a.txt", "b.md", "inside.md", "c/3.pdf", "z/1.md", "z/y/2.md"]
    assert passed(found) == {
        "circle": "It is a symbolic link to a folder, which is not followed.",
        "dangling.md": "There is no such file or folder.",
        "outside.md": "A symbolic link leads out of the folders that may be read.",
        "z/up": "It is a symbolic link to a folder, which is not followed.",
    }
    [link] = [file for file in found if isinstance(file, File) and file.relative == "inside.md"]
    assert (link.path, link.size) == (folder / "z" / "1.md", 6)


def test_pipes_and_names_that_are_no_text_are_told(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.md")).touch()
    assert passed(walked(folder)) == {"caf�.md": "Its name is not UTF-8.", "pipe": "It is a pipe, not a file."}


def test_kho_s_own_data_is_passed_over(folder: Path) -> None:
    roots = Roots((folder,), forbidden=(folder / "z" / "y",))
    found = walked(folder, roots=roots)
    assert names(found) == ["a.txt", "b.md", "c/3.pdf", "z/1.md"]
    assert passed(found) == {"z/y": "Kho's own data is not read."}


def test_at_most_so_many_files(folder: Path) -> None:
    found = walked(folder, most=2)
    assert names(found) == ["a.txt", "b.md"]
    assert passed(found)["c/3.pdf"].startswith("There are more than 2 files")
    assert passed(walked(folder, most=5)) == {}


def test_a_folder_that_becomes_a_link_meanwhile_is_not_followed(folder: Path, tmp_path: Path) -> None:
    roots = Roots((folder,))
    found = walk(roots, roots.locate("."), recursive=True)
    seen = [next(found)]
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "secret.md").touch()
    (folder / "z").rename(tmp_path / "moved")
    (folder / "z").symlink_to(tmp_path / "elsewhere")
    seen += found
    assert names(seen) == ["a.txt", "b.md", "c/3.pdf"]
    assert "symbolic link" in passed(seen)["z"]


def test_a_tree_may_be_deeper_than_a_path_may_be_long(tmp_path: Path) -> None:
    root = tmp_path / "deep"
    root.mkdir()
    before = Path.cwd()
    os.chdir(root)
    try:
        for _ in range(60):
            Path("n" * 100).mkdir()
            os.chdir("n" * 100)
        Path("bottom.md").touch()
    finally:
        os.chdir(before)
    [file] = walked(root)
    assert isinstance(file, File)
    assert len(str(file.path)) > 4096
    assert Roots((root,)).read(file.located, 10) == b""


def test_what_cannot_be_read_is_told_and_the_rest_is_read(ordinary_user: None) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for inner in ("closed", "half", "open"):
            (folder / inner).mkdir()
            (folder / inner / "a.md").touch()
        (folder / "closed").chmod(0)
        (folder / "half").chmod(0o400)
        found = walked(folder)
        for inner in ("closed", "half"):
            (folder / inner).chmod(0o700)
    assert names(found) == ["open/a.md"]
    refusal = "The system does not allow Kho to read it."
    # Of a folder that may be listed but not entered, some systems refuse the folder and others what is in it.
    assert {path.split("/")[0]: why for path, why in passed(found).items()} == {"closed": refusal, "half": refusal}
