"""Costs as ratios against a baseline of the same run, and how they are compared with the committed ones. Pure, but for
the calibration loop: tested in tests/bench.

A lower ratio is always better; where a bench counts calls per second, its short form gives seconds per call.
"""

import json
import math
import sqlite3
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

ROUNDS = 3
"""Runs of a check. The best cost and the best baseline of all of them make the ratio."""
COMMITTED_ROUNDS = 5
"""Runs of a sitting that is committed: any three of them could have been a check, so they show how far checks differ.
Runs of one sitting lie closer together than two sittings do, so a figure wants more than one sitting."""
LEAST, SHARE, MOST = 1.3, 3.0, 1.8
"""A figure may be SHARE times as far above the committed middle as it was ever seen, within these two bounds: below
LEAST another day's load would fail an unchanged tree; above MOST a cost that doubled could pass."""
LOOPS = 15


class Ratio(NamedTuple):
    cost: float
    baseline: float
    """In the unit of the cost, from the same run."""


Figures = Mapping[str, Ratio]


def against_loop(cpu_seconds: Mapping[str, float]) -> dict[str, Ratio]:
    """CPU seconds of one call each, against those of a fixed loop measured now: a machine that is slow is slow at
    both."""
    unit = min(_loop() for _ in range(LOOPS))
    return {f"{name}: CPU / calibration loop": Ratio(cost, unit) for name, cost in cpu_seconds.items()}


def _loop() -> float:
    """CPU seconds of what a call is made of: dicts, text, JSON and SQLite, some 4 ms. Changing it makes every
    committed figure invalid."""
    began = time.process_time()
    with sqlite3.connect(":memory:") as connection:
        connection.execute("CREATE TABLE loop (id INTEGER PRIMARY KEY, body TEXT)")
        for number in range(600):
            row = {"id": number, "words": f"the fixed text of row {number} in lower case".upper().split()}
            connection.execute("INSERT INTO loop VALUES (?, ?)", (number, json.dumps(row)))
        found = connection.execute("SELECT body FROM loop ORDER BY id DESC").fetchall()
        counts: dict[str, int] = {}
        for (body,) in found:
            for word in json.loads(body)["words"]:
                counts[word] = counts.get(word, 0) + 1
    connection.close()
    return time.process_time() - began


def best(rounds: Sequence[Figures]) -> dict[str, float]:
    """The ratio of the lowest cost to the lowest baseline: what disturbed one run disturbs neither."""
    names = dict.fromkeys(name for figures in rounds for name in figures)
    there = {name: [figures[name] for figures in rounds if name in figures] for name in names}
    return {name: min(one.cost for one in some) / min(one.baseline for one in some) for name, some in there.items()}


@dataclass(frozen=True, slots=True)
class Committed:
    """The lowest and the highest ratio of all checks that the committed runs could have been."""

    low: float
    high: float

    @property
    def ratio(self) -> float:
        """The middle, as many times the lowest as the highest is of it."""
        return math.sqrt(self.low * self.high)

    @property
    def tolerance(self) -> float:
        """How many times the ratio may be, and still be noise."""
        return min(MOST, max(LEAST, 1 + SHARE * (self.high / self.ratio - 1)))


def commit(rounds: Sequence[Figures], before: Mapping[str, Committed] | None = None) -> dict[str, Committed]:
    """What these runs, and those of earlier sittings, say a check may be expected to find."""
    checks = [best(some) for some in combinations(rounds, min(ROUNDS, len(rounds)))]
    found: dict[str, Committed] = {}
    for name in checks[0]:
        ratios = [float(f"{check[name]:.4g}") for check in checks if name in check]
        if before and (was := before.get(name)):
            ratios += [was.low, was.high]
        found[name] = Committed(min(ratios), max(ratios))
    return found


@dataclass(frozen=True, slots=True)
class Verdict:
    name: str
    kept: bool
    said: str


def compare(measured: Mapping[str, float], committed: Mapping[str, Committed]) -> list[Verdict]:
    """Every figure of either side gets a verdict: one that is no longer measured must not go unnoticed."""
    verdicts: list[Verdict] = []
    for name in dict.fromkeys((*committed, *measured)):
        was, now = committed.get(name), measured.get(name)
        if now is None:
            verdicts.append(Verdict(name, False, "MISSING: it is committed, and was not measured"))
        elif was is None:
            verdicts.append(Verdict(name, False, f"NEW: {now:.3g} is not committed; `--commit` does that"))
        else:
            verdicts.append(_judged(name, now, was))
    return verdicts


def _judged(name: str, now: float, was: Committed) -> Verdict:
    moved = now / was.ratio
    said = f"{now:.3g}, committed {was.ratio:.3g}, {moved:.2f} times (at most {was.tolerance:.2f})"
    if moved > was.tolerance:
        return Verdict(name, False, f"SLOWER: {said}")
    return Verdict(name, True, f"better, worth committing: {said}" if moved < 1 / was.tolerance else f"ok: {said}")
