"""How much the sanitiser finds in texts made anew, and in a folder of sample files of another scanner:
`python -m bench.sanitize_files [--seed N] [FOLDER]`.

Labels of sample files are taken from their names: those that end in `_n`, `.n` or `_fp`, or say false or negative, hold
no secret, all others at least one. A file counts as found if anything in it is. The files are told in two halves, by a
digest of their names: rules may be written by looking at misses in the first, never in the second. Also tells what the
scan costs, beside what it costs to index the same text.
"""

import argparse
import hashlib
import random
import re
import time
from pathlib import Path

from bench.sanitize import library_chunks
from tests.sanitizer import realistic

from kho.lib.chunking.chunker import chunks as cut
from kho.sanitizer.scan import scan
from kho.search.indexing.index import Document, Field, Passage, prepare

NEGATIVE = re.compile(r"(?:_n|_fp|\.n)(?:\.|$)|false|filtered|negative", re.IGNORECASE)
COUNT = 6_000


def has_secret(text: str) -> bool:
    return bool(scan(text, personal=False))


def readable(path: Path) -> str | None:
    """The text of a file; None for formats that are not text."""
    data = path.read_bytes()
    try:
        text = data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def of_folder(folder: Path) -> None:
    halves: dict[tuple[bool, bool], list[tuple[str, bool]]] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        if (text := readable(path)) is not None:
            second = bool(hashlib.sha256(path.name.encode()).digest()[-1] % 2)
            key = second, bool(NEGATIVE.search(path.name))
            halves.setdefault(key, []).append((path.name, has_secret(text)))
    for (second, negative), found in sorted(halves.items()):
        hits = sum(hit for _, hit in found)
        print(
            f"{'held out' if second else 'looked at':10}{'no secret' if negative else 'secret':10}"
            f"{hits:4} of {len(found)} ({hits / len(found):.1%})"
        )
        if not second:
            print("  " + ", ".join(name for name, hit in found if hit is negative))


def made_anew(seed: int) -> None:
    items, harmless = realistic.secrets(seed, COUNT), realistic.clean(seed, COUNT)
    hits = sum(
        any(one.start < (start := item.text.index(item.value)) + len(item.value) and one.end > start for one in found)
        for item in items
        for found in [scan(item.text, personal=False)]
    )
    alarms = sum(has_secret(item.text) for item in harmless)
    print(
        f"seed {seed}: found {hits} of {COUNT} ({hits / COUNT:.2%}), alarms {alarms} of {COUNT} ({alarms / COUNT:.2%})"
    )


def cost() -> None:
    pieces = list(library_chunks())[:600]
    text = "".join(pieces)
    document = Document("documents", "t", "k", [Passage((Field(one.text),)) for one in cut(text)])
    figures: dict[str, float] = {}
    for name, work in (("scan", lambda: has_secret(text)), ("index", lambda: prepare(document))):
        best = float("inf")
        for _ in range(3):
            begin = time.process_time()
            work()
            best = min(best, time.process_time() - begin)
        figures[name] = best / len(text) * 1024 * 1000
    told = ", ".join(f"{name} {spent:.2f} ms" for name, spent in figures.items())
    print(f"CPU per KB: {told}; ratio {figures['scan'] / figures['index']:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    parser.add_argument("folder", nargs="?", type=Path)
    asked = parser.parse_args()
    made_anew(asked.seed)
    cost()
    if asked.folder:
        of_folder(asked.folder)


if __name__ == "__main__":
    main()
