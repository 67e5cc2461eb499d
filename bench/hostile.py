"""How long others wait while one caller sends bodies that are meant to stop the hub, beside the same hub left alone.

    python -m bench.hostile [--seconds 5]

`GET /health` is asked every 10 ms. An answer that takes longer stands for all those who would have asked meanwhile: so
a hub that stands still for a second counts as 100 late answers, not as one. The bar: 99 of 100 within 250 ms.
"""

import argparse
import json
import math
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.doors import HANDSHAKE, HOST, MODERN, Case, free_port, read_answer, until_open

BAR = 250.0
EVERY = 10.0

ZEROS = "[" + "0," * 4_000_000 + "0]"
KEYS = "{" + ",".join(f'"k{n}":0' for n in range(600_000)) + "}"
LISTS = "[" + "[]," * 99_000 + "0]"
FEW_LISTS = "[" + "[]," * 49_000 + "0]"
"""These and the next two are just under the limit, and so are read."""
FEW_ZEROS = "[" + "0," * 99_000 + "0]"
FEW_KEYS = "{" + ",".join(f'"k{n}":0' for n in range(99_000)) + "}"
NAME = json.dumps("a, " * 2_600_000)
TEXT = json.dumps("Words, and more words; [x] " * 185_000)
"""5 MB, as a document may have."""


class Raw(Case):
    """A request whose body holds, in place of "?", what was prepared."""

    def __init__(self, name: str, path: str, body: dict[str, Any], held: str, headers: dict[str, str]) -> None:
        super().__init__(name, "kho", path, body, headers)
        self.held = held

    def request(self, port: int) -> bytes:
        head, _, template = super().request(port).partition(b"\r\n\r\n")
        body = template.replace(b'"?"', self.held.encode(), 1)
        length = b"content-length: %d" % len(template)
        return head.replace(length, b"content-length: %d" % len(body)) + b"\r\n\r\n" + body


def bodies() -> list[Raw]:
    def rpc(name: str, method: str, held: str, **params: Any) -> Raw:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or "?"}
        return Raw(f"{name}, /jsonrpc", "/jsonrpc", body, held, {})

    def tool(name: str, held: str, version: str) -> Raw:
        accept = {"accept": "application/json, text/event-stream", "mcp-protocol-version": version}
        named = {"mcp-method": "tools/call", "mcp-name": "memory_list"} if version == MODERN else {}
        meta: dict[str, Any] = {
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        params: dict[str, Any] = {"name": "memory_list", "arguments": {"x": "?"}} | ({"_meta": meta} if named else {})
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        return Raw(f"{name}, /mcp {version}", "/mcp", body, held, accept | named)

    many, query = "memory-server/memory/list", "experiences-server/query_experiences"
    action = {"action": "create_document", "payload": {"x": "?"}}
    return [
        rpc("4 M zeros", many, ZEROS, x="?"),
        Raw("4 M zeros, /actions", "/actions", action, ZEROS, {}),
        tool("4 M zeros", ZEROS, MODERN),
        tool("4 M zeros", ZEROS, HANDSHAKE),
        rpc("600,000 keys", many, KEYS),
        tool("600,000 keys", KEYS, MODERN),
        tool("600,000 keys", KEYS, HANDSHAKE),
        rpc("99,000 lists", many, LISTS, x="?"),
        tool("99,000 lists", LISTS, MODERN),
        rpc("49,000 lists", query, FEW_LISTS, query="x", ids="?"),
        tool("49,000 lists", FEW_LISTS, MODERN),
        rpc("99,000 unknown keys", many, FEW_KEYS),
        tool("99,000 keys", FEW_KEYS, MODERN),
        tool("99,000 keys", FEW_KEYS, HANDSHAKE),
        rpc("99,000 wrong ids", query, FEW_ZEROS, query="x", ids="?"),
        rpc("4 M zeros inside a text", query, json.dumps(ZEROS), query="x", ids="?"),
        rpc("a name of 8 MB", "research-server/rebuild_vectors", NAME, collection="?"),
        rpc("an unknown text of 5 MB", many, TEXT, x="?"),
    ]


def ask(port: int, request: bytes, again: Callable[[], bool], pause: float = 0.0) -> list[float]:
    """Milliseconds of each answer, one after the other."""
    taken, buffered = list[float](), bytearray()
    with socket.create_connection((HOST, port)) as stream:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while again():
            time.sleep(pause / 1000)
            started = time.perf_counter()
            stream.sendall(request)
            read_answer(stream, buffered)
            taken.append((time.perf_counter() - started) * 1000)
    return taken


def measure(port: int, seconds: float, request: bytes | None) -> tuple[list[float], list[float]]:
    """What health took while the request was sent again and again, and what that took."""
    end, asked = time.perf_counter() + seconds, list[float]()
    health = f"GET /health HTTP/1.1\r\nhost: {HOST}:{port}\r\n\r\n".encode()
    over = threading.Event()
    watcher = threading.Thread(target=lambda: asked.extend(ask(port, health, lambda: not over.is_set(), EVERY)))
    watcher.start()
    try:
        if request is None:
            time.sleep(seconds)
            return asked, []
        return asked, ask(port, request, lambda: time.perf_counter() < end)
    finally:
        over.set()
        watcher.join()


def everybody(taken: list[float]) -> list[float]:
    """The answers of those, too, who would have asked while one waited."""
    return [took - late * EVERY for took in taken for late in range(max(1, math.ceil(took / EVERY)))]


def at(taken: list[float], share: float) -> float:
    return sorted(taken)[min(len(taken) - 1, int(len(taken) * share))]


def resident(pid: int) -> int:
    """The most memory it ever had, in MB."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) // 1024 for line in status.splitlines() if line.startswith("VmHWM"))


def main(seconds: float) -> int:
    with tempfile.TemporaryDirectory() as home:
        port = free_port()
        command = [sys.executable, "-m", "bench.doors", "--serve", "kho", str(port)]
        process = subprocess.Popen(command, env=os.environ | {"KHO_HOME": home}, stderr=subprocess.DEVNULL)
        try:
            until_open(port, process)
            measure(port, 1, None)  # warm
            idle = everybody(measure(port, seconds, None)[0])
            base, worst = at(idle, 0.99), 0.0
            print(f"{'body':36} {'answer':>9} {'health p50':>11} {'p99':>7} {'max':>7} {'ratio':>6}  ms")
            print(f"{'none':36} {'':9} {at(idle, 0.5):11.1f} {base:7.1f} {max(idle):7.1f}")
            for body in bodies():
                asked, answered = measure(port, seconds, body.request(port))
                asked = everybody(asked)
                p99 = at(asked, 0.99)
                worst = max(worst, p99)
                took = f"{at(answered, 0.5):9.1f} {at(asked, 0.5):11.1f} {p99:7.1f} {max(asked):7.1f}"
                print(f"{body.name:36} {took} {p99 / base:6.1f}", flush=True)
            print(f"the worst p99: {worst:.0f} ms (bar {BAR:.0f}); the most memory: {resident(process.pid)} MB")
        finally:
            process.terminate()
            process.wait(15)
    return int(worst > BAR)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="for each body")
    raise SystemExit(main(parser.parse_args().seconds))
