"""What checksums of pages cost on SQLite, and how fast `kho verify` reads a store.

    python -m bench.verify [--calls 400] [--facts 20000] [--json]

Two hubs in one process, one on a store with checksums and one on a store without, do the same calls in turns: one at a
time, and 64 at once, which share a commit. Costs are of whole operations, through the registry. Then a process of its
own verifies a larger store: megabytes of the file a second, and the most memory that it had.
"""

import argparse
import asyncio
import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Any

from bench.tenant_wall import TENANTS, Side

from kho.app import open_hub
from kho.kernel.limits.settings import LimitSettings
from kho.models.settings import Embedding
from kho.settings import Search, Settings
from kho.storage.sqlite.connection import checked, connect

TOGETHER = 64
ROUNDS = 12


@asynccontextmanager
async def opened(home: Path, *, with_checksums: bool) -> AsyncGenerator[Side]:
    prepare(home, with_checksums=with_checksums)
    async with open_hub(settings(home)) as hub:
        side = Side(hub, list, [])
        await side.fill()
        yield side
    connection = connect(str(home / "kho.db"))
    assert checked(connection) == with_checksums
    connection.close()


def prepare(home: Path, *, with_checksums: bool) -> None:
    home.mkdir()
    if not with_checksums:  # a file that has its first page already gets none
        connection = connect(str(home / "kho.db"))
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
        connection.close()


def settings(home: Path) -> Settings:
    limits = LimitSettings(requests=0, writes=0)
    return Settings(home=home, search=Search(embedder=Embedding(provider="none")), limits=limits)


async def cost(work: Callable[[], Awaitable[object]], calls: int) -> tuple[float, float]:
    """Return the milliseconds of a call: wall time, and CPU time."""
    begun, cpu = time.perf_counter(), time.process_time()
    for _ in range(calls):
        await work()
    return 1000 * (time.perf_counter() - begun) / calls, 1000 * (time.process_time() - cpu) / calls


async def compare(folder: Path, calls: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    async with (
        opened(folder / "with", with_checksums=True) as side,
        opened(folder / "without", with_checksums=False) as bare,
    ):
        for name in side.operations:
            for together in (1, TOGETHER) if name in ("remember", "memory add") else (1,):
                each = max(1, calls // ROUNDS // together)
                pairs = [await in_turns(side, bare, name, together, each, turn) for turn in range(ROUNDS)]
                row: dict[str, Any] = {"call": name if together == 1 else f"{name}, {together} at once"}
                for place, what in enumerate(("wall", "cpu")):
                    ours, theirs = (median(pair[which][place] / together for pair in pairs) for which in (0, 1))
                    row |= {f"{what}_ms": ours, f"{what}_ms_without": theirs}
                    row[f"{what}_ratio"] = median(pair[0][place] / pair[1][place] for pair in pairs)
                found.append(row)
    return found


async def in_turns(
    side: Side, bare: Side, name: str, together: int, each: int, turn: int
) -> tuple[tuple[float, float], tuple[float, float]]:
    costs: dict[bool, tuple[float, float]] = {}
    for ours in (True, False) if turn % 2 else (False, True):
        call = (side if ours else bare).operations[name]

        async def work(call: Callable[[], Awaitable[None]] = call) -> None:
            await asyncio.gather(*(call() for _ in range(together)))

        gc.collect()
        costs[ours] = await cost(work, each)
    return costs[True], costs[False]


async def fill(home: Path, facts: int) -> None:
    async with open_hub(settings(home)) as hub:
        side = Side(hub, list, [])
        for start in range(0, facts, 500):
            lines = [{"text": f"The {side.fact()}, as the log of watch {start + n} says. " * 8} for n in range(500)]
            await side.ask("facts-server/import_facts", {"lines": lines}, TENANTS[0])


def verified(home: Path) -> dict[str, Any]:
    """Verify in a process of its own."""
    environment = {**os.environ, "KHO_HOME": str(home), "KHO_SEARCH__EMBEDDER__PROVIDER": "none"}
    begun = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "kho", "verify", "--json"], env=environment, capture_output=True, check=False
    )
    took = time.perf_counter() - begun
    assert done.returncode == 0, done
    size = (home / "kho.db").stat().st_size / 1e6
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1000
    return {"megabytes": size, "seconds": took, "megabytes_a_second": size / took, "most_memory_mb": most}


async def run(calls: int, facts: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        calls_found = await compare(Path(folder), calls)
        home = Path(folder) / "large"
        await fill(home, facts)
        return {"calls": calls_found, "verify": await asyncio.to_thread(verified, home)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=1200)
    parser.add_argument("--facts", type=int, default=20_000)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = asyncio.run(run(given.calls, given.facts))
    if given.json:
        print(json.dumps(found, indent=2))
        return 0
    print(f"{'call':26}{'ms':>8}{'without':>9}{'ratio':>8}{'CPU ms':>9}{'without':>9}{'ratio':>8}")
    for row in found["calls"]:
        wall, cpu = (f"{row[f'{what}_ms_without']:9.3f}{row[f'{what}_ratio']:8.3f}" for what in ("wall", "cpu"))
        print(f"{row['call']:26}{row['wall_ms']:8.3f}{wall}{row['cpu_ms']:9.3f}{cpu}")
    print(
        "kho verify: {megabytes:.0f} MB in {seconds:.1f} s, {megabytes_a_second:.0f} MB/s, "
        "at most {most_memory_mb:.0f} MB of memory".format(**found["verify"])
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
