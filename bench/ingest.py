"""Taking in real files: how fast, how much faster when nothing changed, and what is left of it after kill -9.

    python -m bench.ingest [--files 400] [--embedded 12] [--database sqlite|postgres|both] [--kills 20] [--json]

The files are such as any machine has: the texts of installed Python packages (READMEs, licences, documentation) and the
source of the standard library. They are copied into one folder and go through the operation `ingest_documents`. By
words alone first; then a few of them with the model that comes with Kho, until all vectors are there.
"""

import argparse
import asyncio
import json
import random
import shutil
import sysconfig
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from bench.ratios import Ratio, against_loop
from bench.storage import postgres_server
from tests.acceptance.ingest_kills import kill_and_compare, schema, write_corpus
from tests.acceptance.processes import Place

from kho.app import open_hub
from kho.kernel.call import Call
from kho.kernel.hub import Hub
from kho.settings import Settings

LARGEST = 200_000
"""Bytes of a file; one giant would be all that is measured."""
REPEATS = 5
WANTED = 50
"""How many times faster the second run has to be."""
FILES_PER_KILL = 25
TEXTS = (".md", ".rst", ".txt", ".html")


@dataclass(frozen=True)
class Figures:
    database: str
    files: int
    megabytes: float
    chunks: int
    first: float
    """Seconds."""
    again: float
    """Seconds, nothing having changed; the median of a few runs."""
    embedded_chunks: int = 0
    embedded: float = 0.0
    """Seconds for the part with vectors, from the call to the last vector. The model is loaded before."""

    @property
    def ratio(self) -> float:
        return self.first / self.again


def candidates() -> Iterator[Path]:
    """One of each in turn: texts of packages, sources."""
    packages, library = (Path(sysconfig.get_paths()[name]) for name in ("purelib", "stdlib"))
    texts = sorted(path for path in packages.rglob("*") if _is_text(path))
    sources = sorted(path for path in library.glob("*/*.py") if "test" not in str(path)) + sorted(library.glob("*.py"))
    chance = random.Random(4)
    chance.shuffle(texts)
    chance.shuffle(sources)
    for pair in zip(texts, sources, strict=False):
        yield from pair


def _is_text(path: Path) -> bool:
    return path.suffix in TEXTS or path.name.startswith(("LICENSE", "README", "AUTHORS", "CHANGES"))


def copy(files: int, folder: Path) -> None:
    count = 0
    for path in candidates():
        if count == files:
            return
        if path.is_file() and 0 < path.stat().st_size <= LARGEST:
            target = folder / f"part{count % 10}" / str(count) / path.name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)  # with its time
            count += 1


def settings(home: Path, url: str | None, root: Path, provider: str) -> Settings:
    return Settings.model_validate(
        {
            "home": home,
            "database_url": url,
            "research": {"roots": [str(root)]},
            "search": {"embedder": {"provider": provider}},
        }
    )


async def call(hub: Hub, tool: str, **arguments: Any) -> Any:
    operation = hub.registry.tool(tool)
    assert operation is not None
    outcome = await hub.registry.call(operation, arguments, Call(hub.local, "cli"))
    assert outcome.error is None, outcome.error
    return outcome.value


async def take_in(hub: Hub, folder: Path) -> tuple[float, Any]:
    started = time.perf_counter()
    answer = await call(hub, "ingest_documents", path=str(folder), collection="bench", recursive=True)
    return time.perf_counter() - started, answer


async def by_words(home: Path, url: str | None, folder: Path) -> tuple[float, float, Any]:
    async with open_hub(settings(home, url, folder.parent, "none")) as hub:
        await call(hub, "manage_collections", action="create", collection_name="bench")
        first, answer = await take_in(hub, folder)
        again: list[float] = []
        for _ in range(REPEATS):
            took, repeated = await take_in(hub, folder)
            assert repeated["job"]["unchanged"] == answer["job"]["added"], repeated
            again.append(took)
    return first, sorted(again)[REPEATS // 2], answer


async def with_vectors(home: Path, url: str | None, folder: Path, first: Path) -> tuple[float, int]:
    """`first` is one file more, so that the model is loaded and measured before the clock runs."""
    async with open_hub(settings(home, url, folder.parent, "e5")) as hub:
        assert hub.backlog is not None
        await call(hub, "manage_collections", action="create", collection_name="bench")
        await take_in(hub, first)
        await hub.backlog.settle(lambda done, total: None)
        started = time.perf_counter()
        _, answer = await take_in(hub, folder)
        while await hub.backlog.pending():  # the hub itself is at it, too
            await hub.backlog.settle(lambda done, total: None)
        return time.perf_counter() - started, answer["chunks"]


async def measure(name: str, url: str | None, other: str | None, corpus: Path) -> Figures:
    """`corpus` has the files, and a few of them once more for the vectors."""
    with tempfile.TemporaryDirectory(prefix="kho-ingest-") as place:
        home = Path(place)
        first, again, answer = await by_words(home / "words", url, corpus / "files")
        size = sum(path.stat().st_size for path in (corpus / "files").rglob("*") if path.is_file())
        figures = Figures(name, answer["job"]["added"], size / 1e6, answer["chunks"], first, again)
        if not (corpus / "few").exists():
            return figures
        seconds, chunks = await with_vectors(home / "vectors", other, corpus / "few", corpus / "warm.md")
        return replace(figures, embedded_chunks=chunks, embedded=seconds)


def short() -> dict[str, Ratio]:
    with tempfile.TemporaryDirectory(prefix="kho-ingest-") as place:
        root = Path(place)
        write_corpus(root / "files", 100)
        return asyncio.run(_short(root))


async def _short(root: Path) -> dict[str, Ratio]:
    cpu: list[float] = []
    chunks, answer = 0, {}
    async with open_hub(settings(root / "home", None, root, "none")) as hub:
        await call(hub, "manage_collections", action="create", collection_name="bench")
        for _ in range(1 + REPEATS):
            began = time.process_time()
            _, answer = await take_in(hub, root / "files")
            cpu.append(time.process_time() - began)
            chunks = chunks or answer["chunks"]
        assert answer["job"]["unchanged"], answer
    again = Ratio(min(cpu[1:]), cpu[0])
    return {"nothing new / the first time: CPU": again, **against_loop({"a chunk": cpu[0] / chunks})}


@contextmanager
def copied(files: int, embedded: int) -> Generator[Path]:
    with tempfile.TemporaryDirectory(prefix="kho-ingest-") as place:
        root = Path(place)
        copy(files, root / "files")
        copy(embedded, root / "few")
        (root / "warm.md").write_text("# Warm\n\nSomething to begin with.\n", "utf-8")
        yield root


@contextmanager
def places(database: str) -> Generator[tuple[str | None, str | None]]:
    """Two empty stores."""
    if database == "sqlite":
        yield None, None
        return
    with ExitStack() as stack:
        url = stack.enter_context(postgres_server())
        yield stack.enter_context(schema(url, "one")), stack.enter_context(schema(url, "two"))


def killed(database: str, kills: int, seed: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="kho-ingest-") as folder, places(database) as (one, two):
        root = Path(folder)
        write_corpus(root / "files", FILES_PER_KILL * (kills + 1))
        tally = kill_and_compare(root / "files", Place(root / "one", one), Place(root / "two", two), kills, seed)
    return {"database": database, **asdict(tally)}


def show(figures: Figures) -> None:
    print(f"{figures.database}: {figures.files} files, {figures.megabytes:.1f} MB, {figures.chunks} chunks")
    print(
        f"  by words      {figures.first:7.2f} s   {figures.megabytes / figures.first:5.2f} MB/s   "
        f"{figures.chunks / figures.first:6.0f} chunks/s"
    )
    kept = "" if figures.ratio >= WANTED else f"   NOT {WANTED}×"
    print(f"  nothing new   {figures.again:7.3f} s   {figures.ratio:5.0f}× faster{kept}")
    if figures.embedded:
        speed = figures.embedded_chunks / figures.embedded
        print(f"  with vectors  {figures.embedded:7.2f} s   {figures.embedded_chunks} chunks, {speed:.1f} chunks/s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=400)
    parser.add_argument("--embedded", type=int, default=12, help="files that also get vectors; 0 for none")
    parser.add_argument("--database", choices=("sqlite", "postgres", "both"), default="both")
    parser.add_argument("--kills", type=int, default=20, help="0 for none")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    chosen = ("sqlite", "postgres") if options.database == "both" else (options.database,)
    found: list[Figures] = []
    tallies: list[dict[str, Any]] = []
    with copied(options.files, options.embedded) as corpus:
        for database in chosen:
            with places(database) as (url, other):
                found.append(asyncio.run(measure(database, url, other, corpus)))
            if not options.json:
                show(found[-1])
    for database in chosen if options.kills else ():
        tally = killed(database, options.kills, options.seed)
        tallies.append(tally)
        if not options.json:
            wrong = [*tally["half"], *tally["differing"]]
            said = f"NOT as undisturbed: {wrong[:5]}" if wrong else "as undisturbed"
            print(
                f"{database}, {tally['kills']} kills: {tally['documents']} documents, {tally['chunks']} chunks, {said}"
            )
    if options.json:
        figures = [{**asdict(one), "ratio": one.ratio} for one in found]
        print(json.dumps({"figures": figures, "kills": tallies, "seed": options.seed}))
    wrong = any(tally["half"] or tally["differing"] for tally in tallies)
    return int(wrong or any(one.ratio < WANTED for one in found))


if __name__ == "__main__":
    raise SystemExit(main())
