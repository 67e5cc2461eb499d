"""T13: a secret is stored in a record, or written to a log."""

import logging
import random
import string

import pytest
from tests.doors.doors import bearer, new_key, served
from tests.key_watch import watched

from kho.doors.logs import JsonFormatter
from kho.kernel.access import METRICS
from kho.settings import Settings

pytestmark = pytest.mark.anyio


def secret(random_: random.Random) -> str:
    """As a code host makes them: made anew for each run, so no list can know it."""
    return watched("ghp_" + "".join(random_.choices(string.ascii_letters + string.digits, k=36)))


async def test_t13_a_secret_is_refused_and_appears_nowhere(settings: Settings) -> None:
    hidden = secret(random.Random())
    key = await new_key(settings, "acme", "*", "admin", METRICS)
    lines: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(self.format(record))

    handler, root = Kept(logging.DEBUG), logging.getLogger()
    handler.setFormatter(JsonFormatter())
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        async with served(settings) as hub:
            for field in ("title", "problem_description", "solution"):
                record = {"title": "t", "problem_description": "p", "solution": "s", field: f"token {hidden}"}
                answer = await hub.rpc("submit_experience", record, **bearer(key))
                assert answer["result"]["error"]["code"] == "CONTEXT_NOT_SANITIZED"
                assert hidden not in str(answer)
            shown = [await hub.get(path, **bearer(key)) for path in ("/metrics", "/servers", "/health")]
            trail = await hub.act("audit_log", {}, key=key)
            assert not [one for one in (*shown, trail) if hidden in one.text or key in one.text]
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    assert lines
    assert not [line for line in lines if hidden in line or key in line]
    for file in settings.home.rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            assert hidden.encode() not in content
            assert key.encode() not in content
