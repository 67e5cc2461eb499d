"""How others fare while one caller does its worst, beside the same hub left alone a moment before.

    python -m bench.abuse [--only CASE …] [--seconds 10]

Each case has a hub of its own: `kho serve` on the loopback, with keys, on SQLite. For a few seconds it is left alone,
then a niced process (bench/abusers.py) goes at it. All the time `/health` is asked every 10 ms, and another tenant
reads and writes 50 times a second. An answer that takes longer stands for all those who would have asked meanwhile.

Aims: 99 of 100 answers of `/health` within 250 ms; the other tenant's p99 at most three times its own of the quiet
seconds; memory back where it was, and never far from it. A case whose abuser did too little to show anything is missed,
too. The exit status is 1 if a case misses one.
"""

import argparse
import base64
import json
import math
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
from bench.abusers import BOARD, CASES, LARGE_FILES, LEAST
from bench.doors import HOST, free_port, read_answer, until_open
from bench.hostile import at

HEALTH_BAR, RATIO_BAR, GROWTH_BAR, PEAK_BAR = 250.0, 3.0, 100, 350
"""Milliseconds, times, MB afterwards, and MB at the most: bodies that are held may have 256 (KHO_LIMITS__ALL_BODIES),
those of one tenant 64, and what takes a large file in has some copies of it."""
QUIET = 5.0
PATIENCE = 25.0
"""Seconds after which an answer is not waited for."""
KHO = [sys.executable, "-m", "kho"]


@dataclass
class Watch:
    """One who asks at a steady pace. Answers in milliseconds, in the order in which they came."""

    port: int
    every: float
    requests: Sequence[bytes]
    taken: list[float] = field(default_factory=list[float])
    refused: int = 0
    _over: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        number = 0
        while not self._over.is_set():
            try:
                with socket.create_connection((HOST, self.port), timeout=PATIENCE) as stream:
                    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    buffered = bytearray()
                    while not self._over.is_set():
                        number += 1
                        self._ask(stream, buffered, self.requests[number % len(self.requests)])
            except OSError:
                self.taken.append(PATIENCE * 1000)

    def _ask(self, stream: socket.socket, buffered: bytearray, request: bytes) -> None:
        begun = time.perf_counter()
        stream.sendall(request)
        answer = read_answer(stream, buffered)
        took = (time.perf_counter() - begun) * 1000
        self.taken.append(took)
        self.refused += b'"error"' in answer
        self._over.wait(max(0.0, self.every - took) / 1000)

    def stop(self) -> None:
        self._over.set()

    @property
    def p99(self) -> float:
        """With those who would have asked while one waited."""
        every = [
            took - late * self.every for took in self.taken for late in range(max(1, math.ceil(took / self.every)))
        ]
        return at(every, 0.99)


@dataclass(frozen=True)
class Figures:
    case: str
    calm: float
    """p99 of `/health` in the quiet seconds, in milliseconds."""
    health: float
    quiet: float
    other: float
    refused: int
    """Calls of the other tenant that were answered with an error."""
    before: int
    most: int
    after: int
    did: dict[str, int]
    """What the one who abused the hub counted."""
    needed: int
    """How often it must have done the worst that its case is about; less shows nothing."""

    @property
    def achieved(self) -> int:
        return sum(count for name, count in self.did.items() if not name.startswith("no answer"))

    @property
    def ratio(self) -> float:
        return self.other / self.quiet

    @property
    def missed(self) -> list[str]:
        bars = {
            "health": self.health > HEALTH_BAR,
            "the other tenant": self.ratio > RATIO_BAR or self.refused,
            "memory": self.after - self.before > GROWTH_BAR,
            "memory at the most": self.most - self.before > PEAK_BAR,
            "the abuser, who achieved nothing": self.achieved < self.needed,
        }
        return [name for name, over in bars.items() if over]


def resident(pid: int, name: str) -> int:
    """MB."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) // 1024 for line in status.splitlines() if line.startswith(name))


@dataclass(frozen=True)
class Hub:
    port: int
    pid: int
    abuser: str
    other: str
    """Keys of two tenants."""
    folder: Path

    def rpc(self, method: str, key: str, **params: Any) -> bytes:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        lines = (
            "POST /jsonrpc HTTP/1.1", f"Host: {HOST}:{self.port}", f"Authorization: Bearer {key}",
            "Content-Type: application/json", f"Content-Length: {len(body)}", "", "",
        )  # fmt: skip
        return "\r\n".join(lines).encode() + body

    def token(self) -> str:
        """A board of the first tenant is let in."""
        headers = {"device-id": BOARD, "client-id": f"client-of-{BOARD}"}
        with httpx2.Client(base_url=f"http://{HOST}:{self.port}", trust_env=False, timeout=PATIENCE) as http:
            code = http.post("/xiaozhi/ota/", json={}, headers=headers).json()["activation"]["code"]
            body = {"jsonrpc": "2.0", "id": 1, "method": "devices-server/device_approve", "params": {"code": code}}
            http.post("/jsonrpc", json=body, headers={"authorization": f"Bearer {self.abuser}"}).raise_for_status()
            return http.post("/xiaozhi/ota/", json={}, headers=headers).json()["websocket"]["token"]


@contextmanager
def serving() -> Generator[Hub]:
    with tempfile.TemporaryDirectory(prefix="kho-abuse-") as place:
        folder = Path(place) / "files"
        folder.mkdir()
        (folder / "a.md").write_text("# A file\n\nWith a line.\n")
        own = {name: value for name, value in os.environ.items() if not name.startswith("KHO_")}
        own |= {"KHO_HOME": str(Path(place) / "home"), "KHO_SEARCH__EMBEDDER__PROVIDER": "none"}
        own |= {"KHO_RESEARCH__SHARED_ROOTS": str(folder), "KHO_OBSERVE__LOG_LEVEL": "ERROR"}
        abuser, other = (_key(own, tenant) for tenant in ("abuser", "other"))
        port = free_port()
        process = subprocess.Popen(
            [*KHO, "serve", "--port", str(port)], env=own, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            until_open(port, process)
            yield Hub(port, process.pid, abuser, other, folder)
        finally:
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _key(own: dict[str, str], tenant: str) -> str:
    command = [*KHO, "keys", "create", tenant, "--tenant", tenant, "--scope", "*", "--scope", "admin", "--json"]
    done = subprocess.run(command, env=own, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["key"]


@contextmanager
def watched(hub: Hub) -> Generator[tuple[Watch, Watch]]:
    health = f"GET /health HTTP/1.1\r\nHost: {HOST}:{hub.port}\r\n\r\n".encode()
    calls = [
        hub.rpc("facts-server/list_facts", hub.other, limit=20),
        hub.rpc("memory-server/memory/search", hub.other, query="kettle"),
        hub.rpc("memory-server/memory/add_message", hub.other, conversation_id="c", role="user", content="A kettle."),
    ] * 16
    # Now and then a page, which a process of its own reads.
    page = {"filename": "kettle.html", "content": base64.b64encode(b"<p>A kettle.").decode(), "create": True}
    calls.append(hub.rpc("research-server/upload_document", hub.other, collection="other", **page))
    watches = Watch(hub.port, 10.0, [health]), Watch(hub.port, 20.0, calls)
    threads = [threading.Thread(target=watch.run, daemon=True) for watch in watches]
    for thread in threads:
        thread.start()
    try:
        yield watches
    finally:
        for watch in watches:
            watch.stop()
        for thread in threads:
            thread.join(PATIENCE)


def measure(case: str, seconds: float) -> Figures:
    with serving() as hub:
        more = hub.token() if case == "board" else str(hub.folder)
        for name, content in LARGE_FILES.items() if case == "large" else ():
            (hub.folder / name).write_bytes(content())
        with watched(hub):
            time.sleep(1)  # warm
        with watched(hub) as (calm, quiet):
            time.sleep(QUIET)
        before = resident(hub.pid, "VmRSS")
        command = [sys.executable, "-m", "bench.abusers", case, str(hub.port), str(seconds), hub.abuser, more]
        with watched(hub) as (health, other):
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            try:
                told, _ = process.communicate(timeout=2 * seconds + PATIENCE)
            finally:
                process.kill()
                process.wait()
        time.sleep(2)
        after, most = resident(hub.pid, "VmRSS"), resident(hub.pid, "VmHWM")
        did: dict[str, int] = json.loads(told.splitlines()[-1])
        paces = calm.p99, health.p99, quiet.p99, other.p99
        return Figures(case, *paces, other.refused, before, most, after, did, LEAST.get(case, 1))


def main(cases: Sequence[str], seconds: float) -> int:
    columns = ("quiet", "health p99", "quiet", "other p99", "ratio", "MB before", "most", "after")
    print(f"{'case':8} " + " ".join(f"{name:>10}" for name in columns))
    missed = 0
    for case in cases:
        one = measure(case, seconds)
        figures = (one.calm, one.health, one.quiet, one.other, one.ratio, one.before, one.most, one.after)
        row = " ".join(
            f"{figure:10.1f}" if name == "ratio" else f"{figure:10.0f}"
            for name, figure in zip(columns, figures, strict=True)
        )
        print(f"{case:8} {row}", *([f" over: {', '.join(one.missed)}"] if one.missed else ()))
        refused = f"; the other was refused {one.refused} times" if one.refused else ""
        print(f"{'':8} what it did: {one.did}{refused}", flush=True)
        missed += bool(one.missed)
    return int(missed > 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=[*CASES], default=[*CASES], help="these cases")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each case's abuse")
    chosen = parser.parse_args()
    raise SystemExit(main(chosen.only, chosen.seconds))
