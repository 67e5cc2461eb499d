"""A pytest plugin: no API key and no token of this machine's user that is made during the run may be in what any test logged or wrote to stderr.

Stdout is left out: there a command shows a new key, once, to who asked for it.
"""

import re
from collections.abc import Iterable
from functools import wraps

import pytest

from kho.kernel import api_keys

KEY = re.compile(r"kho_(?:[A-Za-z0-9]{8}|local)_[A-Za-z0-9_-]{43}")
made: set[str] = set()
found: list[str] = []
_mint, _mint_local = api_keys.mint, api_keys.mint_local


@wraps(_mint)
def mint() -> tuple[str, str, str]:
    id, text, digest = _mint()
    made.add(text)
    return id, text, digest


@wraps(_mint_local)
def mint_local() -> str:
    text = _mint_local()
    made.add(text)
    return text


def leaks(sections: Iterable[tuple[str, str]]) -> list[str]:
    """The sections of a report that hold a key."""
    return [
        name
        for name, text in sections
        if not name.startswith("Captured stdout") and made.intersection(KEY.findall(text))
    ]


def pytest_configure() -> None:
    api_keys.mint, api_keys.mint_local = mint, mint_local


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    found.extend(f"{report.nodeid}: {name}" for name in leaks(report.sections))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if found and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for one in dict.fromkeys(found):
        terminalreporter.write_line(f"API key in the output: {one}", red=True)
