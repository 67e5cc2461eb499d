"""The watch over the whole run can fail: a run that leaves a key or a secret anywhere does."""

import asyncio
import sys
from pathlib import Path

import pytest
from tests import key_watch

LEAKS = """
import logging
import random
import string
import sys

import apsw
from tests.key_watch import watched

from kho.kernel import api_keys


def test_it(tmp_path) -> None:
    _, key, _ = api_keys.mint()
    secret = watched("ghp_" + "".join(random.choices(string.ascii_letters + string.digits, k=36)))
    (tmp_path / "kho.db").unlink(missing_ok=True)
    store = apsw.Connection(str(tmp_path / "kho.db"))
    store.execute("CREATE TABLE audit (reason); CREATE TABLE audit_subjects (details); CREATE TABLE documents (body)")
    {what}
    store.close()


def test_another() -> None:
    pass
"""
FOUND = {
    "a key in the log": 'logging.getLogger("kho").warning("the key is %s", key)',
    "a secret in the log": 'logging.getLogger("kho").warning("the secret is %s", secret)',
    "a token of this machine's user in the log": 'logging.getLogger("kho").warning(api_keys.mint_local())',
    "on stderr": "sys.stderr.write(secret)",
    "on stderr of a process": '(tmp_path / "stderr.txt").write_text(secret)',
    "a key in a store": 'store.execute("INSERT INTO documents VALUES (?)", (key,))',
    "a key in a deleted row": 'store.execute("INSERT INTO documents VALUES (?); DELETE FROM documents", (key,))',
    "a secret in the trail": 'store.execute("INSERT INTO audit_subjects VALUES (?)", (secret,))',
}
FINE = {
    "a part of a key": 'logging.getLogger("kho").warning("the key is %s", key[:8])',
    "on stdout": "print(key)",
    "stored as sent": 'store.execute("INSERT INTO documents VALUES (?)", (secret,))',
}


@pytest.mark.parametrize(
    ("what", "status", "more"),
    [
        *(pytest.param(what, 1, ["-p", "no:xdist"], id=name) for name, what in FOUND.items()),
        *(pytest.param(what, 0, ["-p", "no:xdist"], id=name) for name, what in FINE.items()),
        pytest.param(FOUND["a secret in the log"], 1, ["-n", "2"], id="in one of several processes"),
    ],
)
async def test_a_run_that_leaves_a_secret_fails(what: str, status: int, more: list[str], tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(LEAKS.replace("{what}", what))
    root = Path(__file__).parents[2]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "-p", "tests.key_watch", "-p", "no:cacheprovider"),
        *("--basetemp", str(tmp_path / "below"), *more, str(tmp_path / "test_it.py")),
        cwd=root,
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    assert process.returncode == status, out.decode()
    assert ("API key or secret in the output" in out.decode()) is bool(status)


def test_it_watches_this_run(request: pytest.FixtureRequest) -> None:
    assert request.config.pluginmanager.get_plugin("tests.key_watch") is key_watch
