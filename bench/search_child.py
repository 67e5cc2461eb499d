"""One engine, one size, in a process of its own, so that its memory is its own: started by `bench.search`.

    python -m bench.search_child chroma ROWS TENANTS QUESTIONS.npz FOLDER SECONDS

What is measured is written to stdout as it becomes known, a line of JSON per stage: when the time is up and the
process is ended, the stages before remain.
"""

import json
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterable
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

from bench.search_data import NEAREST, Block, Corpus, Question, load
from bench.search_engine import Engine, cpu_seconds, disk, memory

ENGINES = {
    "kho-sqlite": ("bench.search_kho", "KhoSqlite"),
    "kho-postgres": ("bench.search_kho", "KhoPostgres"),
    "chroma": ("bench.search_peers", "Chroma"),
    "lancedb": ("bench.search_peers", "Lance"),
    "qdrant": ("bench.search_peers", "Qdrant"),
}
WARM_UP = 5
MARK = "measured: "


class Clock:
    """Time spent by the engine on its rows, without the time it takes to generate them."""

    def __init__(self, name: str, corpus: Corpus) -> None:
        self._name, self._corpus = name, corpus
        self.generating = 0.0
        self.generating_cpu = 0.0
        self.taken = 0

    def blocks(self) -> Generator[Block, None, None]:
        began = said = time.perf_counter()
        cpu = time.process_time()
        for block in self._corpus.blocks():
            self.generating += time.perf_counter() - began
            self.generating_cpu += time.process_time() - cpu
            yield block
            self.taken += len(block.ids)
            began, cpu = time.perf_counter(), time.process_time()
            if began - said > 5:
                said = began
                progress(f"{self._name}: took {self.taken:,} of {self._corpus.rows:,} rows")
                tell({"taken": self.taken})


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def tell(figures: dict[str, Any]) -> None:
    print(MARK + json.dumps(figures), flush=True)


def ingest(name: str, engine: Engine, corpus: Corpus) -> None:
    clock = Clock(name, corpus)
    began, cpu = time.perf_counter(), time.process_time() + cpu_seconds(engine.processes())
    engine.ingest(clock.blocks())
    seconds = time.perf_counter() - began - clock.generating
    used = time.process_time() + cpu_seconds(engine.processes()) - cpu - clock.generating_cpu
    progress(f"{name}: {corpus.rows:,} rows searchable after {seconds:.0f} s")
    tell({"taken": clock.taken, "ingest_seconds": seconds, "ingest_cpu": used})


def until(seconds: float, questions: Iterable[Question]) -> Generator[Question, None, None]:
    """As many questions as fit into the time."""
    end = time.perf_counter() + seconds
    for question in questions:
        if time.perf_counter() > end:
            return
        yield question


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    began = time.perf_counter()
    answer = work()
    return answer, (time.perf_counter() - began) * 1000


def ask(name: str, engine: Engine, questions: list[Question], seconds: float) -> None:
    for question in questions[:WARM_UP]:
        engine.query(question.tenant, question.text, question.vector, NEAREST)
        engine.near(question.tenant, question.vector, NEAREST)
    progress(f"{name}: asks {len(questions) - WARM_UP} questions, for {seconds:.0f} s at most")
    times: list[float] = []
    found = 0
    before = time.process_time() + cpu_seconds(engine.processes())
    for question in until(seconds, questions[WARM_UP:]):
        hits, took = timed(lambda q=question: engine.query(q.tenant, q.text, q.vector, NEAREST))
        times.append(took)
        found += any(number == question.source and text for number, text in hits)
    cpu = time.process_time() + cpu_seconds(engine.processes()) - before
    tell({"hybrid_ms": times, "cpu_ms": cpu * 1000 / len(times), "found": found / len(times)})

    vector_ms: list[float] = []
    same = 0
    for question in until(seconds / 2, questions[WARM_UP:]):
        hits, took = timed(lambda q=question: engine.near(q.tenant, q.vector, NEAREST))
        vector_ms.append(took)
        same += len({*hits} & {*question.nearest})
    tell({"vector_ms": vector_ms, "recall": same / len(vector_ms) / NEAREST})


def leave(number: int, frame: FrameType | None) -> None:
    """By the front door: at exit, a server that was started is stopped."""
    sys.exit(1)


def main() -> None:
    signal.signal(signal.SIGTERM, leave)
    name, rows, tenants, questions, folder, seconds = sys.argv[1:]
    corpus, asked, home = Corpus(int(rows), int(tenants)), list(load(Path(questions))), Path(folder)
    next(iter(corpus.blocks()))  # what generating needs in memory is there already
    before = memory(())
    module, kind = ENGINES[name]
    engine: Engine = getattr(import_module(module), kind)(home, corpus.rows, corpus.tenants)
    tell({"versions": engine.versions(), "about": engine.about})
    ingest(name, engine, corpus)
    ask(name, engine, asked, float(seconds))
    tell({"memory_mb": memory(engine.processes()) - before})
    engine.close()
    tell({"disk_mb": disk(home), "finished": True})


if __name__ == "__main__":
    main()
