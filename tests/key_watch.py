"""A pytest plugin: no API key and no token of this machine's user that is made during the run, and no secret that a test
makes up (`watched`), may be where none ever is: in what any test logged or wrote to stderr, in what processes that were
started wrote to theirs, and in the stores that the tests left behind.

Stdout is left out: there a command shows a new key, once, to who asked for it. Not looked at either is what is gone when
a test ends: stores on PostgreSQL, and answers of `/metrics` (tests/security/test_secrets_leave_no_trace.py does).
"""

import os
import re
from collections.abc import Iterable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any

import apsw
import pytest

from kho.kernel import api_keys

KEY = re.compile(r"kho_(?:[A-Za-z0-9]{8}|local)_[A-Za-z0-9_-]{43}")
SECRET = re.compile(r"(?:ghp|sk_live|npm|hf)_[A-Za-z0-9]{32,40}|xoxb-[0-9]{12}-[A-Za-z0-9]{24}")
"""Forms of the secrets that tests make up: what looks like one is looked up among those."""
TRAIL = ("audit", "audit_subjects")
"""Tables that never hold a secret, whatever the policy. Others hold what was stored as sent."""
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


def watched(secret: str) -> str:
    """Remember a secret that a test has made up."""
    assert SECRET.fullmatch(secret), "add its form to SECRET"
    made.add(secret)
    return secret


def holds(text: str, *forms: re.Pattern[str]) -> bool:
    return any(made.intersection(form.findall(text)) for form in forms)


def leaks(sections: Iterable[tuple[str, str]]) -> list[str]:
    """The sections of a report that hold a key or a secret."""
    return [name for name, text in sections if not name.startswith("Captured stdout") and holds(text, KEY, SECRET)]


def leaks_below(folder: Path) -> Iterator[str]:
    """What tests left behind in files. A store is read twice: an API key is nowhere in its bytes, also not on pages that
    no row has any more, and a secret is in no row of the trail."""
    files = (
        Path(place) / name for place, _, names in os.walk(folder) for name in names
    )  # passes over what it cannot open
    for path in files:
        if path.name == "stderr.txt" and holds(path.read_text(errors="replace"), KEY, SECRET):
            yield str(path)
        elif path.name.startswith("kho.db") and path.is_file():
            if holds(path.read_bytes().decode("latin-1"), KEY):
                yield str(path)
            if path.name == "kho.db":
                yield from (f"{path}, table {table}" for table in TRAIL if holds(_rows(path, table), SECRET))


def _rows(path: Path, table: str) -> str:
    try:
        connection: Any = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    except apsw.Error:
        return ""
    try:
        return repr(list(connection.execute(f"SELECT * FROM {table}")))
    except apsw.Error:  # a test broke it on purpose, or it is no store
        return ""
    finally:
        connection.close()


def pytest_configure() -> None:
    api_keys.mint, api_keys.mint_local = mint, mint_local


@pytest.fixture(scope="session", autouse=True)
def no_secret_is_left_behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fails the last test: so that it is seen, too, where a process runs a part of the tests."""
    yield
    found.extend(leaks_below(tmp_path_factory.getbasetemp()))
    if found:
        pytest.fail("\n".join(["API key or secret in the output:", *dict.fromkeys(found)]))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    found.extend(f"{report.nodeid}: {name}" for name in leaks(report.sections))
