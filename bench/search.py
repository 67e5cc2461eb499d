"""Hybrid search at scale, ours beside others on the same texts and vectors, in one run.

    python -m bench.search [--peers] [--sizes 10k,100k,1m] [--engines kho-sqlite,chroma] [--tenants 10] [--json]

Rows are generated (see bench/search_data.py) and come with their vectors; ingest counts from raw rows to rows that
words and vectors find, indexes built and on disk. A query is narrowed to one tenant and answers with ten texts. Each
engine runs in a process of its own; one that is not done when its time is up is ended and reported as such.

`recall@10` is that of the vector search against exact search; `found` the share of hybrid queries that bring back the
row they were made from. `CPU µs/row` (of ingest) and `CPU ms` (of a hybrid query) are processor time over all threads
and server processes: on a busy machine they say more than the clock.

The peers live in an environment of their own: `make peers` makes it and runs this.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from bench.ratios import Ratio, against_loop
from bench.search_child import ENGINES, MARK, WARM_UP, progress
from bench.search_data import Corpus, save
from bench.search_figures import OURS, PEERS, RECALL, Bar, Figures, verdict

ROOT = Path(__file__).resolve().parent.parent
PEERS_PYTHON = ROOT / ".venv-peers" / "bin" / "python"
SECONDS = {10_000: 180.0, 100_000: 900.0, 1_000_000: 3600.0}
"""The time an engine has for everything. The largest size that is not above counts."""

GRACE = 30.0


def budget(rows: int) -> float:
    return next((seconds for size, seconds in SECONDS.items() if rows <= size), 7200.0)


def run(engine: str, python: Path, corpus: Corpus, questions: Path, seconds: float) -> Figures:
    """Runs one engine in a child process and keeps what it said, also when it had to be ended."""
    with tempfile.TemporaryDirectory(prefix="kho-bench-", ignore_cleanup_errors=True) as folder:
        asking = min(60.0, seconds / 6)
        numbers = (str(corpus.rows), str(corpus.tenants))
        command = [str(python), "-m", "bench.search_child", engine, *numbers, str(questions), folder, str(asking)]
        # Peers see our source for the folding of words, but not our dependencies. Lance warns on every query.
        environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}", "LANCEDB_LOG": "error"}
        if engine in OURS:
            environment.setdefault("OPENBLAS_NUM_THREADS", "1")  # as `kho` does, before numpy is imported
        child = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
        problem = None
        try:
            output, _ = child.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            output = ended(child)
            problem = f"did not finish in {seconds:.0f} s"
    figures = parse(output)
    if problem is None and not figures.pop("finished", False):
        problem = f"failed, exit status {child.returncode}"
    if problem and "ingest_seconds" not in figures:
        problem += f", had taken {figures.get('taken', 0):,} rows"
    return Figures(engine, corpus.rows, problem, **figures)


def ended(child: "subprocess.Popen[str]") -> str:
    """Ends it and returns what it had said. It gets the time to stop a server that it has started."""
    child.terminate()
    try:
        return child.communicate(timeout=GRACE)[0]
    except subprocess.TimeoutExpired:
        child.kill()
        return child.communicate()[0]


def parse(output: str) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for line in output.splitlines():
        if line.startswith(MARK):
            figures |= json.loads(line.removeprefix(MARK))
    known = {field.name for field in fields(Figures)} | {"finished"}
    return {name: value for name, value in figures.items() if name in known}


def table(measured: Sequence[Figures]) -> None:
    columns = list(Figures("", 0).row())
    print("".join(f"{name:>{width(name)}}" for name in columns))
    for figures in measured:
        row = figures.row()
        print("".join(f"{shown(row[name]):>{width(name)}}" for name in columns), figures.problem or "", sep="  ")
    print()
    for about in dict.fromkeys(f"{figures.engine}: {figures.versions}; {figures.about}" for figures in measured):
        print(about)


def width(name: str) -> int:
    return max(len(name), 12 if name == "engine" else 9) + 2


def shown(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}" if value > 1 else f"{value:.3f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def judged(bars: Sequence[Bar]) -> None:
    for bar in bars:
        sign = "≥" if bar.at_least else "≤"
        word = {True: "kept", False: "NOT KEPT", None: "not measured"}[bar.kept]
        print(f"{bar.name:55} {shown(bar.measured):>8}  {sign} {bar.limit:g}  {word}")


def size(text: str) -> int:
    factor = {"k": 1_000, "m": 1_000_000}.get(text[-1].lower(), 1)
    return int(text.rstrip("kKmM")) * factor


def run_all(pythons: dict[str, Path], corpus: Corpus, queries: int, seconds: float) -> list[Figures]:
    """Every engine, each with the Python that has it, on the same rows and questions."""
    progress(f"{corpus.rows:,} rows: exact answers to {queries} queries")
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        questions = Path(folder) / "questions.npz"
        save(corpus.questions(queries + WARM_UP), questions)
        progress(f"{corpus.rows:,} rows: ready after {time.perf_counter() - began:.0f} s")
        return [run(name, python, corpus, questions, seconds) for name, python in pythons.items()]


def short() -> dict[str, Ratio]:
    (found,) = run_all({"kho-sqlite": Path(sys.executable)}, Corpus(2_000, 2), 100, 60.0)
    if found.problem or not found.ingest_cpu or not found.cpu_ms or (found.recall or 0) < RECALL:
        raise AssertionError(f"{found.problem}, recall@10 {found.recall}")
    return against_loop({"SQLite, a row": found.ingest_cpu / found.rows, "SQLite, a question": found.cpu_ms / 1e3})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="10k,100k", help="rows, separated by commas")
    parser.add_argument("--engines", help=f"some of {','.join(ENGINES)}")
    parser.add_argument("--peers", action="store_true", help="the peers too")
    parser.add_argument("--peers-python", type=Path, default=PEERS_PYTHON, help="a Python that has the peers")
    parser.add_argument("--tenants", type=int, default=10)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--seconds", type=float, help="the time an engine has for one size")
    parser.add_argument("--json", action="store_true", help="figures as JSON on stdout")
    options = parser.parse_args()
    names = options.engines.split(",") if options.engines else [*OURS, *(PEERS if options.peers else ())]
    if unknown := sorted({*names} - {*ENGINES}):
        parser.error(f"no such engine: {', '.join(unknown)}. There are: {', '.join(ENGINES)}.")
    if {*names} & {*PEERS} and not options.peers_python.exists():
        parser.error(f"{options.peers_python} is missing: `make peers` sets it up")

    measured: list[Figures] = []
    for rows in map(size, options.sizes.split(",")):
        pythons = {name: options.peers_python if name in PEERS else Path(sys.executable) for name in names}
        corpus = Corpus(rows, options.tenants)
        measured += run_all(pythons, corpus, options.queries, options.seconds or budget(rows))
    bars = verdict(measured)
    if options.json:
        bare = [{"engine": f.engine, "problem": f.problem, **f.row(), **asdict(f)} for f in measured]
        print(json.dumps({"measured": bare, "bars": [asdict(bar) | {"kept": bar.kept} for bar in bars]}, indent=1))
    else:
        table(measured)
        judged(bars)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
