"""What `bench.search` measured, and whether it is enough. Pure: the bars are tested in tests/bench."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

OURS = ("kho-sqlite", "kho-postgres")
PEERS = ("chroma", "lancedb", "qdrant")
"""All three write to disk."""

COMPARED_AT, GROWN_TO = 100_000, 1_000_000
INGEST_RATIO = 5.0
RECALL = 0.98
P95_GROWN_MS = 250.0


@dataclass(frozen=True)
class Figures:
    """None where an engine did not get so far."""

    engine: str
    rows: int
    problem: str | None = None
    about: str = ""
    versions: str = ""
    taken: int = 0
    ingest_seconds: float | None = None
    ingest_cpu: float | None = None
    hybrid_ms: Sequence[float] = ()
    vector_ms: Sequence[float] = ()
    cpu_ms: float | None = None
    found: float | None = None
    recall: float | None = None
    memory_mb: float | None = None
    disk_mb: float | None = None

    @property
    def ingest(self) -> float | None:
        """Rows a second, from raw rows to searchable ones."""
        return self.rows / self.ingest_seconds if self.ingest_seconds else None

    @property
    def p50(self) -> float | None:
        return percentile(self.hybrid_ms, 0.50)

    @property
    def p95(self) -> float | None:
        return percentile(self.hybrid_ms, 0.95)

    def row(self) -> dict[str, Any]:
        """For the table and for `--json`."""
        return {
            "rows": self.rows,
            "engine": self.engine,
            "ingest/s": self.ingest,
            "CPU µs/row": self.ingest_cpu and self.ingest_cpu / self.rows * 1e6,
            "hybrid p50 ms": self.p50,
            "p95 ms": self.p95,
            "CPU ms": self.cpu_ms,
            "vector p50 ms": percentile(self.vector_ms, 0.50),
            "recall@10": self.recall,
            "found": self.found,
            "memory MB": self.memory_mb,
            "disk MB": self.disk_mb,
            "queries": len(self.hybrid_ms),
        }


@dataclass(frozen=True)
class Bar:
    name: str
    measured: float | None
    """None when one of the runs it is made from is missing."""
    limit: float
    at_least: bool = False

    @property
    def kept(self) -> bool | None:
        if self.measured is None:
            return None
        return self.measured >= self.limit if self.at_least else self.measured <= self.limit


def percentile(samples: Sequence[float], share: float) -> float | None:
    """The time within which that share of the samples lies."""
    if not samples:
        return None
    return sorted(samples)[max(0, math.ceil(share * len(samples) - 1e-9) - 1)]


def verdict(measured: Sequence[Figures]) -> list[Bar]:
    """The bars that the search core has to pass, as far as the runs at hand can say."""
    runs = {(figures.engine, figures.rows): figures for figures in measured}
    peers = [runs[peer, COMPARED_AT] for peer in PEERS if (peer, COMPARED_AT) in runs]
    fastest = min((peer.p95 for peer in peers if peer.p95 is not None), default=None)
    busiest = max((peer.ingest for peer in peers if peer.ingest is not None), default=None)
    bars: list[Bar] = []
    for engine in OURS:
        own, grown = runs.get((engine, COMPARED_AT)), runs.get((engine, GROWN_TO))
        if own is None and grown is None:
            continue
        p95, at_million = own and own.p95, grown and grown.p95
        bars += [
            Bar(f"{engine}: hybrid p95 at 100k / the fastest peer's", ratio(p95, fastest), 1.0),
            Bar(
                f"{engine}: ingest at 100k / the fastest peer's", ratio(own and own.ingest, busiest), INGEST_RATIO, True
            ),
            Bar(f"{engine}: recall@10 at 100k", own and own.recall, RECALL, True),
            growth(engine, ratio(at_million, p95)),
        ]
        if engine == "kho-sqlite":
            bars.append(Bar(f"{engine}: hybrid p95 at 1M, ms", at_million, P95_GROWN_MS))
    return bars


def growth(engine: str, measured: float | None) -> Bar:
    """At most linear on SQLite; less than linear on PostgreSQL, which has an index for it."""
    linear = GROWN_TO / COMPARED_AT
    limit = linear if engine == "kho-sqlite" else math.nextafter(linear, 0)
    return Bar(f"{engine}: hybrid p95 at 1M / at 100k", measured, limit)


def ratio(above: float | None, below: float | None) -> float | None:
    return None if above is None or not below else above / below
