"""The watch over the whole run can fail: a run that logs a key does."""

import asyncio
import sys
from pathlib import Path

import pytest

LEAKS = """
import logging

from kho.kernel import api_keys


def test_it() -> None:
    text = {made}
    logging.getLogger("kho").warning("the key is %s", {what})
"""


@pytest.mark.parametrize("made", ["api_keys.mint()[1]", "api_keys.mint_local()"])
@pytest.mark.parametrize(("what", "status"), [("text", 1), ("text[:8]", 0)])
async def test_a_run_that_logs_a_key_fails(made: str, what: str, status: int, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(LEAKS.format(made=made, what=what))
    root = Path(__file__).parents[2]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "-p", "tests.key_watch", "-p", "no:cacheprovider"),
        str(tmp_path / "test_it.py"),
        cwd=root,
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    assert process.returncode == status, out.decode()
    assert ("API key in the output" in out.decode()) is bool(status)


def test_it_watches_this_run(request: pytest.FixtureRequest) -> None:
    assert request.config.pluginmanager.has_plugin("tests.key_watch")
