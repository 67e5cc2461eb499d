"""`kill -9` under write load through HTTP, on both databases: what was acknowledged and is missing afterwards.

    python -m bench.crash [--kills 50]

The same code runs in `make test` with a few kills (tests/acceptance). Each database is a hub of its own, both at the
same time. A kill hits the hub, not the machine: that a commit survives a power cut is up to the database's settings.
"""

import argparse
import os
import random
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.doors import cpu_seconds
from bench.ratios import Ratio, against_loop
from bench.storage import postgres_server
from tests.acceptance.kills import Load, Tally, kill_and_count
from tests.acceptance.processes import Hub, Place, until


def both(kills: int, seed: int) -> dict[str, Tally]:
    with tempfile.TemporaryDirectory(prefix="kho-crash-") as folder, postgres_server() as url:
        places = {"SQLite": Place(Path(folder, "sqlite")), "PostgreSQL": Place(Path(folder, "postgres"), url)}
        with ThreadPoolExecutor(len(places)) as pool:
            running = {name: pool.submit(kill_and_count, place, kills, seed) for name, place in places.items()}
            return {name: done.result() for name, done in running.items()}


def short() -> dict[str, Ratio]:
    """Nothing is lost by a kill, and what it costs to start again after one."""
    with tempfile.TemporaryDirectory(prefix="kho-crash-") as folder:
        place = Place(Path(folder, "sqlite"))
        tally = kill_and_count(place, kills=1, seed=1)
        assert not tally.lost, tally.lost
        assert not tally.half, tally.half
        with Hub(place).ready() as hub:
            load = Load(hub.port)
            load.start()
            until(lambda: len(load.acknowledged) >= 100, "acknowledged records")
            hub.kill()
            load.join()
        with Hub(place).ready() as hub:
            return against_loop({"SQLite, start after a kill": cpu_seconds(hub.process.pid)})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=int(os.environ.get("KHO_KILLS", "50")))
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    arguments = parser.parse_args()
    found = both(arguments.kills, arguments.seed)
    print(f"{'':12}{'kills':>8}{'acknowledged':>14}{'lost':>8}{'half-applied':>14}{'in flight':>11}{'seconds':>9}")
    for name, tally in found.items():
        lost, half = len(tally.lost), len(tally.half)
        counts = f"{tally.kills:8,}{tally.acknowledged:14,}{lost:8,}{half:14,}{tally.unanswered:11,}"
        print(f"{name:12}{counts}{tally.seconds:9.0f}")
        for problem in [*tally.lost, *tally.half][:20]:
            print(f"  {problem}")
    print(f"seed {arguments.seed}")
    return int(any(tally.lost or tally.half for tally in found.values()))


if __name__ == "__main__":
    raise SystemExit(main())
