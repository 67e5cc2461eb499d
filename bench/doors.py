"""What a call costs at each door, beside a bare Starlette route and a bare SDK server in the same run.

    python -m bench.doors [--calls 1500] [--rounds 5]

Every server is a process of its own; its CPU time is read from the system before and after a round. The rounds of the
servers are interleaved, and the best round of each counts, so that a busy machine disturbs all of them alike.
"""

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bench.ratios import Ratio

HOST = "127.0.0.1"
MODERN, HANDSHAKE = "2026-07-28", "2025-11-25"


# --- the servers, each started as `python -m bench.doors --serve NAME PORT` -----------------------------------------


def bare_route() -> Any:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def add(request: Request) -> JSONResponse:
        params = (await request.json())["params"]
        return JSONResponse({"sum": params["a"] + params["b"]})

    return Starlette(routes=[Route("/add", add, methods=["POST"])])


def bare_sdk_server() -> Any:
    import mcp_types as types
    from mcp.server import Server

    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    }

    async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name="add", input_schema=schema)])

    async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        arguments = params.arguments or {}
        result = {"sum": arguments["a"] + arguments["b"]}
        content = types.TextContent(type="text", text=json.dumps(result))
        return types.CallToolResult(content=[content], structured_content=result)

    return Server("bare", on_list_tools=list_tools, on_call_tool=call_tool)


def kho_application() -> Any:
    from pydantic import BaseModel

    from kho.app import open_hub
    from kho.doors import logs
    from kho.doors.http.app import Application
    from kho.kernel.call import Call
    from kho.kernel.capability import Capability
    from kho.kernel.operation import Operation
    from kho.settings import Settings

    class Add(BaseModel):
        a: int
        b: int

    class Sum(BaseModel):
        sum: int

    async def add(params: Add, call: Call) -> Sum:
        return Sum(sum=params.a + params.b)

    operation = Operation(
        name="bench.add",
        summary="Adds.",
        params=Add,
        result=Sum,
        run=add,
        scope="bench",
        tool="add",
        rpc="add",
        action="add",
    )
    settings = Settings()
    logs.set_up("INFO", "json")
    extra = (Capability("bench", "bench-server", (operation,)),)
    return Application(lambda: open_hub(settings, extra), settings.http, settings.mcp)


def serve(name: str, port: int) -> None:
    if name == "bare-stdio":
        asyncio.run(serve_bare_stdio())
        return

    import uvicorn

    from kho.doors.http.uvicorn_protocols import GuardedProtocol

    options: dict[str, Any] = {"http": "httptools"}
    if name == "route":
        app = bare_route()
    elif name == "sdk":
        app = bare_sdk_server().streamable_http_app(stateless_http=True)
    else:
        app, options = kho_application(), {"http": GuardedProtocol}
    uvicorn.run(app, host=HOST, port=port, loop="uvloop", access_log=False, log_config=None, **options)


async def serve_bare_stdio() -> None:
    from mcp.server.stdio import stdio_server

    server = bare_sdk_server()
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


# --- the client -----------------------------------------------------------------------------------------------------


@dataclass
class Case:
    name: str
    server: str
    path: str
    body: dict[str, Any]
    headers: dict[str, str]
    best: float = float("inf")
    """CPU microseconds of the server per call."""
    rate: float = 0.0

    def request(self, port: int) -> bytes:
        body = json.dumps(self.body).encode()
        head = {
            "host": f"{HOST}:{port}",
            "content-type": "application/json",
            "content-length": str(len(body)),
        } | self.headers
        lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
        return f"POST {self.path} HTTP/1.1\r\n{lines}\r\n".encode() + body


def cases() -> list[Case]:
    arguments = {"a": 1, "b": 2}
    call = {"name": "add", "arguments": arguments}
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    }
    accept = {"accept": "application/json, text/event-stream"}
    modern = accept | {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "add"}
    handshake = accept | {"mcp-protocol-version": HANDSHAKE}
    new = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call | {"_meta": meta}}
    old = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    rpc = {"jsonrpc": "2.0", "id": 1, "method": "bench-server/add", "params": arguments}
    action = {"action": "add", "request_id": "bench", "payload": arguments}
    return [
        Case("bare Starlette route", "route", "/add", rpc, {}),
        Case("kho /jsonrpc", "kho", "/jsonrpc", rpc, {}),
        Case("kho /actions", "kho", "/actions", action, {}),
        Case("bare SDK 2026-07-28", "sdk", "/mcp", new, modern),
        Case("kho /mcp 2026-07-28", "kho", "/mcp", new, modern),
        Case("bare SDK 2025-11-25", "sdk", "/mcp", old, handshake),
        Case("kho /mcp 2025-11-25", "kho", "/mcp", old, handshake),
    ]


def read_answer(stream: socket.SocketType, buffered: bytearray) -> bytes:
    """One HTTP answer off a kept-alive connection, with a length or in chunks."""
    while (end := buffered.find(b"\r\n\r\n")) < 0:
        buffered += stream.recv(65536)
    head = bytes(buffered[:end]).lower()
    del buffered[: end + 4]
    if b"transfer-encoding: chunked" in head:
        body = b""
        while True:
            while (line := buffered.find(b"\r\n")) < 0:
                buffered += stream.recv(65536)
            size = int(bytes(buffered[:line]), 16)
            while len(buffered) < line + 2 + size + 2:
                buffered += stream.recv(65536)
            body += bytes(buffered[line + 2 : line + 2 + size])
            del buffered[: line + 2 + size + 2]
            if size == 0:
                return body
    length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
    while len(buffered) < length:
        buffered += stream.recv(65536)
    body = bytes(buffered[:length])
    del buffered[:length]
    return body


def cpu_seconds(pid: int) -> float:
    """Of a running process, over all its threads. From the process's own clock, which Linux numbers like this: the
    counts in /proc are in steps of 10 ms, which is the CPU time of some forty calls."""
    return time.clock_gettime(~pid << 3 | 2)


def measure(case: Case, port: int, pid: int, calls: int) -> None:
    request, buffered = case.request(port), bytearray()
    with socket.create_connection((HOST, port)) as stream:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(20):  # warm
            stream.sendall(request)
            answer = read_answer(stream, buffered)
            assert b"3" in answer, answer
        before, started = cpu_seconds(pid), time.perf_counter()
        for _ in range(calls):
            stream.sendall(request)
            read_answer(stream, buffered)
        took, used = time.perf_counter() - started, cpu_seconds(pid) - before
    case.best = min(case.best, used / calls * 1e6)
    case.rate = max(case.rate, calls / took)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]


@contextmanager
def running(home: str) -> Generator[dict[str, tuple[int, int]], None, None]:
    """The servers, by name: (port, process id)."""
    processes: dict[str, tuple[int, subprocess.Popen[bytes]]] = {}
    environment = os.environ | {"KHO_HOME": home}
    for name in ("route", "sdk", "kho"):
        port = free_port()
        command = [sys.executable, "-m", "bench.doors", "--serve", name, str(port)]
        processes[name] = (port, subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL))
    try:
        for port, process in processes.values():
            until_open(port, process)
        yield {name: (port, process.pid) for name, (port, process) in processes.items()}
    finally:
        for _, process in processes.values():
            process.terminate()
            process.wait(15)


def until_open(port: int, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection((HOST, port)).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise SystemExit("a server did not start")


BARS = {
    "kho /jsonrpc": ("bare Starlette route", 2.0),
    "kho /actions": ("bare Starlette route", None),
    "kho /mcp 2026-07-28": ("bare SDK 2026-07-28", 1.25),
    "kho /mcp 2025-11-25": ("bare SDK 2025-11-25", 1.25),
}


def measured(calls: int, rounds: int) -> dict[str, Case]:
    table = cases()
    with tempfile.TemporaryDirectory() as home, running(home) as servers:
        for _ in range(rounds):
            for case in table:
                measure(case, *servers[case.server], calls)
    return {case.name: case for case in table}


def short() -> dict[str, Ratio]:
    found = measured(calls=200, rounds=3)
    return {f"{name} / {base}: CPU": Ratio(found[name].best, found[base].best) for name, (base, _) in BARS.items()}


def main(calls: int, rounds: int) -> None:
    found = measured(calls, rounds)
    print(f"{'door':24} {'calls/s':>8} {'CPU us/call':>12} {'ratio':>6}  bar")
    for case in found.values():
        base, bar = BARS.get(case.name, (case.name, None))
        ratio = case.best / found[base].best
        print(f"{case.name:24} {case.rate:8.0f} {case.best:12.0f} {ratio:6.2f}  {bar or ''}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=1500)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--serve", nargs=2, metavar=("NAME", "PORT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve[0], int(options.serve[1]))
    else:
        main(options.calls, options.rounds)
