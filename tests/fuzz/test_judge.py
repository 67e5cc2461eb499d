"""The judge must bite: an answer for each rule that breaks it, beside one that does not."""

import pytest
from tests.fuzz.target import Answer, Broken, Request, Target

from kho.settings import Settings

JSON = {"content-type": "application/json"}
GOOD = b'{"jsonrpc": "2.0", "id": 1, "result": {"success": true, "data": {"title": "INTERNAL error at /tmp"}}}'

BAD = {
    "a server error": Answer(500, JSON, GOOD),
    "not JSON": Answer(200, JSON, b"Internal Server Error"),
    "not called JSON": Answer(200, {"content-type": "text/plain"}, GOOD),
    "NaN": Answer(200, JSON, GOOD.replace(b"1", b"NaN")),
    "half a surrogate": Answer(200, JSON, GOOD.replace(b"1", b'"\\ud800"')),
    "a body without need": Answer(204, {}, GOOD),
    "our fault, in the envelope": Answer(
        200,
        JSON,
        b'{"jsonrpc": "2.0", "id": 1, "result": {"success": false, "error": {"code": "INTERNAL", "message": ""}}}',
    ),
    "our fault, by number": Answer(
        200, JSON, b'{"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "Internal error"}}'
    ),
    "our fault, of a tool": Answer(
        200,
        {"content-type": "text/event-stream"},
        b'data: {"jsonrpc": "2.0", "id": 1, "result": {"isError": true, "structuredContent": '
        b'{"success": false, "error": {"code": "DATABASE_ERROR", "message": ""}}}}\r\n\r\n',
    ),
    "a path": Answer(400, JSON, b'{"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "/usr/lib/x"}}'),
    "a traceback": Answer(400, JSON, b'{"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "Traceback"}}'),
    "a library": Answer(400, JSON, b'{"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "pydantic"}}'),
    "SQL": Answer(400, JSON, b'{"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "SELECT a FROM b"}}'),
    "result and error": Answer(200, JSON, b'{"jsonrpc": "2.0", "id": 1, "result": 1, "error": {"code": 1}}'),
    "neither": Answer(200, JSON, b'{"jsonrpc": "2.0", "id": 1}'),
    "no id": Answer(200, JSON, b'{"jsonrpc": "2.0", "result": 1}'),
}


@pytest.fixture
def judge() -> Target:
    return Target(Settings())


@pytest.mark.parametrize("label", BAD)
def test_a_bad_answer_is_noticed(judge: Target, label: str) -> None:
    with pytest.raises(Broken):
        judge.judge(Request("/jsonrpc", b"{}"), BAD[label])


def test_what_is_logged_is_noticed(judge: Target) -> None:
    judge.errors.seen.append("something failed")
    with pytest.raises(Broken):
        judge.judge(Request("/jsonrpc", b"{}"), Answer(200, JSON, GOOD))


@pytest.mark.parametrize("body", [GOOD, b"[" + GOOD + b"]"])
def test_a_good_answer_passes(judge: Target, body: bytes) -> None:
    judge.judge(Request("/jsonrpc", b'{"title": "/tmp"}'), Answer(200, JSON, body))


def test_an_action_is_ok_only_with_status_200(judge: Target) -> None:
    body = b'{"request_id": "1", "action": "a", "status": "ok", "result": {}}'
    judge.judge(Request("/actions", b"{}"), Answer(200, JSON, body))
    with pytest.raises(Broken):
        judge.judge(Request("/actions", b"{}"), Answer(400, JSON, body))
