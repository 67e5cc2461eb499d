"""What an operator sees: a log line per call, spans when configured; never a body."""

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from tests.timeouts import PATIENCE

from kho.app import open_hub
from kho.doors import logs
from kho.doors.logs import JsonFormatter, LineFormatter, log_call, log_refusal
from kho.kernel.call import Call
from kho.settings import Settings

pytestmark = pytest.mark.anyio

CANARY = "canary-5b1f0c"


class Kept(logging.Handler):
    def __init__(self, formatter: logging.Formatter) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@contextmanager
def kept(formatter: logging.Formatter) -> Generator[list[str], None, None]:
    handler, logger = Kept(formatter), logging.getLogger("kho")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel("INFO")
    try:
        yield handler.lines
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


async def test_a_call_is_one_line_of_json_without_its_body(tmp_path: Path) -> None:
    with kept(JsonFormatter()) as lines:
        async with open_hub(Settings(home=tmp_path)) as hub:
            operation = hub.registry.methods["experiences-server/query_experiences"]
            await hub.registry.call(operation, {"keywords": CANARY}, Call(hub.local, "jsonrpc", "request-1"))
            await hub.registry.call(
                operation, {"keywords": CANARY, "limit": 99}, Call(hub.local, "jsonrpc", "request-2")
            )
    first, second = map(json.loads, lines)
    assert {
        name: first[name] for name in ("level", "message", "request_id", "operation", "door", "tenant", "sub", "code")
    } == {
        "level": "info",
        "message": "call",
        "request_id": "request-1",
        "operation": "experiences.query",
        "door": "jsonrpc",
        "tenant": "local",
        "sub": "local",
        "code": "OK",
    }
    assert first["ms"] >= 0
    assert second["code"] == "INVALID_LIMIT"
    assert CANARY not in "".join(lines)


async def test_a_refused_secret_is_not_logged(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5" * 4
    with kept(LineFormatter()) as lines:
        async with open_hub(Settings(home=tmp_path)) as hub:
            operation = hub.registry.methods["experiences-server/submit_experience"]
            record = {"title": "t", "problem_description": f"token {secret[:40]}", "solution": "s"}
            outcome = await hub.registry.call(operation, record, Call(hub.local))
    assert outcome.error is not None
    assert outcome.error.code == "CONTEXT_NOT_SANITIZED"
    assert secret[:40] not in json.dumps(outcome.value)
    assert "CONTEXT_NOT_SANITIZED" in lines[0]
    assert secret[:40] not in "".join(lines)


async def test_calls_are_not_logged_below_the_level(tmp_path: Path) -> None:
    logger = logging.getLogger("kho")
    level = logger.level
    with kept(LineFormatter()) as lines:
        logger.setLevel("WARNING")
        async with open_hub(Settings(home=tmp_path)) as hub:
            assert log_call in hub.registry.observers
            operation = hub.registry.methods["experiences-server/query_experiences"]
            await hub.registry.call(operation, {"keywords": "x"}, Call(hub.local))
    assert lines == []
    assert logger.level == level


async def test_a_refused_caller_is_a_line_too(tmp_path: Path) -> None:
    with kept(JsonFormatter()) as lines:
        log_refusal("/jsonrpc", "192.0.2.7", "UNAUTHORIZED")
    line = json.loads(lines[0])
    assert (line["message"], line["path"], line["client"], line["code"]) == (
        "refused",
        "/jsonrpc",
        "192.0.2.7",
        "UNAUTHORIZED",
    )


class Collector(HTTPServer):
    """Takes what an OpenTelemetry exporter sends; with `moved` it says that this belongs elsewhere."""

    def __init__(self, moved: str = "") -> None:
        self.received: list[tuple[str, bytes]] = []
        self.moved = moved
        super().__init__(("127.0.0.1", 0), Collecting)


class Collecting(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Collector)
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.received.append((self.path, body))
        if self.server.moved:
            self.send_response(307)
            self.send_header("location", self.server.moved)
        else:
            self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.mark.parametrize("moved", ["", "/elsewhere"])
def test_spans_reach_a_collector_and_go_nowhere_else(tmp_path: Path, moved: str) -> None:
    with Collector(moved) as collector:
        thread = threading.Thread(target=collector.serve_forever)
        thread.start()
        try:
            environment = os.environ | {
                "KHO_HOME": str(tmp_path),
                "KHO_OBSERVE__OTLP_ENDPOINT": f"http://127.0.0.1:{collector.server_port}/v1/traces",
                "OTEL_EXPORTER_OTLP_COMPRESSION": "none",
            }
            command = [sys.executable, "-m", "kho", "experiences", "query", CANARY, "--json"]
            subprocess.run(command, env=environment, check=True, capture_output=True, timeout=PATIENCE)
        finally:
            collector.shutdown()
            thread.join()
    assert {path for path, _ in collector.received} == {"/v1/traces"}
    body = b"".join(body for _, body in collector.received)
    assert b"experiences.query" in body
    assert CANARY.encode() not in body


def command(home: Path, *words: str, **settings: str) -> "subprocess.CompletedProcess[str]":
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KHO_")}
    own = {**environment, "KHO_HOME": str(home), **settings}
    return subprocess.run([sys.executable, "-m", "kho", *words], env=own, capture_output=True, text=True)


def test_a_command_says_once_and_in_words_that_the_model_does_not_answer(tmp_path: Path) -> None:
    settings = {
        "KHO_SEARCH__EMBEDDER__PROVIDER": "openai",
        "KHO_SEARCH__EMBEDDER__URL": "http://127.0.0.1:9/v1",
        "KHO_SEARCH__EMBEDDER__MODEL": "m",
    }
    kept = command(tmp_path, "remember", "The lamp is in the attic.", **settings)
    assert kept.stderr.count("cannot be reached") == 1
    found = command(tmp_path, "search", "where is the lamp", **settings)
    assert (found.stdout + found.stderr).count("Keyword search only") == 1
    for done in (kept, found):
        assert "{" not in done.stderr
        assert "level" not in done.stderr


def test_a_command_says_once_that_its_folder_cannot_be_made(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    done = command(blocked / "home", "doctor")
    assert done.stderr == ""
    assert "check the data folder" in done.stdout or "name a folder" in done.stdout


FORGED = "/servers/x\n20:00:00 INFO    call operation=keys.create sub=admin code=OK\x1b[31m\x9b\u202e"


@pytest.mark.parametrize("formatter", [LineFormatter(), logs.CommandFormatter(), JsonFormatter()])
async def test_a_line_of_the_log_cannot_be_forged(formatter: logging.Formatter) -> None:
    """What callers choose stands in fields, in messages, and in the errors of a traceback."""
    with kept(formatter) as lines:
        log_refusal(FORGED, "192.0.2.7", "UNAUTHORIZED")
        log = logging.getLogger("kho.calls")
        log.warning("asked for %s", FORGED)
        try:
            raise ValueError(FORGED)
        except ValueError:
            log.exception("failed: %s", FORGED)
    for line in lines:
        assert not set("\x1b\x9b\u202e") & set(line)
        first, *trace = line.split("\n")
        assert not first.startswith("20:00:00 INFO")
        assert all(further.startswith("    ") for further in trace)
    if type(formatter) is LineFormatter:
        assert lines[0].endswith("refused path=/servers/… client=192.0.2.7 code=UNAUTHORIZED")
        assert r"/servers/x\x0a20:00:00 INFO    call operation=keys.create sub=admin code=OK" in lines[1]


def test_what_an_answer_does_not_say_is_logged_in_words() -> None:
    said = logs.Unsaid()
    for reason in ("The model is not ready yet.", "The model is not ready yet.", "Nobody is there."):
        said.emit(
            logging.makeLogRecord(
                {"name": "x", "levelno": 30, "levelname": "WARNING", "msg": "only: %s", "args": (reason,)}
            )
        )
    root, handler = logging.getLogger(), Kept(logs.CommandFormatter())
    root.addHandler(handler)
    try:
        said.tell("{'notes': ['Keyword search only. Nobody is there.']}")
        assert handler.lines == ["warning: only: The model is not ready yet."]
        said.tell("")
        assert len(handler.lines) == 1
    finally:
        root.removeHandler(handler)
