"""A machine of its own for every test: a home, a project and a hub's home; nothing of the real one is touched."""

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.doors.command_line import program_of
from tests.doors.doors import Finished

from kho.doors.cli import build
from kho.doors.cli.context import Program
from kho.settings import Settings


class Machine:
    def __init__(self, folder: Path) -> None:
        self.home = folder / "me"
        self.project = folder / "project"
        self.hub = folder / "hub"
        self.home.mkdir()
        self.project.mkdir()
        self.settings = Settings(home=self.hub, database_url=None)
        self.environment = {"HOME": str(self.home), "PATH": ""}

    @property
    def program(self) -> Program:
        return replace(program_of(self.settings), environment=self.environment)

    def run(self, *arguments: str, stdin: bytes = b"") -> Finished:
        commands = build(self.program, ["memory", "facts"], ["connect", "hook"])
        result = CliRunner().invoke(commands, arguments, input=stdin, catch_exceptions=False, prog_name="kho")
        return Finished(result.exit_code, result.stdout, result.stderr)

    def files(self) -> dict[str, bytes]:
        """Everything in the home and the project."""
        roots = (self.home, self.project)
        return {str(path): path.read_bytes() for root in roots for path in root.rglob("*") if path.is_file()}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    monkeypatch.chdir(made.project)
    return made
