import shlex
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from kho.lib import extras

EXTRAS = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["optional-dependencies"]


@pytest.mark.parametrize("extra", EXTRAS)
def test_the_command_names_every_package_of_the_extra(extra: str) -> None:
    python, *command = shlex.split(extras.install(extra))
    assert python == sys.executable
    assert command[:3] == ["-m", "pip", "install"]
    assert {Requirement(one) for one in command[3:]} == {Requirement(one) for one in EXTRAS[extra]}
