"""Many boards on one hub: virtual ones over real WebSockets, idle, and then each called once.

    python -m bench.devices [--count 2000] [--callers 32] [--json]

Three processes: the hub (`kho serve` on SQLite), the boards (`kho devices simulate`), and this one, which calls. A task
in the hub's event loop asks to be woken every few milliseconds; how much too late it is woken is how long the hub keeps
anybody waiting. Where other programs want the cores, too, that is not all of the hub's making: what counts is the time
in which the hub itself, any thread of it, was at work.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson
from bench.doors import HOST, cpu_seconds, free_port, until_open
from bench.memory import Connection
from bench.ratios import Ratio, against_loop

BAR_MS = 100.0
TICK = 0.005
PATIENCE = 300.0
PROBE = "/bench/late"
ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Figures:
    boards: int
    connect_s: float
    """From the start of the boards' process until all have said what they can do."""
    kb_per_board: float
    """What the hub's memory grew by."""
    kb_at_rest: float
    """The hub's memory before the first board came."""
    connect_cpu_ms: float
    """The hub's, for one board: bootstrap, connection, tools."""
    calls_per_s: float
    call_cpu_ms: float
    blocked_connecting_ms: float
    """By the hub's own work."""
    blocked_calling_ms: float
    late_connecting_ms: float
    """By that, and by waiting for a core."""
    late_calling_ms: float
    answered: int


class Probe:
    """How long the event loop did not come round at most, and how long because the hub was at work."""

    def __init__(self, app: Callable[..., Awaitable[None]]) -> None:
        self._app = app
        self._late = self._blocked = 0.0
        self._task: asyncio.Task[None] | None = None

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        self._task = self._task or asyncio.create_task(self._watch())
        if scope["type"] == "http" and scope["path"] == PROBE:
            body = orjson.dumps({"late": self._late, "blocked": self._blocked})
            self._late = self._blocked = 0.0
            headers = [(b"content-length", str(len(body)).encode())]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": body})
        else:
            await self._app(scope, receive, send)

    async def _watch(self) -> None:
        while True:
            wall, cpu = time.perf_counter(), time.process_time()
            await asyncio.sleep(TICK)
            late = time.perf_counter() - wall - TICK
            self._late = max(self._late, late)
            self._blocked = max(self._blocked, min(late, time.process_time() - cpu))


def serve(port: int) -> None:
    import kho.app
    from kho.__main__ import main as kho_main

    kho.app.__dict__["asgi"] = Probe(kho.app.asgi)
    sys.argv = ["kho", "serve", "--port", str(port)]
    kho_main()


class Boards:
    """The process of the boards, and what it says of them."""

    def __init__(self, count: int, port: int, environment: dict[str, str]) -> None:
        command = [sys.executable, "-m", "kho", "devices", "simulate", "--count", str(count), "--json"]
        self.process = subprocess.Popen(
            [*command, "--url", f"ws://{HOST}:{port}/xiaozhi/v1/"], stdout=subprocess.PIPE, env=environment
        )
        self.all_connected = threading.Event()
        self.cut_off = 0
        self._count = count
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        connected: set[str] = set()
        for line in self.process.stdout:
            said = orjson.loads(line)
            if said["what"] == "connected":
                connected.add(said["device"])
                if len(connected) == self._count:
                    self.all_connected.set()
            elif said["what"] == "disconnected":
                self.cut_off += 1

    def stop(self) -> None:
        self.process.kill()
        self.process.wait(20)
        self._reading.join(20)


async def probed(port: int) -> tuple[float, float]:
    """How late and how blocked the loop was at most since this was last asked, in milliseconds."""
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(f"GET {PROBE} HTTP/1.1\r\nhost: {HOST}\r\nconnection: close\r\n\r\n".encode())
    found = orjson.loads((await reader.read()).partition(b"\r\n\r\n")[2])
    writer.close()
    return 1000 * found["late"], 1000 * found["blocked"]


async def all_ready(port: int, count: int) -> list[str]:
    """The boards' ids, once all are connected and have said what they can do."""
    connection = Connection(*await asyncio.open_connection(HOST, port))
    while True:
        devices: list[dict[str, Any]] = []
        cursor: dict[str, str] = {}
        while True:
            page = (await connection.call("devices-server/devices_list", limit=200, **cursor))["result"]
            devices += [one for one in page["devices"] if one["status"] == "connected" and one.get("tools")]
            if not page.get("next_cursor"):
                break
            cursor = {"cursor": page["next_cursor"]}
        if len(devices) == count:
            connection.close()
            return [one["device"] for one in devices]
        await asyncio.sleep(0.25)


async def call_all(port: int, ids: list[str], callers: int) -> tuple[float, int]:
    """How long it took to call each board once, and how many answered."""
    connections = [Connection(*await asyncio.open_connection(HOST, port)) for _ in range(callers)]
    left = list(reversed(ids))

    async def caller(connection: Connection) -> int:
        answered = 0
        while left:
            asked = {"device": left.pop(), "tool": "self.audio_speaker.set_volume", "arguments": {"volume": 37}}
            answer = await connection.call("devices-server/device_call", **asked)
            answered += answer.get("result", {}).get("text") == "true"
        return answered

    started = time.perf_counter()
    answered = sum(await asyncio.gather(*(caller(one) for one in connections)))
    took = time.perf_counter() - started
    for connection in connections:
        connection.close()
    return took, answered


def memory_kb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1024


async def run(count: int, callers: int, port: int, hub: int, environment: dict[str, str]) -> Figures:
    await all_ready(port, 0)
    await probed(port)
    memory, cpu, started = memory_kb(hub), cpu_seconds(hub), time.perf_counter()
    boards = Boards(count, port, environment)
    try:
        if not await asyncio.to_thread(boards.all_connected.wait, PATIENCE):
            raise SystemExit(f"not all boards were connected within {PATIENCE:.0f} s")
        async with asyncio.timeout(PATIENCE):
            ids = await all_ready(port, count)
        connect, connect_cpu = time.perf_counter() - started, cpu_seconds(hub) - cpu
        connecting = await probed(port)
        await asyncio.sleep(2)
        grown = memory_kb(hub) - memory
        await probed(port)
        cpu = cpu_seconds(hub)
        took, answered = await call_all(port, ids, callers)
        cpu = cpu_seconds(hub) - cpu
        calling = await probed(port)
        if boards.cut_off:
            print(f"{boards.cut_off} times a board was cut off", file=sys.stderr)
    finally:
        boards.stop()
    return Figures(
        boards=count,
        connect_s=connect,
        kb_per_board=grown / count,
        kb_at_rest=memory,
        connect_cpu_ms=1000 * connect_cpu / count,
        calls_per_s=count / took,
        call_cpu_ms=1000 * cpu / count,
        blocked_connecting_ms=connecting[1],
        blocked_calling_ms=calling[1],
        late_connecting_ms=connecting[0],
        late_calling_ms=calling[0],
        answered=answered,
    )


def measure(count: int, callers: int) -> Figures:
    with tempfile.TemporaryDirectory(prefix="kho-bench-") as home:
        port = free_port()
        own = {name: value for name, value in os.environ.items() if not name.startswith("KHO_")}
        own |= {"KHO_SEARCH__EMBEDDER__PROVIDER": "none", "KHO_OBSERVE__LOG_LEVEL": "WARNING"}
        environment = {**own, "PYTHONPATH": str(ROOT), "KHO_HOME": home}
        server = subprocess.Popen(
            [sys.executable, "-m", "bench.devices", "--serve", str(port)], cwd=ROOT, env=environment
        )
        try:
            until_open(port, server)
            return asyncio.run(run(count, callers, port, server.pid, environment))
        finally:
            server.terminate()
            server.wait(60)


def short() -> dict[str, Ratio]:
    found = measure(200, 1)  # one caller: how many share a commit depends on who else wants the cores
    assert found.answered == found.boards, f"{found.answered} of {found.boards} boards answered"
    cpu = {"a board connects": found.connect_cpu_ms / 1e3, "a call": found.call_cpu_ms / 1e3}
    memory = Ratio(found.kb_per_board, found.kb_at_rest)
    return {**against_loop(cpu), "memory: a board / the hub at rest": memory}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2_000)
    parser.add_argument("--callers", type=int, default=32)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return 0
    found = measure(options.count, options.callers)
    if options.json:
        print(json.dumps(asdict(found)))
    else:
        show(found, options.callers)
    return 0 if found.answered == found.boards else 1


def show(found: Figures, callers: int) -> None:
    print(f"{found.boards:,} boards connected in {found.connect_s:.1f} s, {found.connect_cpu_ms:.1f} ms CPU each")
    print(f"an idle board costs {found.kb_per_board:.0f} KB of memory")
    print(
        f"{found.answered:,} of {found.boards:,} calls answered, {callers} callers: "
        f"{found.calls_per_s:,.0f} calls/s, {found.call_cpu_ms:.2f} ms CPU each"
    )
    for when, blocked, late in (
        ("connecting", found.blocked_connecting_ms, found.late_connecting_ms),
        ("calling", found.blocked_calling_ms, found.late_calling_ms),
    ):
        kept = "kept" if blocked <= BAR_MS else "NOT KEPT"
        print(f"event loop blocked while {when}: {blocked:.0f} ms, bar {BAR_MS:.0f}: {kept} ({late:.0f} ms late)")


if __name__ == "__main__":
    raise SystemExit(main())
