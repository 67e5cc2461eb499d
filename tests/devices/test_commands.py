"""Boards at the command line: what is asked for, what is missing, and what a failure looks like."""

import asyncio
import os
import pty
from pathlib import Path

import pytest
from tests.devices.factories import PATIENCE
from tests.devices.test_operations import dialled, known
from tests.doors.command_line import program_of, run_in_process
from tests.doors.doors import KHO, environment, kho, served

from kho.settings import Settings
from kho.simulator.board import Board
from kho.simulator.board_tools import Context, FirmwareTool, ToolRefused
from kho.simulator.faults import FAULTS

pytestmark = pytest.mark.anyio
MAC = "02:4b:00:00:00:01"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", database_url=None)


@pytest.mark.parametrize(
    ("words", "usage"),
    [
        ("log", "[DEVICE]"),
        ("notifications", "[DEVICE]"),
        ("tools", "DEVICE"),
        ("call", "DEVICE... TOOL [NAME=VALUE]..."),
        ("label", "DEVICE LABEL..."),
        ("forget", "DEVICE"),
    ],
)
def test_usage_shows_what_may_be_left_out(settings: Settings, words: str, usage: str) -> None:
    shown = run_in_process(program_of(settings), "devices", words, "--help").out
    assert shown.splitlines()[0] == f"Usage: kho devices {words} [OPTIONS] {usage}"


def test_a_tool_that_is_missing_is_what_is_said_to_be_missing(settings: Settings) -> None:
    done = run_in_process(program_of(settings), "devices", "call", MAC)
    assert done.status == 1
    assert "TOOL" in done.err
    assert "is required" in done.err
    assert "DEVICE" not in done.err


def test_the_device_may_come_from_a_file(settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "params.json"
    file.write_text(f'{{"device": "{MAC}"}}')
    done = run_in_process(program_of(settings), "devices", "call", "self.reboot", "--params", str(file))
    assert f"There is no device '{MAC}'" in done.err


def test_every_fault_is_offered(settings: Settings) -> None:
    shown = run_in_process(program_of(settings), "devices", "simulate", "--help").out
    assert f"[{'|'.join(FAULTS)}]" in shown
    assert "each board's answer to its first call" in " ".join(shown.split())


def test_what_is_no_address_of_a_broker_is_refused(settings: Settings) -> None:
    done = run_in_process(program_of(settings), "devices", "simulate", "--mqtt", "nonsense")
    assert (done.status, done.err.strip()) == (1, "error: --mqtt must be HOST:PORT.")


@pytest.mark.parametrize(
    ("verb", "truth"),
    [("revoke", "until you approve it again"), ("forget", "notifications are deleted")],
)
async def test_what_is_asked_first_is_true(settings: Settings, verb: str, truth: str) -> None:
    refused = await kho(settings.home, "devices", verb, MAC)
    assert refused.status == 1
    assert truth in refused.err
    assert "--yes" in refused.err
    assert "cannot be undone" not in refused.err
    unknown = await kho(settings.home, "devices", verb, MAC, "--yes")
    assert "UNKNOWN_DEVICE" in unknown.err


async def test_somebody_at_a_terminal_is_asked(settings: Settings) -> None:
    ours, theirs = pty.openpty()
    try:
        process = await asyncio.create_subprocess_exec(
            KHO, "devices", "forget", MAC, env=environment(settings.home), stdin=theirs, stdout=theirs, stderr=theirs
        )
        os.write(ours, b"n\n")
        async with asyncio.timeout(PATIENCE):
            assert await process.wait() == 1
        said = os.read(ours, 10_000).decode()
    finally:
        os.close(theirs)
        os.close(ours)
    assert "Go on? [y/N]" in said
    assert "UNKNOWN_DEVICE" not in said


def refuse(context: Context, arguments: dict[str, object]) -> str:
    raise ToolRefused("The lamp is broken")


async def test_a_failure_is_its_message_and_what_to_do_and_no_line_of_a_log(settings: Settings) -> None:
    lamp = FirmwareTool("self.lamp.on", "Turns it on.", (), refuse)
    async with served(settings) as hub, dialled(hub.url, Board(MAC, extra=[lamp])) as dial:
        await known(hub.http, MAC)
        failed = await kho(settings.home, "devices", "call", MAC, "self.lamp.on")
        assert failed.status == 1
        first, code, advice = failed.err.splitlines()
        assert first == "error: The lamp is broken (DEVICE_FAILED)"
        assert code == "  board_code: -32603"
        assert "kho devices tools" in advice
        looked_for = {"KHO_OBSERVE__LOG_LEVEL": "DEBUG"}
        partly = await kho(settings.home, "devices", "call", MAC, "nowhere", "self.get_device_status")
        assert partly.status == 1
        assert [line.partition(":`")[0] for line in partly.out.splitlines()][1].startswith("- `nowhere`: There is no")
        assert partly.err == ""
        debugged = await kho(settings.home, "devices", "call", MAC, "self.lamp.on", env=looked_for)
        assert '"code":"DEVICE_FAILED"' in debugged.err
        await dial.leave()
