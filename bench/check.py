"""`make bench-check`: the short form of every benchmark, compared with what is committed; exit status 1 when a figure
is slower beyond noise, missing or new.

    python -m bench.check [doors storage …]            three runs, best of each
    python -m bench.check --commit [doors storage …]   five runs; writes bench/committed.json
    python -m bench.check --commit --add …             the same in another sitting: widens what is committed by it

A benchmark's `short()` gives ratios: a cost against a baseline of the same run, a peer where there is one, else a fixed
loop (see bench/ratios.py). It raises when an answer is wrong. Runs of all benchmarks take turns, each in a process of
its own. A benchmark that needs a package which is not installed is skipped, with a line that says so.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.ratios import COMMITTED_ROUNDS, ROUNDS, Committed, Figures, Ratio, best, commit, compare

BENCHES = (
    "doors", "storage", "search", "embedding", "memory", "documents", "devices", "experiences", "research", "ingest",
    "sanitize", "tenant_wall", "crash", "start",
)  # fmt: skip
ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "bench" / "committed.json"
PATIENCE = 300.0


class Failed(Exception):
    """A benchmark did not get to its figures."""


class NotHere(Exception):
    """A benchmark needs what is not installed."""


def environment(folder: str) -> dict[str, str]:
    """This one's, without a developer's hub, and with compiled modules in a folder of their own: a process that has to
    compile what it imports starts half as fast."""
    left_out = ("KHO_", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")
    own = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    return {**own, "PYTHONPYCACHEPREFIX": folder, "PYTHONPATH": str(ROOT)}


def measure(name: str, own: Mapping[str, str]) -> dict[str, Ratio]:
    """The short form of one benchmark, once, in a process of its own."""
    command = [sys.executable, "-m", "bench.check", "--one", name]
    try:
        done = subprocess.run(command, cwd=ROOT, env=own, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        raise Failed(f"bench.{name} did not finish in {PATIENCE:.0f} s") from None
    if done.returncode:
        raise Failed(f"bench.{name} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    said: dict[str, Any] = json.loads(done.stdout)
    if missing := said.get("missing"):
        raise NotHere(f"it needs {missing}, which is not installed")
    return {figure: Ratio(*pair) for figure, pair in said["figures"].items()}


def one(name: str) -> None:
    """Prints the figures for `measure`, and nothing else: what the benchmark prints goes to stderr."""
    with redirect_stdout(sys.stderr):
        try:
            said = {"figures": import_module(f"bench.{name}").short()}
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] in ("bench", "kho", "tests"):
                raise
            said = {"missing": error.name}
    print(json.dumps(said))


def run(names: Sequence[str], rounds: int) -> tuple[dict[str, list[Figures]], dict[str, str]]:
    """The figures of each benchmark, run by run, and why some have none."""
    found: dict[str, list[Figures]] = {}
    skipped: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="kho-bench-") as folder:
        for number in range(rounds):
            for name in [name for name in names if name not in skipped]:
                began = time.perf_counter()
                try:
                    figures = measure(name, environment(folder))
                except NotHere as reason:
                    skipped[name] = str(reason)
                    continue
                found.setdefault(name, []).append(figures)
                took = time.perf_counter() - began
                print(f"run {number + 1} of {rounds}: {name}, {took:.0f} s", file=sys.stderr, flush=True)
    return found, skipped


def read(file: Path) -> dict[str, dict[str, Committed]]:
    if not file.exists():
        return {}
    kept = json.loads(file.read_text("utf-8"))["figures"]
    return {name: {figure: Committed(**was) for figure, was in some.items()} for name, some in kept.items()}


def sittings(file: Path) -> list[str]:
    return json.loads(file.read_text("utf-8"))["sittings"] if file.exists() else []


def write(file: Path, figures: Mapping[str, Mapping[str, Committed]], sittings: Sequence[str]) -> None:
    plain = {
        name: {figure: asdict(was) for figure, was in figures[name].items()} for name in BENCHES if name in figures
    }
    file.write_text(
        json.dumps({"sittings": [*sittings], "figures": plain}, indent=1, ensure_ascii=False) + "\n", "utf-8"
    )


def about() -> str:
    """Where figures come from; the load says how far to trust them."""
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    return f"Python {sys.version.split()[0]}, {os.cpu_count()} cores, load {load} at the end"


def show(found: Mapping[str, Sequence[Figures]], kept: Mapping[str, Mapping[str, Committed]]) -> bool:
    """Prints a verdict for every figure, and whether all are kept."""
    good = True
    for name, rounds in found.items():
        print(f"\n{name}")
        for verdict in compare(best(rounds), kept.get(name, {})):
            print(f"  {verdict.name:58} {verdict.said}")
            good &= verdict.kept
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="BENCH", help=f"some of {', '.join(BENCHES)}; all if none is named")
    parser.add_argument("--commit", action="store_true", help="what is measured is what later runs are compared with")
    parser.add_argument("--add", action="store_true", help="with --commit: keep the range of earlier sittings, too")
    parser.add_argument("--one", choices=BENCHES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        one(options.one)
        return 0
    names: list[str] = options.names or [*BENCHES]
    if unknown := sorted({*names} - {*BENCHES}):
        parser.error(f"no such benchmark: {', '.join(unknown)}. There are: {', '.join(BENCHES)}.")
    if sys.platform != "linux":
        parser.error("the CPU time of other processes is read as Linux gives it; there is no check elsewhere")
    began, kept = time.perf_counter(), read(FILE)
    try:
        found, skipped = run(names, COMMITTED_ROUNDS if options.commit else ROUNDS)
    except Failed as problem:
        print(problem, file=sys.stderr)
        return 1
    if options.commit:
        earlier = kept if options.add else {}
        kept |= {name: commit(rounds, earlier.get(name)) for name, rounds in found.items()}
        said = about() if names == [*BENCHES] else f"{about()}: {', '.join(names)}"
        write(FILE, kept, [*(sittings(FILE) if options.add or options.names else ()), said])
    good = show(found, kept)
    for name, reason in skipped.items():
        print(f"\n{name}\n  skipped: {reason}")
    took = f"{time.perf_counter() - began:.0f} s. {about()}"
    print(f"\n{'No figure is slower beyond noise' if good else 'NOT AS COMMITTED'}; {took}")
    return int(not good)


if __name__ == "__main__":
    raise SystemExit(main())
