"""Kho dials an MCP endpoint and serves its tools there: against a real WebSocket server that plays the endpoint."""

import asyncio
import json
import logging
import shutil
import signal
import ssl
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.doors.doors import KHO, environment, kho
from tests.outside import moved, server
from tests.timeouts import PATIENCE
from websockets.asyncio.server import Server, ServerConnection, serve

from kho.app import open_hub
from kho.doors.mcp import dial_out
from kho.doors.mcp.dial_out import attach, place
from kho.kernel.errors import InvalidParams
from kho.kernel.toolset import select
from kho.settings import Settings

TOKEN = "eyJhbGciOiJFUzI1NiJ9.secret"


class Endpoint:
    """The other end: each connection of the hub in turn."""

    def __init__(self) -> None:
        self.visits = asyncio.Queue[ServerConnection]()
        self.over = asyncio.Event()
        self.paths: list[str] = []
        self.url = ""

    async def visited(self, socket: ServerConnection) -> None:
        assert socket.request is not None
        self.paths.append(socket.request.path)
        self.visits.put_nowait(socket)
        await asyncio.wait(
            [asyncio.ensure_future(socket.wait_closed()), over := asyncio.ensure_future(self.over.wait())],
            return_when=asyncio.FIRST_COMPLETED,
        )
        over.cancel()

    async def next(self) -> "Asked":
        async with asyncio.timeout(PATIENCE):
            return Asked(await self.visits.get())


class Asked:
    def __init__(self, socket: ServerConnection) -> None:
        self.socket = socket
        self._last = 0

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._last += 1
        await self.socket.send(json.dumps({"jsonrpc": "2.0", "id": self._last, "method": method, "params": params}))
        async with asyncio.timeout(PATIENCE):
            while (answer := json.loads(await self.socket.recv())).get("id") != self._last:
                pass
        return answer

    async def begin(self) -> dict[str, Any]:
        who = {"name": "xiaozhi", "version": "1"}
        answer = await self.ask("initialize", protocolVersion="2024-11-05", capabilities={}, clientInfo=who)
        await self.socket.send('{"jsonrpc":"2.0","method":"notifications/initialized"}')
        return answer


@asynccontextmanager
async def listening(endpoint: Endpoint, tls: ssl.SSLContext | None = None) -> AsyncGenerator[Server, None]:
    async with serve(endpoint.visited, "127.0.0.1", 0, ssl=tls) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        endpoint.url = f"{'wss' if tls else 'ws'}://127.0.0.1:{port}/mcp_endpoint/mcp/?token={TOKEN}"
        yield server


@asynccontextmanager
async def attached(
    home: Path, url: str, told: list[tuple[str, str]], *tools: str
) -> AsyncGenerator["asyncio.Task[None]", None]:
    def tell(what: str, text: str) -> None:
        told.append((what, text))

    settings = Settings(home=home)
    work = asyncio.ensure_future(
        attach(lambda: open_hub(settings), url, select(tools, ["memory"], list), 50, tell, first_pause=0.05)
    )
    try:
        yield work
    finally:
        work.cancel()
        await asyncio.wait({work})


async def test_a_devices_assistant_sees_and_calls_the_tools(tmp_path: Path) -> None:
    endpoint = Endpoint()
    async with listening(endpoint), attached(tmp_path, endpoint.url, []):
        other = await endpoint.next()
        first = await other.begin()
        assert first["result"]["protocolVersion"] == "2024-11-05"
        assert first["result"]["serverInfo"]["name"] == "kho"
        listed = await other.ask("tools/list")
        names = {tool["name"] for tool in listed["result"]["tools"]}
        assert "query_knowledge_base" in names
        await other.ask("tools/call", name="manage_collections", arguments={"action": "create", "collection_name": "c"})
        answer = await other.ask(
            "tools/call", name="query_knowledge_base", arguments={"query": "trà", "collections": ["c"]}
        )
        assert answer["result"]["isError"] is False
        wrong = await other.ask("tools/call", name="no_such_tool", arguments={})
        assert wrong["error"]["code"] == -32602
        assert (await other.ask("ping"))["result"] == {}
        await other.socket.send("this is no JSON")
        assert (await other.ask("ping"))["result"] == {}, "nonsense ends nothing"
        endpoint.over.set()


@pytest.mark.parametrize(
    ("before", "behind", "id"),
    [
        ('"jsonrpc":"2.0","id":7,"method":"tools/call",', "", 7),
        ('"method":"tools/call",', ',"jsonrpc":"2.0","id":"seven"', "seven"),
        ('"jsonrpc":"2.0","method":"tools/call",', "", None),
    ],
)
async def test_too_many_values_are_refused(tmp_path: Path, before: str, behind: str, id: int | str | None) -> None:
    """Under the id of the request, wherever its sender writes it: it would wait for ever otherwise."""
    endpoint = Endpoint()
    async with listening(endpoint), attached(tmp_path, endpoint.url, []):
        other = await endpoint.next()
        await other.begin()
        zeros = "[" + "0," * 150_000 + "0]"
        params = f'"params":{{"name":"memory_list","arguments":{{"id":5,"x":{zeros}}}}}'
        await other.socket.send(f"{{{before}{params}{behind}}}")
        async with asyncio.timeout(PATIENCE):
            answer = json.loads(await other.socket.recv())
        assert answer["id"] == id
        assert "more than 100,000 values" in answer["error"]["message"]
        assert (await other.ask("ping"))["result"] == {}
        endpoint.over.set()


async def test_only_some_tools_are_offered_if_one_says_so(tmp_path: Path) -> None:
    endpoint = Endpoint()
    async with listening(endpoint), attached(tmp_path, endpoint.url, [], "memory"):
        other = await endpoint.next()
        await other.begin()
        listed = await other.ask("tools/list")
        assert all(tool["name"].startswith("memory") for tool in listed["result"]["tools"])
        endpoint.over.set()


async def test_it_dials_again_after_a_drop_and_the_token_is_never_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    endpoint, told = Endpoint(), list[tuple[str, str]]()
    async with listening(endpoint), attached(tmp_path, endpoint.url, told):
        first = await endpoint.next()
        await first.begin()
        first.socket.transport.abort()
        second = await endpoint.next()
        await second.begin()
        assert (await second.ask("tools/list"))["result"]["tools"]
        endpoint.over.set()
    assert endpoint.paths == [f"/mcp_endpoint/mcp/?token={TOKEN}"] * 2
    assert [what for what, _ in told[:3]] == ["connected", "disconnected", "connected"]
    ours = [record.getMessage() for record in caplog.records if not record.name.startswith("websockets.server")]
    assert TOKEN not in json.dumps([told, ours])


async def test_nobody_answers_or_the_endpoint_refuses(tmp_path: Path) -> None:
    told = list[tuple[str, str]]()
    endpoint = Endpoint()
    async with serve(endpoint.visited, "127.0.0.1", 0, process_request=lambda _, request: _forbid(_)) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        async with attached(tmp_path, f"ws://127.0.0.1:{port}/mcp/?token={TOKEN}", told):
            async with asyncio.timeout(PATIENCE):
                while len(told) < 2:  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(0.01)
    assert all(what == "disconnected" and "403" in text and TOKEN not in text for what, text in told)
    assert "Next attempt in 0.05 s" in told[0][1]
    assert "Next attempt in 0.1 s" in told[1][1]


def _forbid(socket: ServerConnection) -> Any:
    return socket.respond(403, "no\n")


async def test_unknown_capabilities_are_refused_at_once(tmp_path: Path) -> None:
    done = await kho(tmp_path, "devices", "attach", "ws://127.0.0.1:9/", "--tools", "memory", "--tools", "nonsense")
    assert (done.status, done.out) == (1, "")
    assert "There is no toolset, capability or tool called nonsense." in done.err


@pytest.mark.parametrize("url", ["https://x/mcp", "127.0.0.1:80", "ws://", "ws://x:port/"])
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(InvalidParams, match="address"):
        place(url)


def test_an_address_is_told_without_what_is_secret() -> None:
    assert place("wss://user:pw@api.example.org:8004/mcp/?token=abc") == "wss://api.example.org:8004/mcp/"
    assert dial_out.LAST_PAUSE == 60


async def attached_and_interrupted(
    endpoint: Endpoint, environment: dict[str, str]
) -> tuple[asyncio.subprocess.Process, bytes, bytes]:
    """The real command: it is asked for its tools, and then ended. What it said."""
    process = await asyncio.create_subprocess_exec(
        KHO,
        *("devices", "attach", endpoint.url, "--tools", "memory"),
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    other = await endpoint.next()
    await other.begin()
    assert (await other.ask("tools/list"))["result"]["tools"]
    process.send_signal(signal.SIGINT)
    return process, *await process.communicate()


async def test_the_command_says_what_happens_and_ends_when_it_is_interrupted(tmp_path: Path) -> None:
    endpoint = Endpoint()
    async with listening(endpoint):
        process, out, errors = await attached_and_interrupted(endpoint, environment(tmp_path))
        assert process.returncode == 0
        assert out.decode() == f"Connected to {place(endpoint.url)}.\n"
        assert errors.decode() == "Stopped.\n"
        endpoint.over.set()


# -- over TLS ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of 127.0.0.1, signed by itself: the key and the certificate in one file."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed here")
    folder = tmp_path_factory.mktemp("tls")
    key, own, both = folder / "key.pem", folder / "own.pem", folder / "both.pem"
    asked = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=kho"
    named = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(own)]
    subprocess.run([openssl, *asked.split(), *named], check=True, capture_output=True)
    both.write_bytes(key.read_bytes() + own.read_bytes())
    return both


def tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


async def test_over_tls_it_serves_who_shows_a_certificate_that_is_trusted(tmp_path: Path, certificate: Path) -> None:
    endpoint = Endpoint()
    async with listening(endpoint, tls(certificate)):
        trusting = environment(tmp_path, {"SSL_CERT_FILE": str(certificate)})
        _, out, _ = await attached_and_interrupted(endpoint, trusting)
        assert out.decode() == f"Connected to {place(endpoint.url)}.\n"
        assert place(endpoint.url).startswith("wss://")
        endpoint.over.set()


async def test_over_tls_a_certificate_that_nobody_trusts_is_refused(tmp_path: Path, certificate: Path) -> None:
    endpoint, told = Endpoint(), list[tuple[str, str]]()
    async with listening(endpoint, tls(certificate)), attached(tmp_path, endpoint.url, told):
        async with asyncio.timeout(PATIENCE):
            while not told:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)
    what, text = told[0]
    assert what == "disconnected"
    assert "its certificate is not trusted here (self-signed certificate)" in text
    assert "SSL_CERT_FILE" in text
    assert TOKEN not in text
    assert endpoint.paths == [], "the token was not sent"


async def test_the_command_refuses_what_is_no_address(tmp_path: Path) -> None:
    done = await kho(tmp_path, "devices", "attach", "https://example.org/mcp")
    assert (done.status, done.out) == (1, "")
    assert done.err == "error: An MCP endpoint's address begins with ws:// or wss://.\n"


async def test_a_redirect_is_not_followed(tmp_path: Path) -> None:
    """The user named one address; another one is the other end's word."""
    endpoint, told, again = Endpoint(), list[tuple[str, str]](), asyncio.Event()
    paths: list[str] = []

    def elsewhere(path: str, host: str) -> bytes:
        paths.append(path)
        if len(paths) == 2:
            again.set()
        return moved(endpoint.url)

    async with listening(endpoint), server(elsewhere) as port, attached(tmp_path, f"ws://127.0.0.1:{port}/here", told):
        async with asyncio.timeout(PATIENCE):
            await again.wait()
    assert {*paths} == {"/here"}
    assert told[0][0] == "disconnected"
    assert "302" in told[0][1]
    assert endpoint.paths == []
