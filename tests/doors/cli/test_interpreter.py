"""An interpreter with known faults is warned of, and no other."""

from pathlib import Path

import pytest
from tests.acceptance.processes import Place

from kho.doctor import MENDED, interpreter


@pytest.mark.parametrize(("version", "patch"), MENDED.items())
def test_below_the_release_that_mends_it_and_not_from_there_on(version: tuple[int, int], patch: int) -> None:
    [warning] = interpreter((*version, patch - 1))
    assert f"{version[0]}.{version[1]}.{patch} or a later release" in warning
    assert interpreter((*version, patch)) == []


def test_versions_that_never_had_it() -> None:
    assert interpreter((3, 14, 0)) == []


def test_doctor_says_it(tmp_path: Path) -> None:
    done = Place(tmp_path / "home").run("doctor")
    assert ("has known security faults" in done.stdout.decode()) == bool(interpreter())
    assert done.returncode == 0, "a warning is no failure"
