"""What the command line writes out is its owner's alone, and who else can look into the data folder is said."""

import os
from pathlib import Path

import pytest
from tests.acceptance.processes import Hub, Place

pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes of files are those of POSIX")


def modes(folder: Path) -> set[int]:
    found = [path for path in folder.rglob("*") if path.is_file()]
    assert found
    return {path.stat().st_mode & 0o777 for path in found}


def ran(place: Place, *arguments: str) -> None:
    done = place.run(*arguments)
    assert done.returncode == 0, done.stderr


def test_an_export_can_be_read_by_its_owner_alone(tmp_path: Path) -> None:
    place = Place(tmp_path / "home")
    ran(place, "docs", "create", "plan", "--title", "Floor plan", "--body", "Third floor.")
    ran(place, "remember", "The kettle is blue.")
    out = tmp_path / "out"
    out.mkdir()
    ran(place, "facts", "export", str(out / "facts.jsonl"))
    ran(place, "docs", "export", str(out / "docs"))
    assert modes(out) == {0o600}


def test_a_file_that_its_owner_has_opened_to_others_stays_so(tmp_path: Path) -> None:
    place, out = Place(tmp_path / "home"), tmp_path / "docs"
    ran(place, "docs", "create", "plan", "--title", "Floor plan", "--body", "Third floor.")
    ran(place, "docs", "export", str(out))
    [file] = out.glob("*.md")
    file.chmod(0o644)
    ran(place, "docs", "update", "plan", "--body", "Fourth floor.")
    ran(place, "docs", "export", str(out))
    assert "Fourth" in file.read_text("utf-8")
    assert file.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(("mode", "warned"), [(0o755, True), (0o710, True), (0o700, False)])
def test_a_data_folder_that_others_can_look_into_is_warned_of(tmp_path: Path, mode: int, warned: bool) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=mode)
    home.chmod(mode)
    with Hub(Place(home)) as hub:
        hub.ready()
        assert (f"can look into {home} (mode {mode:04o})" in hub.log) is warned
        assert modes(home) == {0o600}
        assert (home / "run").stat().st_mode & 0o777 == 0o700
