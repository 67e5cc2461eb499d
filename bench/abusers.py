"""What `bench.abuse` measures a hub under: each of these is a process of its own, niced, that ends by itself.

    python -m bench.abusers CASE PORT SECONDS KEY [TOKEN or FOLDER]

The last line that it prints is JSON: what it sent, and how often it was refused.
"""

import asyncio
import base64
import inspect
import json
import os
import re
import resource
import select
import socket
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from bench.doors import HOST, read_answer
from bench.hostile import FEW_KEYS, FEW_LISTS, FEW_ZEROS, KEYS, LISTS, ZEROS, Raw, bodies
from tests.parsers.samples import pdf
from websockets.sync.client import connect

from kho.simulator.board import Board, Say

BOARD = "02:00:00:00:00:01"
LORIS, STREAMS, RATE = 1_000, 4_000, 1_000
"""Connections, streams, and requests in a second: ten times what a key is allowed by default."""
FRAMES = 20_000
"""In a second."""
MB = 1024 * 1024
BODY = 200 * MB
HALVES = 100
"""Connections with a body that does not end."""
LARGE_FILES: dict[str, Callable[[], bytes]] = {
    "brackets.json": lambda: b"[" * (47 * MB),
    "cells.ipynb": lambda: b'{"cells":[' + b"[]," * (16 * MB) + b"[]]}",
    "line.txt": lambda: b"word " * (48 * MB // 5),
}
"""Files just under the limit, which once grew eighty times."""
AT_ONCE = 100
"""Connections that are opened together."""

Counts = Counter[str]


@dataclass(frozen=True)
class Aim:
    port: int
    end: float
    """On the monotonic clock."""
    key: str
    more: str
    """A board's token, or a folder that the hub may read."""

    @property
    def left(self) -> float:
        return max(0.0, self.end - time.monotonic())

    def head(self, method: str, path: str, *lines: str) -> bytes:
        always = (f"{method} {path} HTTP/1.1", f"Host: {HOST}:{self.port}", f"Authorization: Bearer {self.key}")
        return "\r\n".join([*always, *lines, "", ""]).encode()

    def post(self, path: str, body: bytes) -> bytes:
        return self.head("POST", path, "Content-Type: application/json", f"Content-Length: {len(body)}") + body

    def rpc(self, method: str, **params: object) -> bytes:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return self.post("/jsonrpc", json.dumps(body).encode())


# -- connections that are held -----------------------------------------------------------------------------------------


async def slow_loris(aim: Aim, found: Counts) -> None:
    """A byte of a head now and then, on each of a thousand connections."""

    async def dribble() -> None:
        reader, writer = await asyncio.open_connection(HOST, aim.port)
        found["connections"] += 1
        ended = asyncio.ensure_future(reader.read())
        try:
            writer.write(f"GET /health HTTP/1.1\r\nHost: {HOST}\r\nX-Slow: ".encode())
            while aim.left and not ended.done():
                writer.write(b"x")
                await asyncio.wait([ended], timeout=1)
            found["closed by the hub"] += ended.done()
        finally:
            ended.cancel()
            writer.close()

    await _many(aim, LORIS, dribble)


async def many_streams(aim: Aim, found: Counts) -> None:
    """Event streams of one key."""
    paths = ("/mcp", "/devices/events")
    numbers = iter(range(STREAMS))

    async def listen() -> None:
        accept = ("Accept: application/json, text/event-stream", "MCP-Protocol-Version: 2025-11-25")
        reader, writer = await asyncio.open_connection(HOST, aim.port)
        try:
            writer.write(aim.head("GET", paths[next(numbers) % 2], *accept))
            found[f"answered {(await reader.readline()).split()[1].decode()}"] += 1
            while aim.left and await asyncio.wait_for(reader.read(4096), aim.left):
                pass
        finally:
            writer.close()

    await _many(aim, STREAMS, listen)


async def _many(aim: Aim, count: int, act: Callable[[], Awaitable[None]]) -> None:
    async def one() -> None:
        with suppress(OSError, TimeoutError, IndexError):
            async with asyncio.timeout(aim.left):
                await act()

    waiting: list[asyncio.Task[None]] = []
    for _ in range(0, count, AT_ONCE):
        waiting += [asyncio.create_task(one()) for _ in range(AT_ONCE)]
        await asyncio.sleep(0.02)
    await asyncio.gather(*waiting)


# -- bodies and files --------------------------------------------------------------------------------------------------


def large_bodies(aim: Aim, found: Counts) -> None:
    """200 MB, with a length and in chunks."""
    part = b"x" * MB
    kind = "Content-Type: application/json"
    while aim.left:
        for chunked in (False, True):
            length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {BODY}"
            piece = b"%x\r\n%b\r\n" % (len(part), part) if chunked else part
            with socket.create_connection((HOST, aim.port), timeout=10) as stream, suppress(OSError):
                stream.sendall(aim.head("POST", "/jsonrpc", kind, length))
                for _ in range(BODY // len(part)):
                    if not aim.left:
                        break
                    stream.sendall(piece)
                    found["MB sent"] += 1
                found[f"answered {stream.recv(4096).split()[1].decode()}"] += 1
            found["bodies"] += 1


async def half_bodies(aim: Aim, found: Counts) -> None:
    """Bodies that stop two bytes before their end: of a key, and photos without a token."""
    size = 8 * MB
    photo = ("Content-Type: multipart/form-data; boundary=x", f"Content-Length: {5 * MB}")
    heads = (
        (aim.head("POST", "/jsonrpc", "Content-Type: application/json", f"Content-Length: {size}"), size),
        (aim.head("POST", "/vision/explain", *photo), 5 * MB),
    )
    numbers = iter(range(HALVES))

    async def hold() -> None:
        head, length = heads[next(numbers) % 2]
        reader, writer = await asyncio.open_connection(HOST, aim.port)
        found["connections"] += 1
        try:
            writer.write(head + b" " * (length - 2))
            status = (await asyncio.wait_for(reader.readline(), aim.left)).split()
            found[f"answered {status[1].decode()}"] += 1
        finally:
            writer.close()

    await _many(aim, HALVES, hold)


def accepted_bodies(aim: Aim, found: Counts) -> None:
    """The same with few enough values to be accepted, one after the other."""
    meant = [one for one in bodies() if one.held in (FEW_ZEROS, FEW_KEYS, FEW_LISTS)]
    _in_turn(aim, found, _with_key(aim, meant))


def large_files(aim: Aim, found: Counts) -> None:
    """Files of nearly 50 MB in a folder that may be read, again and again."""
    request = aim.rpc(
        "research-server/ingest_documents", path=aim.more, collection="large", patterns=[*LARGE_FILES], create=True,
        force=True, wait=600,
    )  # fmt: skip
    _in_turn(aim, found, [request])


def slow_files(aim: Aim, found: Counts) -> None:
    """PDFs that take their reader as long as they may, eight at a time."""
    slow = pdf(["x"], extra=b"BT /F 12 Tf 14 TL 50 750 Td\n" + b"<0001> Tj T*\n" * 350_000 + b"ET\n")
    streams: list[socket.socket] = []
    while aim.left:
        for number in range(8):
            content = base64.b64encode(slow + b"\n%%%d" % number).decode()
            stream = socket.create_connection((HOST, aim.port), timeout=10)
            streams.append(stream)
            with suppress(OSError):
                stream.sendall(
                    aim.rpc(
                        "research-server/upload_document", filename=f"{number}.pdf", content=content, create=True,
                        collection="slow",
                    )
                )  # fmt: skip
                found["files sent"] += 1
        time.sleep(min(10.0, aim.left))
    for stream in streams:
        stream.close()


def _with_key(aim: Aim, meant: list[Raw]) -> list[bytes]:
    credential = b"\r\nauthorization: Bearer " + aim.key.encode() + b"\r\n\r\n"
    return [one.request(aim.port).replace(b"\r\n\r\n", credential, 1) for one in meant]


def hostile_bodies(aim: Aim, found: Counts) -> None:
    """Those that once stopped a hub for ten seconds, one after the other."""
    _in_turn(aim, found, _with_key(aim, [one for one in bodies() if one.held in (ZEROS, KEYS, LISTS)]))


def hostile_files(aim: Aim, found: Counts) -> None:
    """Files that once grew eighty times: brackets, an empty notebook, one line."""
    files = {
        "brackets.json": b"[" * 5_000_000,
        "cells.ipynb": b'{"cells":[' + b"[]," * 1_600_000 + b"[]]}",
        "line.txt": b"word " * 1_000_000,
        "line.md": b"a\n=\n" * 250_000,
    }
    requests = [
        aim.rpc(
            "research-server/upload_document",
            filename=name,
            content=base64.b64encode(content).decode(),
            collection="abuse",
            create=True,
        )
        for name, content in files.items()
    ]
    _in_turn(aim, found, requests)


def braces(aim: Aim, found: Counts) -> None:
    """A pattern that stands for 2^40 others."""
    request = aim.rpc(
        "research-server/ingest_documents", path=aim.more, collection="abuse", patterns=["{a,b}" * 38], create=True
    )
    _in_turn(aim, found, [request], pause=0.2)


def flood(aim: Aim, found: Counts) -> None:
    """Calls of one tenant, ten times as many as a key is allowed: reads, and every tenth a write."""
    streams = [socket.create_connection((HOST, aim.port), timeout=30) for _ in range(16)]
    buffers = [bytearray() for _ in streams]
    read = aim.rpc("facts-server/list_facts", limit=20)
    begun, sent = time.monotonic(), 0
    while aim.left:
        for number, stream in enumerate(streams):
            write = aim.rpc("facts-server/remember", text=f"The flood rises by {sent}.")
            stream.sendall(write if (sent + number) % 10 == 0 else read)
        for stream, buffered in zip(streams, buffers, strict=True):
            found[_outcome(read_answer(stream, buffered))] += 1
        sent += len(streams)
        time.sleep(max(0.0, begun + sent / RATE - time.monotonic()))


def _in_turn(aim: Aim, found: Counts, requests: list[bytes], pause: float = 0.0) -> None:
    while aim.left:
        for request in requests:
            if not aim.left:
                return
            try:
                with socket.create_connection((HOST, aim.port), timeout=max(1.0, aim.left)) as stream:
                    stream.sendall(request)
                    found[_outcome(read_answer(stream, bytearray()))] += 1
            except OSError as problem:  # a timeout is one
                found[f"no answer: {type(problem).__name__}"] += 1
            time.sleep(pause)


def _outcome(body: bytes) -> str:
    """The code of an error, or that there is none."""
    found = re.search(rb'"code":"?([\w-]+)', body)
    return f"refused: {found[1].decode()}" if found else "done"


# -- a board -----------------------------------------------------------------------------------------------------------


def fast_board(aim: Aim, found: Counts) -> None:
    """A board that says again and again that its tools have changed, as fast as the hub reads."""
    board = Board(BOARD)
    headers = {"device-id": BOARD, "client-id": f"client-of-{BOARD}", "authorization": f"Bearer {aim.more}"}
    with connect(f"ws://{HOST}:{aim.port}/xiaozhi/v1/", additional_headers=headers, proxy=None, compression=None) as ws:
        ws.send(board.hello())
        until = time.monotonic() + 2
        while time.monotonic() < until:  # it greets, and lists its tools
            with suppress(TimeoutError):
                for said in board.hear(str(ws.recv(timeout=0.2))):
                    assert isinstance(said, Say)
                    ws.send(said.text)
        [said] = board.say([{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}])
        assert isinstance(said, Say)
        many = _masked(said.text.encode()) * (FRAMES // 20)
        begun, sent = time.monotonic(), 0
        while aim.left:
            try:
                _all_of(ws.socket, many, aim)
            except OSError:
                found["closed by the hub"] += 1
                break
            sent += FRAMES // 20
            found["frames"] = sent
            time.sleep(max(0.0, begun + sent / FRAMES - time.monotonic()))


def _all_of(stream: socket.socket, content: bytes, aim: Aim) -> None:
    """Send it however slowly it is read, until the time is over. The mode of the socket stays: a thread reads it."""
    left = memoryview(content)
    while left and aim.left:
        try:
            left = left[stream.send(left, socket.MSG_DONTWAIT) :]
        except BlockingIOError:
            select.select([], [stream], [], 0.2)


def _masked(text: bytes) -> bytes:
    """A frame of a client, whose mask is nothing."""
    size = bytes([0x80 | len(text)]) if len(text) < 126 else bytes([0x80 | 126]) + len(text).to_bytes(2, "big")
    return b"\x81" + size + b"\0\0\0\0" + text


CASES = {
    "loris": slow_loris,
    "bodies": large_bodies,
    "halves": half_bodies,
    "hostile": hostile_bodies,
    "accepted": accepted_bodies,
    "files": hostile_files,
    "large": large_files,
    "slow": slow_files,
    "braces": braces,
    "streams": many_streams,
    "board": fast_board,
    "flood": flood,
}
LEAST = {"loris": LORIS, "halves": HALVES, "streams": STREAMS, "board": FRAMES, "flood": RATE, "slow": 8}
"""How much of what an abuser counts must have happened, where it is more than one."""


def main() -> None:
    case, port, seconds, key, more = sys.argv[1:6]
    os.nice(10)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 2 * STREAMS)), hard))
    aim, found = Aim(int(port), time.monotonic() + float(seconds), key, more), Counts()
    act = CASES[case]
    if inspect.iscoroutinefunction(act):
        asyncio.run(act(aim, found))
    else:
        act(aim, found)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
