"""How long `kho` takes to start, beside the least that any such program loads: `python -c "import click, pydantic"`.

    python -m bench.start [--rounds 15] [--json]

Every start is a process of its own; the kinds take turns, so that a busy machine slows all of them alike. The store
exists already: a document and an experience, both with vectors from the default model. `kho stdio` is measured to its
answer to `initialize` and on to that of `tools/list`, beside a bare SDK server with one tool. Modules are compiled
before the clock runs, as after a first start anywhere; where Python may not write what it compiled, starts take longer.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import IO, Any

from bench.check import environment
from bench.doors import HANDSHAKE, cpu_seconds
from bench.ratios import Ratio

BASE = 'python -c "import click, pydantic"'
BARE, BARE_LIST = "bare SDK stdio, first answer", "bare SDK stdio, tools/list"
HELP, VERSION, LIST, QUERY = "kho --help", "kho --version", "kho docs list", "kho experiences query x"
LIST_ASKED, QUERY_ASKED = f"{LIST}, a hub runs", f"{QUERY}, a hub runs"
STDIO, STDIO_LIST = "kho stdio, first answer", "kho stdio, tools/list"
BARS = {
    HELP: (BASE, 2.5),
    VERSION: (BASE, 2.5),
    LIST: (BASE, 4.0),
    QUERY: (BASE, 4.0),
    LIST_ASKED: (BASE, 4.0),
    QUERY_ASKED: (BASE, 4.0),
    STDIO: (BARE, 1.15),
    STDIO_LIST: (BARE_LIST, None),
}
"""What each is measured against, and how many times that it may take."""
KHO = [sys.executable, "-m", "kho"]
COMMANDS = {
    BASE: [sys.executable, "-c", "import click, pydantic"],
    HELP: [*KHO, "--help"],
    VERSION: [*KHO, "--version"],
    LIST: [*KHO, "docs", "list"],
    QUERY: [*KHO, "experiences", "query", "x"],
}
ASKING = {LIST_ASKED: COMMANDS[LIST], QUERY_ASKED: COMMANDS[QUERY]}
"""The same while a hub runs on the store, which they ask instead of loading what it has loaded."""
SERVERS = {
    (BARE, BARE_LIST): [sys.executable, "-m", "bench.doors", "--serve", "bare-stdio", "0"],
    (STDIO, STDIO_LIST): [*KHO, "stdio"],
}
RECORD = ("--title", "The kettle stays cold", "--problem-description", "It does not heat.", "--solution", "Plug it in.")


@dataclass
class Times:
    """Seconds of one kind of start, round by round."""

    wall: list[float] = field(default_factory=list[float])
    cpu: list[float] = field(default_factory=list[float])

    def add(self, wall: float, cpu: float) -> None:
        self.wall.append(wall)
        self.cpu.append(cpu)


def command(arguments: Sequence[str], own: Mapping[str, str]) -> tuple[float, float]:
    """Wall and CPU seconds of a command, from its start to its end."""
    began = time.perf_counter()
    process = subprocess.Popen(arguments, env=own, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, f"{arguments} ended with {process.returncode}"
    return wall, used.ru_utime + used.ru_stime


def server(arguments: Sequence[str], own: Mapping[str, str]) -> list[tuple[float, float]]:
    """Wall and CPU seconds from the start of a stdio server to its answer to `initialize`, and to `tools/list`."""
    about = {"name": "bench", "version": "1"}
    hello = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": about}
    found: list[tuple[float, float]] = []
    began = time.perf_counter()
    with subprocess.Popen(
        arguments, env=own, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for number, (method, params) in enumerate((("initialize", hello), ("tools/list", {}))):
            send(process.stdin, id=number, method=method, params=params)
            answer = json.loads(process.stdout.readline())
            found.append((time.perf_counter() - began, cpu_seconds(process.pid)))
            assert (answer["id"], "result" in answer) == (number, True), answer
            if not number:
                send(process.stdin, method="notifications/initialized")
        process.stdin.close()
        process.wait(30)
    return found


def send(to: IO[bytes], **message: Any) -> None:
    to.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    to.flush()


def measure(rounds: int) -> dict[str, Times]:
    with tempfile.TemporaryDirectory(prefix="kho-bench-") as folder:
        compiled = os.environ.get("PYTHONPYCACHEPREFIX") or str(Path(folder) / "compiled")
        own = {**environment(compiled), "KHO_HOME": str(Path(folder) / "home")}
        command([*KHO, "docs", "create", "doc-kettle", "--body", "Fill it, then plug it in."], own)
        command([*KHO, "experiences", "submit", *RECORD], own)
        found = {name: Times() for name in (BASE, BARE, BARE_LIST, *BARS)}
        for number in range(rounds + 1):
            timed = {name: command(arguments, own) for name, arguments in COMMANDS.items()}
            for names, arguments in SERVERS.items():
                timed |= zip(names, server(arguments, own), strict=True)
            for name, (wall, cpu) in timed.items() if number else ():  # the first round compiles, and fills caches
                found[name].add(wall, cpu)
        with running_hub(own):
            for number in range(rounds + 1):
                timed = {name: command(arguments, own) for name, arguments in ASKING.items()}
                for name, (wall, cpu) in timed.items() if number else ():
                    found[name].add(wall, cpu)
    return found


@contextmanager
def running_hub(own: Mapping[str, str]) -> Generator[None, None, None]:
    arguments = [*KHO, "serve", "--port", "0"]
    with subprocess.Popen(arguments, env=own, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        while b"answers at" not in process.stderr.readline():
            assert process.poll() is None, f"{arguments} ended with {process.returncode}"
        try:
            yield
        finally:
            process.terminate()


def short() -> dict[str, Ratio]:
    """CPU alone: at a load of ten the wall times of so few rounds lay up to eight times apart."""
    found = measure(rounds=1)
    return {
        f"{name} / {base}: CPU": Ratio(min(found[name].cpu), min(found[base].cpu)) for name, (base, _) in BARS.items()
    }


def show(found: Mapping[str, Times]) -> bool:
    """Prints the table, and whether every bar is kept by the best wall time."""
    print(f"{'':36}{'wall ms: best':>14}{'median':>8}{'CPU ms: best':>14}{'median':>8}{'ratio':>8}{'CPU':>6}  bar")
    good = True
    for name, times in found.items():
        base, bar = BARS.get(name, (name, None))
        ratio, cpu = min(times.wall) / min(found[base].wall), min(times.cpu) / min(found[base].cpu)
        kept = bar is None or ratio <= bar
        good &= kept
        said = "" if bar is None else f"{bar:g}: {'kept' if kept else 'NOT KEPT'}"
        columns = [1000 * one for one in (min(times.wall), median(times.wall), min(times.cpu), median(times.cpu))]
        best, middle, least, usual = columns
        print(f"{name:36}{best:14.0f}{middle:8.0f}{least:14.0f}{usual:8.0f}{ratio:8.2f}{cpu:6.2f}  {said}")
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = measure(options.rounds)
    if options.json:
        print(json.dumps({name: {"wall": times.wall, "cpu": times.cpu} for name, times in found.items()}))
        return 0
    return 0 if show(found) else 1


if __name__ == "__main__":
    raise SystemExit(main())
