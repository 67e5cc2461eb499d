"""Several processes on one database, workers, stopping, stdio, and a disk that is full."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.acceptance.kills import Load, Submission, half_applied, ids_in, reading
from tests.acceptance.processes import KHO, PATIENCE, Client, Hub, Place, until

HANDSHAKE, MODERN = "2025-11-25", "2026-07-28"
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
}


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    url: str | None = request.getfixturevalue("postgres_schema_url") if request.param == "postgres" else None
    return Place(tmp_path / "home", url)


def in_threads(work: Callable[[int], None], count: int) -> None:
    """Runs `work` for 0, 1, … at the same time, and raises what it raises."""
    with ThreadPoolExecutor(count) as pool:
        for done in [pool.submit(work, number) for number in range(count)]:
            done.result()


def found_at(port: int, word: str) -> list[str]:
    with Client(port) as client:
        return [hit["id"] for hit in client.act("query_experiences", keywords=word)["experiences"]]


# --- several processes ------------------------------------------------------------------------------------------------


def test_two_hubs_and_the_command_line_share_one_file(tmp_path: Path) -> None:
    place = Place(tmp_path / "home")
    acknowledged: list[str] = []

    def over_http(own: Hub, other: Hub) -> None:
        with Client(own.port) as client:
            for _ in range(12):
                submission = Submission.make(by_action=True)
                status, answer = client.post(submission.path, submission.body)
                assert status == 200, answer
                id = orjson.loads(answer)["result"]["data"]["id"]
                acknowledged.append(id)
                assert found_at(other.port, submission.word) == [id], "not seen by the other hub at once"

    def by_command(hubs: list[Hub]) -> None:
        for _ in range(2):
            submission = Submission.make(by_action=False)
            arguments = orjson.dumps(submission.record)
            done = place.run("experiences", "submit", "--params", "-", "--json", stdin=arguments)
            assert done.returncode == 0, done.stderr
            id = orjson.loads(done.stdout)["data"]["id"]
            acknowledged.append(id)
            assert [found_at(hub.port, submission.word) for hub in hubs] == [[id], [id]]

    with Hub(place) as one, Hub(place) as two:
        hubs = [one.ready(), two.ready()]
        workers: list[Callable[[], None]] = [lambda: by_command(hubs)]
        workers += [lambda: over_http(one, two), lambda: over_http(two, one)] * 3
        in_threads(lambda number: workers[number](), len(workers))

        last = Submission.make(by_action=True)
        with Client(two.port) as client:
            client.post(last.path, last.body)
        seen = place.run("experiences", "query", last.word, "--json")
        assert orjson.loads(seen.stdout)["data"]["total"] == 1
        assert len(acknowledged) == 6 * 12 + 2
        assert set(acknowledged) < ids_in(place)
        assert len(ids_in(place)) == len(acknowledged) + 1
        assert half_applied(place) == []


def test_four_hubs_start_at_once_on_nothing(place: Place) -> None:
    hubs = [Hub(place) for _ in range(4)]
    try:
        for hub in hubs:
            hub.ready()
        submissions = [Submission.make(by_action=True) for _ in hubs]
        for hub, submission in zip(hubs, submissions, strict=True):
            with Client(hub.port) as client:
                assert client.post(submission.path, submission.body)[0] == 200
        for hub in hubs:
            assert all(found_at(hub.port, submission.word) for submission in submissions)
        with reading(place) as rows:
            applied = rows("SELECT slice, number FROM migrations")
        assert len(applied) == len(set(applied)) > 1
        assert half_applied(place) == []
        assert [hub.log.count("\n") for hub in hubs] == [1] * 4, [hub.log for hub in hubs]
    finally:
        for hub in hubs:
            hub.kill()


# --- workers ----------------------------------------------------------------------------------------------------------


def parents(hub: Hub) -> dict[int, int]:
    """The processes that the hub started, and those that they did: each with its parent."""
    found: dict[int, int] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # one that has just ended
            _, parent, _, session = file.read_text().rpartition(") ")[2].split()[:4]
            if int(session) == hub.process.pid != int(file.parent.name):
                found[int(file.parent.name)] = int(parent)
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere each worker is a new interpreter")
def test_workers_are_copies_of_one_process(place: Place) -> None:
    with Hub(place, "--workers", "3") as hub:
        hub.ready()
        [origin] = {parent for parent in parents(hub).values() if parent != hub.process.pid}
        assert [*parents(hub).values()].count(origin) == 3
        threads = [*Path(f"/proc/{origin}/task").iterdir()]
        assert len(threads) == 1, "a copy gets none of the others, and waits for ever for what they had locked"


@pytest.mark.skipif(sys.platform != "linux", reason="the processes of a session are found in /proc")
def test_workers_end_when_the_hub_is_killed(place: Place) -> None:
    """Or they would answer, and hold the port, while nobody watches over them."""
    with Hub(place, "--workers", "2") as hub:
        hub.ready()
        workers = [*parents(hub)]
        assert len(workers) > 2
        os.kill(hub.process.pid, signal.SIGKILL)
        until(lambda: not set(workers) & {*parents(hub)}, "the workers to end")


def mcp_post(port: int, method: str, params: dict[str, Any], *, session: str | None, modern: bool) -> Any:
    """The result of one message on a connection of its own, so that either worker may get it."""
    body: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
    headers = {"Accept": "application/json, text/event-stream", "MCP_Protocol_Version": HANDSHAKE}
    if modern:
        body["params"] = {**params, "_meta": ENVELOPE}
        headers |= {"MCP_Protocol_Version": MODERN, "Mcp_Method": method, "Mcp_Name": params.get("name", "")}
    if session is not None:
        headers["Mcp_Session_Id"] = session
    if not method.startswith("notifications/"):
        body["id"] = 1
    with Client(port) as client:
        status, answer = client.post("/mcp", orjson.dumps(body), **headers)
        if "id" not in body:
            assert status == 202, answer
            return None
        assert status == 200, answer
        line = next(line for line in answer.splitlines() if line.startswith((b"data:", b"{")))
        return orjson.loads(line.removeprefix(b"data:"))["result"]


def test_two_workers_serve_both_eras_and_count_together(tmp_path: Path) -> None:
    counters = tmp_path / "counters"
    counters.mkdir()
    calls = 0
    lock = threading.Lock()
    with Hub(Place(tmp_path / "home"), "--workers", "2", PROMETHEUS_MULTIPROC_DIR=str(counters)) as hub:
        hub.ready()
        client_info = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        opened = mcp_post(hub.port, "initialize", client_info, session=None, modern=False)
        assert opened["protocolVersion"] == HANDSHAKE
        mcp_post(hub.port, "notifications/initialized", {}, session=None, modern=False)

        def submit_and_find(number: int) -> None:
            nonlocal calls
            modern = number % 2 == 0
            # A session that one worker made, or that nobody knows any more, must not tie the client to it.
            session = None if modern or number % 4 == 1 else "of-another-worker"
            submission = Submission.make(by_action=False)
            made = mcp_post(
                hub.port,
                "tools/call",
                {"name": "submit_experience", "arguments": submission.record},
                session=session,
                modern=modern,
            )
            found = mcp_post(
                hub.port,
                "tools/call",
                {"name": "query_experiences", "arguments": {"keywords": submission.word}},
                session=session,
                modern=modern,
            )
            assert not made["isError"]
            hits = found["structuredContent"]["data"]["experiences"]
            assert [hit["id"] for hit in hits] == [made["structuredContent"]["data"]["id"]]
            with lock:
                calls += 2

        def both_had_some() -> bool:
            in_threads(submit_and_find, 8)
            return len({file.name for file in counters.glob("counter_*.db")}) == 2

        until(both_had_some, "both workers to get calls", hub.process)

        def counted() -> float:
            with Client(hub.port) as client:
                lines = client.text("/metrics").decode()
            found = re.findall(r'^kho_calls_total\{[^}]*door="mcp"[^}]*\} (\S+)$', lines, re.MULTILINE)
            return sum(map(float, found))

        assert [counted() for _ in range(8)] == [calls] * 8
        hub.terminate()


# --- stdio ------------------------------------------------------------------------------------------------------------


def test_stdout_of_stdio_is_protocol_only(tmp_path: Path) -> None:
    place = Place(tmp_path / "home")
    word = Submission.make(by_action=False)
    environment = place.environment(KHO_OBSERVE__LOG_LEVEL="DEBUG", PYTHONWARNINGS="always", PYTHONASYNCIODEBUG="1")
    with subprocess.Popen(
        [*KHO, "stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as process:
        stdin, stdout = process.stdin, process.stdout
        assert stdin is not None
        assert stdout is not None

        def say(line: bytes) -> None:
            stdin.write(line + b"\n")
            stdin.flush()

        def ask(id: int, method: str, **params: Any) -> Any:
            say(orjson.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            for line in stdout:
                message = orjson.loads(line)
                assert message["jsonrpc"] == "2.0"
                if message.get("id") == id:
                    return message.get("result")
            raise AssertionError("stdio ended")

        watch = threading.Timer(PATIENCE, process.kill)
        watch.start()
        try:
            client_info = {"name": "t", "version": "1"}
            ask(1, "initialize", protocolVersion=HANDSHAKE, capabilities={}, clientInfo=client_info)
            say(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}')
            made = ask(2, "tools/call", name="submit_experience", arguments=word.record)
            for nonsense in (
                b"",
                b"hello",
                b"{",
                b"[1]",
                b'{"id": 9}',
                b"\xff\xfe",
                b'{"jsonrpc": "2.0", "id": "\\ud800", "method": "ping"}',
            ):
                say(nonsense)
            ask(3, "no/such/method")
            ask(4, "tools/call", name="nonsuch", arguments={"a": "\U0001f44d"})
            found = ask(5, "tools/call", name="query_experiences", arguments={"keywords": word.word})
            assert found["structuredContent"]["data"]["experiences"][0]["id"] == made["structuredContent"]["data"]["id"]
            stdin.close()
            rest = stdout.read()
            assert all(orjson.loads(line)["jsonrpc"] == "2.0" for line in rest.splitlines())
            assert process.wait(PATIENCE) == 0
        finally:
            watch.cancel()
            process.kill()


# --- stopping ---------------------------------------------------------------------------------------------------------


def streams() -> Iterator[bytes]:
    """A request that was answered, and the standing streams of both eras."""
    yield b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    yield b"GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nMcp-Protocol-Version: 2025-11-25\r\n\r\n"
    params = {"notifications": {"toolsListChanged": True}, "_meta": ENVELOPE}
    body = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params})
    yield (
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Accept: application/json, text/event-stream\r\nMcp-Protocol-Version: 2026-07-28\r\n"
        b"Mcp-Method: subscriptions/listen\r\nContent-Length: %d\r\n\r\n" % len(body)
    ) + body


def test_sigterm_writes_what_waits_and_ends_the_streams(place: Place) -> None:
    with Hub(place) as hub:
        hub.ready()
        submission = Submission.make(by_action=True)
        connections = [socket.create_connection(("127.0.0.1", hub.port), PATIENCE) for _ in range(3)]
        try:
            for connection, request in zip(connections, streams(), strict=True):
                connection.sendall(request)
                assert connection.recv(65536).startswith(b"HTTP/1.1 200")
            with Client(hub.port) as client:
                assert client.post(submission.path, submission.body)[0] == 200
                for _ in range(7):
                    assert client.act("query_experiences", keywords=submission.word)["total"] == 1
                assert hub.terminate() in (0, -signal.SIGTERM)
        finally:
            for connection in connections:
                connection.close()
        assert hub.log.count("\n") == 1, f"a stream had to be cut off, which the log tells: {hub.log}"
    with reading(place) as rows:
        assert rows("SELECT query_count FROM experience_uses") == [(7,)]
        assert half_applied(place) == []


def test_sigterm_under_load_loses_nothing(tmp_path: Path) -> None:
    place = Place(tmp_path / "home")
    with Hub(place) as hub:
        load = Load(hub.ready().port)
        load.start()
        until(lambda: len(load.acknowledged) > 50, "some answers", hub.process)
        hub.terminate()
        assert hub.log.count("\n") == 1, f"a request had to be cut off, which the log tells: {hub.log}"
        load.join()
    assert load.refused == []
    assert {orjson.loads(answer)["result"]["data"]["id"] for _, answer in load.acknowledged} <= ids_in(place)
    assert half_applied(place) == []


# --- a full disk ------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    try:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "none", folder], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as problem:
        pytest.skip(f"no small disk can be mounted here: {problem}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def test_a_full_disk_is_told_and_survived(small_disk: Path) -> None:
    place = Place(small_disk)
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 2_000_000)
    acknowledged: list[str] = []

    def submit(client: Client, submission: Submission) -> dict[str, Any]:
        record = {**submission.record, "context": "0 1 2 3 4 5 6 7 8 9 " * 1000}
        body = {"action": "submit_experience", "request_id": submission.word, "payload": record}
        status, answer = client.post("/actions", orjson.dumps(body))
        reply = orjson.loads(answer)
        if status == 200:
            acknowledged.append(reply["result"]["data"]["id"])
            return {}
        assert status == 503, reply
        return reply["result"]["error"]

    with Hub(place) as hub, Client(hub.ready().port) as client:
        refused = Submission.make(by_action=True)
        while not (error := submit(client, refused)) and len(acknowledged) < 1000:
            refused = Submission.make(by_action=True)
        assert error["code"] == "DATABASE_ERROR"
        assert "disk is full" in error["message"]
        assert len(acknowledged) > 10
        assert ids_in(place) == set(acknowledged)
        found = client.act("query_experiences", keywords="crash", limit=1)
        assert found["total"] == len(acknowledged), "reading stopped, too"

        ballast.unlink()
        assert submit(client, refused) == {}, "the same request, now that there is space"
        assert [submit(client, Submission.make(by_action=True)) for _ in range(5)] == [{}] * 5
        assert ids_in(place) == set(acknowledged)
        assert half_applied(place) == []
        hub.terminate()
