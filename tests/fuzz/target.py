"""The hub that is attacked: the real application with a real database, served by uvicorn in a thread of this process.

Most requests go straight into its ASGI interface, where an exception that escapes is seen as such; others take the
socket. Either way every answer is held against the same rules, which `Target.judge` states.
"""

import asyncio
import http.client
import logging
import os
import random
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, cast

import orjson
import uvicorn
from starlette.types import Message

from kho import app
from kho.doors.http.app import Application
from kho.doors.http.uvicorn_protocols import guarded_protocol
from kho.settings import Settings

REQUESTS = int(os.environ.get("KHO_FUZZ_REQUESTS", "2000"))
SEED = int(os.environ.get("KHO_FUZZ_SEED", "0")) or (
    1 if REQUESTS <= 2000 else random.SystemRandom().randrange(1, 2**32)
)
"""The slice in `make test` is the same every time; a long run is another one each time, and says which."""

PATIENCE = 120.0
"""Seconds after which a request counts as hung."""

MODERN, HANDSHAKE = "2026-07-28", "2025-11-25"

# What an answer must not tell: where the code lies, what it is made of, what it asks its database.
LEAK = re.compile(
    rb"Traceback|line \d+, in |site-packages|/home/|/tmp/|/usr/lib|\.py\b.{0,3}line|apsw|sqlite|psycopg|sqlstate"
    rb"|pydantic|orjson|jiter|starlette|uvicorn|httptools|anyio|SELECT .{1,200} FROM \w|INSERT INTO|words_entries"
    rb"|words_index|experience_revisions|research_documents|api_keys|no such table|syntax error| object at 0x[0-9a-f]+",
    re.IGNORECASE | re.DOTALL,
)
# Codes that mean "our fault". Nothing that a caller sends may bring them about.
OUR_FAULT = frozenset({"INTERNAL", "DATABASE_ERROR", "TIMEOUT", -32603})

KNOWN = {
    "title": "Kettle-descaling in the quokka laboratory",
    "problem_description": "Zwiebelkuchen overheats: error E-7741 after forty minutes.",
    "root_cause": "Limescale on the heating coil.",
    "solution": "Citric acid, twenty grams per litre, then rinse thrice.",
    "context": "Firmware 4.2, descaler of 2019.",
    "keywords": ["kettle", "quokka", "e-7741"],
}
"""A record whose id no request ever names: whatever happens, it must stay as it is."""

sent: Counter[str] = Counter()
"""Requests that were really sent, by where they went."""


class Broken(AssertionError):
    """The hub broke one of the rules."""


@dataclass(frozen=True, slots=True)
class Request:
    path: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    method: str = "POST"

    def __repr__(self) -> str:
        shown = self.body if len(self.body) < 2000 else self.body[:900] + b" ...... " + self.body[-900:]
        return f"{self.method} {self.path} {dict(self.headers)} {shown!r} ({len(self.body)} bytes)"


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes


def rpc(body: bytes) -> Request:
    return Request("/jsonrpc", body)


def action(body: bytes) -> Request:
    return Request("/actions", body)


def mcp_handshake(body: bytes) -> Request:
    headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": HANDSHAKE}
    return Request("/mcp", body, headers)


def mcp_modern(body: bytes, name: str = "query_experiences", method: str = "tools/call") -> Request:
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": MODERN,
        "mcp-method": method,
        "mcp-name": name,
    }
    return Request("/mcp", body, headers)


class Errors(logging.Handler):
    """Keeps what the hub's thread logs as an error: a request boundary that caught a bug of ours says so only there."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.thread: int | None = None
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread == self.thread:
            self.seen.append(self.format(record))


class Target:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        # The connections are invented, so they belong to no account of the machine.
        http = settings.http.model_copy(update={"other_accounts": True})
        self.application = Application(lambda: app.open_hub(settings), http, settings.mcp)
        self.errors = Errors()
        self.loop: asyncio.AbstractEventLoop
        self.port = 0
        self.known = ""
        """Id of the record that nobody names."""
        self.victim = ""
        """Id of a record that requests do name, and so may change."""
        self.doomed = ""
        """Id of a record that requests may delete as well."""

    # --- sending ----------------------------------------------------------------------------------------------------

    def send(self, request: Request) -> Answer:
        """Through the ASGI interface. What the application raises is raised here."""
        sent[request.path] += 1
        self.errors.seen.clear()
        future = asyncio.run_coroutine_threadsafe(self._asgi(request), self.loop)
        try:
            answer = future.result(PATIENCE)
        except TimeoutError:
            future.cancel()
            raise Broken(f"no answer in {PATIENCE} s to {request!r}") from None
        self.judge(request, answer)
        return answer

    def send_over_socket(self, request: Request) -> Answer:
        sent["socket " + request.path] += 1
        self.errors.seen.clear()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            headers = {"content-type": "application/json", **request.headers}
            connection.request(request.method, request.path, request.body, headers)
            response = connection.getresponse()
            answer = Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()
        self.judge(request, answer)
        return answer

    def send_bytes(self, head_and_body: bytes) -> bytes:
        """Bytes that may not even be HTTP. Gives back the first answer; nothing if the hub waits for more, or hangs up."""
        sent["socket bytes"] += 1
        self.errors.seen.clear()
        received = b""
        with socket.create_connection(("127.0.0.1", self.port), timeout=0.3) as connection:
            connection.sendall(head_and_body)
            with suppress(TimeoutError, ConnectionResetError):
                while not _complete(received) and (piece := connection.recv(65536)):
                    received += piece
        if re.match(rb"HTTP/1\.1 5\d\d", received):
            raise Broken(f"{received[:200]!r} for {head_and_body[:2000]!r}")
        self._nothing_leaks(head_and_body, received)
        self._nothing_logged(repr(head_and_body[:2000]))
        return received

    async def _asgi(self, request: Request) -> Answer:
        headers = {
            "host": f"127.0.0.1:{self.port}",
            "content-type": "application/json",
            "content-length": str(len(request.body)),
            **request.headers,
        }
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": "http",
            "path": request.path,
            "raw_path": request.path.encode(),
            "root_path": "",
            "query_string": b"",
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers.items()],
            "client": ("127.0.0.1", 40000),
            "server": ("127.0.0.1", self.port),
            "state": {},
        }
        inbox: list[Message] = [{"type": "http.request", "body": request.body, "more_body": False}]
        outbox: list[Message] = []
        over = asyncio.Event()

        async def receive() -> Message:
            if inbox:
                return inbox.pop()
            await over.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            outbox.append(message)
            if message["type"] == "http.response.body" and not message.get("more_body"):
                over.set()

        await self.application(scope, receive, send)
        if not outbox or outbox[0]["type"] != "http.response.start" or not over.is_set():
            raise Broken(f"no complete answer: {outbox!r}")
        head = {name.decode().lower(): value.decode("latin-1") for name, value in outbox[0]["headers"]}
        return Answer(outbox[0]["status"], head, b"".join(part.get("body", b"") for part in outbox[1:]))

    # --- judging ----------------------------------------------------------------------------------------------------

    def judge(self, request: Request, answer: Answer) -> None:
        if answer.status >= 500:
            raise Broken(f"{answer.status} {answer.body[:2000]!r} for {request!r}")
        try:
            values = messages(answer)
        except (ValueError, UnicodeDecodeError) as problem:
            raise Broken(f"not JSON ({problem}): {answer.status} {answer.body[:2000]!r} for {request!r}") from None
        for value in values:
            for error in errors_in(value):
                if error.get("code") in OUR_FAULT:
                    raise Broken(f"{error['code']}: {answer.body[:2000]!r} for {request!r}")
                self._nothing_leaks(request.body, orjson.dumps(error))
            self._shape(request, answer, value)
        self._nothing_logged(repr(request))

    def _shape(self, request: Request, answer: Answer, value: Any) -> None:
        if answer.status in (413, 415, 421, 403, 404, 405) and set(value) == {"error"}:
            return  # refused before it reached its door
        if request.path in ("/jsonrpc", "/mcp"):
            replies = cast(list[dict[str, Any]], value if isinstance(value, list) else [value])
            good = all(
                reply["jsonrpc"] == "2.0"
                and ("result" in reply) != ("error" in reply)
                and ("id" in reply or request.path == "/mcp")
                for reply in replies
            )
        elif request.path == "/actions":
            good = {"request_id", "action", "status"} <= set(value) and value["status"] in ("ok", "error")
            good = good and ((answer.status == 200) == (value["status"] == "ok"))
            good = good and ("result" in value or {"code", "message", "details"} <= set(value["error"]))
        else:
            good = True
        if not good:
            raise Broken(f"an odd answer: {answer.status} {answer.body[:2000]!r} for {request!r}")

    def _nothing_leaks(self, request: bytes, answer: bytes) -> None:
        for found in LEAK.finditer(answer):
            if found[0].lower() not in request.lower():  # an echo of what the caller said is no leak
                raise Broken(f"the answer tells {found[0]!r}: {answer[:2000]!r} for {request[:2000]!r}")

    def _nothing_logged(self, request: str) -> None:
        if self.errors.seen:
            problems, self.errors.seen = self.errors.seen, []
            raise Broken(f"logged: {problems[0]} for {request}")

    def alive(self) -> None:
        """The hub answers and is well, and the known record is what it was and can be found."""
        health = self._ask("GET", "/health")
        assert health["status"] == "healthy", health
        got = self._act("get_experience", id=self.known)
        assert {name: got[name] for name in KNOWN} == KNOWN
        assert (got["revision"], got["helpful"], got["unhelpful"]) == (1, 0, 0)
        assert "deleted_at" not in got
        self._export()
        found = self._act("query_experiences", keywords="quokka e-7741 zwiebelkuchen limescale", limit=1)
        assert [hit["id"] for hit in found["experiences"]] == [self.known]

    def plant(self) -> None:
        self.known = self._act("submit_experience", **KNOWN)["id"]
        self.victim, self.doomed = (
            self._act("submit_experience", title=title, problem_description="p", solution="s")["id"]
            for title in ("Victim", "Doomed")
        )

    def _export(self) -> None:
        """Everything that was let in can be read again: a record that breaks its readers would be worse than a 500."""
        cursor: dict[str, str] = {}
        while True:
            page = self._act("export_experiences", include_deleted=True, **cursor)
            assert not re.search(rb"(?<!\\)\\u0000", orjson.dumps(page)), "NUL was stored"
            if "next_cursor" not in page:
                return
            cursor = {"cursor": page["next_cursor"]}

    def _act(self, name: str, **payload: Any) -> Any:
        reply = self._ask("POST", "/actions", {"action": name, "payload": payload})
        assert reply["status"] == "ok", reply
        return reply["result"]["data"]

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        """Beside the attack, so not counted; over the socket, as anybody would."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request(method, path, orjson.dumps(body) if body else None, {"content-type": "application/json"})
            response = connection.getresponse()
            answer = response.read()
            assert response.status == 200, answer
            return orjson.loads(answer)
        finally:
            connection.close()


def _complete(received: bytes) -> bool:
    """Whether there is a whole answer, the interim ones aside."""
    head, end, body = re.sub(rb"\AHTTP/1\.1 1\d\d .*?\r\n\r\n", b"", received, flags=re.DOTALL).partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head)
    return bool(end) and (length is None or len(body) >= int(length[1]))


def messages(answer: Answer) -> list[Any]:
    """The JSON values of an answer: none, one, or one per event of a stream."""
    if answer.status in (202, 204):
        if answer.body:
            raise ValueError("a body where there must be none")
        return []
    kind = answer.headers.get("content-type", "")
    if kind.startswith("text/event-stream"):
        lines = re.split("\r\n|\r|\n", answer.body.decode())  # and at nothing else, as the format says
        return [orjson.loads(line[5:]) for line in lines if line.startswith("data:") and line[5:].strip()]
    if not kind.startswith("application/json"):
        raise ValueError(f"content type {kind!r}")
    return [orjson.loads(answer.body)]


def errors_in(value: Any) -> Iterator[dict[str, Any]]:
    """The errors of an answer. What else it holds are records, which are the callers' own words."""
    if isinstance(value, list):
        for item in cast(list[Any], value):
            yield from errors_in(item)
    elif isinstance(value, dict):
        for key, inner in cast(dict[str, Any], value).items():
            if key == "error" and isinstance(inner, dict):
                yield cast(dict[str, Any], inner)
            elif key in ("result", "structuredContent"):
                yield from errors_in(inner)


@contextmanager
def serving(settings: Settings) -> Generator[Target]:
    target = Target(settings)
    config = uvicorn.Config(
        target.application,
        http=guarded_protocol(),
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=5,
    )
    server = uvicorn.Server(config)
    logging.getLogger().addHandler(target.errors)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        target.port = listener.getsockname()[1]

        async def serve() -> None:
            target.loop = asyncio.get_running_loop()
            target.errors.thread = threading.get_ident()
            await server.serve(sockets=[listener])

        thread = threading.Thread(target=asyncio.run, args=(serve(),), name="fuzz-target")
        thread.start()
        try:
            until(lambda: server.started or not thread.is_alive())
            assert server.started, target.errors.seen
            target.plant()
            yield target
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
            logging.getLogger().removeHandler(target.errors)
    assert not thread.is_alive(), "the hub did not stop"
    assert target.errors.seen == []


def until(condition: Any, patience: float = PATIENCE) -> None:
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)
