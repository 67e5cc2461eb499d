"""Conversation memory over HTTP: add_message and get_context, one after the other, durable.

    python -m bench.memory [--seconds 8] [--clients 1,32] [--json]

A real server process on SQLite; each client has a conversation and a kept-alive connection of its own. The same again
with fsync off (which only this bench can do) gives the ratio; a call that finds no method gives what the framework
alone costs.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import orjson
from bench.doors import HOST, cpu_seconds, free_port, until_open
from bench.ratios import Ratio, against_loop

BAR = 0.8


@dataclass(frozen=True, slots=True)
class Figure:
    clients: int
    fsync: bool
    round_trips: float
    """Per second: an add_message and a get_context."""
    cpu_us: float
    """Of the server, for both."""


def serve(port: int, durable: bool) -> None:
    import uvicorn

    from kho.storage.sqlite.database import Sqlite

    if not durable:
        Sqlite.open = partial(Sqlite.open, durable=False)
    uvicorn.run("kho.app:asgi", host=HOST, port=port, log_config=None, access_log=False)


class Connection:
    """HTTP with as little of its own as will do: the client must not be what is measured."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def call(self, method: str, **params: Any) -> Any:
        body = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        head = f"POST /jsonrpc HTTP/1.1\r\nhost: {HOST}\r\ncontent-type: application/json\r\n"
        self._writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        length = next(int(line[15:]) for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        return orjson.loads(await self._reader.readexactly(length))

    def close(self) -> None:
        self._writer.close()


async def load(
    port: int, clients: int, seconds: float, pid: int, *, nothing: bool = False, most: int | None = None
) -> tuple[float, float]:
    """Round trips per second, and the server's CPU for one in microseconds. `most` are those of one client."""
    connections = [Connection(*await asyncio.open_connection(HOST, port)) for _ in range(clients)]
    until = 0.0

    async def talk(number: int, connection: Connection) -> int:
        chat = f"chat-{number}"
        await connection.call("memory-server/memory/get_or_create", conversation_id=chat)
        done = 0
        while time.perf_counter() < until and done != most:
            if nothing:
                await connection.call("memory-server/nothing", conversation_id=chat)
                await connection.call("memory-server/nothing", conversation_id=chat)
            else:
                said = f"Câu hỏi {done}: răng số {done % 32} bị ê buốt khi uống nước lạnh, nên làm gì?"
                added = await connection.call(
                    "memory-server/memory/add_message", conversation_id=chat, role="user", content=said
                )
                assert added["result"]["status"] == "success"
                found = await connection.call("memory-server/memory/get_context", conversation_id=chat)
                assert found["result"]["messages"][-1]["content"] == said
            done += 1
        return done

    for span in (min(1.0, seconds), seconds):  # the first is to warm up
        until = time.perf_counter() + span
        cpu = cpu_seconds(pid)
        done = sum(await asyncio.gather(*(talk(n, one) for n, one in enumerate(connections))))
        cpu = cpu_seconds(pid) - cpu
    for connection in connections:
        connection.close()
    return done / seconds, 1e6 * cpu / max(done, 1)


def measure(clients: list[int], seconds: float, durable: bool, most: int | None = None) -> tuple[list[Figure], float]:
    with tempfile.TemporaryDirectory(prefix="kho-bench-") as home:
        port = free_port()
        command = [sys.executable, "-m", "bench.memory", "--serve", str(port), *([] if durable else ["--no-fsync"])]
        environment = {"KHO_HOME": home, "KHO_SEARCH__EMBEDDER__PROVIDER": "none", "KHO_OBSERVE__LOG_LEVEL": "WARNING"}
        root = Path(__file__).resolve().parent.parent
        server = subprocess.Popen(command, cwd=root, env={"PATH": "", "PYTHONPATH": str(root), **environment})
        try:
            until_open(port, server)
            figures = [
                Figure(number, durable, *asyncio.run(load(port, number, seconds, server.pid, most=most)))
                for number in clients
            ]
            _, floor = asyncio.run(load(port, 1, min(2.0, seconds), server.pid, nothing=True))
            return figures, floor
        finally:
            server.terminate()
            server.wait(20)


def short() -> dict[str, Ratio]:
    """A fixed number of round trips, because one costs more the longer its conversation is."""
    (found,), _ = measure([8], 60.0, durable=True, most=40)
    return against_loop({"a round trip": found.cpu_us / 1e6})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--clients", default="1,32")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--no-fsync", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, not options.no_fsync)
        return 0
    clients = [int(number) for number in options.clients.split(",")]
    durable, floor = measure(clients, options.seconds, durable=True)
    careless, _ = measure(clients, options.seconds, durable=False)
    ratios = {one.clients: one.round_trips / other.round_trips for one, other in zip(durable, careless, strict=True)}
    if options.json:
        figures = [asdict(one) for one in (*durable, *careless)]
        print(json.dumps({"figures": figures, "floor_us": floor, "ratios": ratios}))
    else:
        print(f"{'clients':>8} {'round trips/s':>14} {'CPU µs':>8} {'not framework':>14} {'fsync on/off':>13}")
        for one in durable:
            share, ratio = 1 - floor / one.cpu_us, ratios[one.clients]
            print(f"{one.clients:8} {one.round_trips:14,.0f} {one.cpu_us:8,.0f} {share:14.0%} {ratio:13.2f}")
        ratio = ratios[max(clients)]
        kept = "kept" if ratio >= BAR else "NOT KEPT"
        print(f"fsync on/off at {max(clients)} clients: {ratio:.2f}, bar {BAR}: {kept}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
