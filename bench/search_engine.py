"""What `bench.search` asks of an engine. Peers and Kho stand behind the same few verbs."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from bench.search_data import Block, Floats

RRF = 60
"""The usual constant of reciprocal rank fusion, for engines that leave the fusion to us."""
CANDIDATES = 50
"""How many each leg of a hybrid search brings, where the engine lets one choose."""


class Engine(Protocol):
    about: str
    """How it is set up, in a line."""

    def versions(self) -> str: ...

    def ingest(self, blocks: Iterable[Block]) -> None:
        """Takes all rows and returns once they can be searched by words and vectors, indexes built."""
        ...

    def query(self, tenant: str, text: str, vector: Floats, limit: int) -> list[tuple[int, str]]:
        """Hybrid search: the ids and the texts of the best rows of a tenant."""
        ...

    def near(self, tenant: str, vector: Floats, limit: int) -> list[int]:
        """Search by the vector alone."""
        ...

    def processes(self) -> list[int]:
        """The processes that do the work beside this one."""
        ...

    def close(self) -> None: ...


def fuse(*legs: list[int]) -> list[int]:
    """Ids, best first, by the sum of 1 / (RRF + rank)."""
    scores: dict[int, float] = {}
    for leg in legs:
        for rank, number in enumerate(leg, 1):
            scores[number] = scores.get(number, 0) + 1 / (RRF + rank)
    return sorted(scores, key=lambda number: -scores[number])


def memory(pids: Iterable[int]) -> float:
    """Megabytes in memory of these processes and this one; what several of them share is counted once."""
    total = 0
    for pid in (os.getpid(), *pids):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1])
    return total / 1024


def cpu_seconds(pids: Iterable[int]) -> float:
    """Of these processes and of those they started that have ended."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def disk(folder: Path) -> float:
    """Megabytes that the files below a folder take."""
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*") if path.is_file()) / 1e6
