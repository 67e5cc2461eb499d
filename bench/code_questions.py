"""Questions about code: modules of the Python library without their docstrings, asked for by the first sentence of one.

    python -m bench.code_questions [--home FOLDER] [--each]

Sixty modules of the interpreter that runs this, drawn by their names, are ingested as files into a research collection,
and every question is put to `query_knowledge_base`. It is answered by the passage that holds the first line of the
definition. Docstrings of functions and classes are taken out of the files; sentences of fewer than four words, and
those that name what they describe, are no questions. The modules are in two halves, one to fit on.
`--home` keeps the store, and with it the vectors of passages that stay the same; `--each` shows every question.
"""

import argparse
import ast
import asyncio
import re
import sys
import sysconfig
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import log2
from pathlib import Path
from typing import Any

from bench.ingest import call, settings
from bench.recall import filled

from kho.app import Core, open_hub
from kho.evaluation.metrics import mean
from kho.kernel.capability import Capability
from kho.kernel.hub import Hub

MODULES = 60
LEAST, LARGEST = 3, 60_000
"""Definitions that a module has to describe, and bytes that it may have: a giant would be half of the set."""
LEFT_OUT = {"test", "tests", "idlelib", "lib2to3", "turtledemo", "site-packages", "encodings", "pydoc_data"}
FEWEST_WORDS = 4
DEPTH = 10
COLLECTION = "bench"

_SENTENCE_END = re.compile(r"(?<=[.!?:])\s|\n\s*\n")
_WORD = re.compile(r"\w+")
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True, slots=True)
class Question:
    text: str
    module: str
    """Path of the file below the folder of the library."""
    line: str
    """First line of the definition, without its indentation; no other line of the file is the same."""

    @property
    def fitted(self) -> bool:
        return _chance(self.module, "half") % 2 == 0


@dataclass(frozen=True, slots=True)
class Questions:
    files: dict[str, str]
    """Text by path."""
    questions: list[Question]


def load() -> Questions:
    """Draw the set. The same interpreter yields the same."""
    library = Path(sysconfig.get_paths()["stdlib"])
    paths = (path.relative_to(library) for path in library.rglob("*.py"))
    names = [path.as_posix() for path in paths if LEFT_OUT.isdisjoint(path.parts)]
    files: dict[str, str] = {}
    asked: list[Question] = []
    for name in sorted(names, key=lambda one: _chance(one, "module")):
        if (library / name).stat().st_size > LARGEST:
            continue
        text, found = undocumented((library / name).read_text("utf-8"), name)
        if len(found) >= LEAST:
            files[name] = text
            asked += found
        if len(files) == MODULES:
            break
    times = Counter(one.text for one in asked)
    return Questions(files, [one for one in asked if times[one.text] == 1])


def undocumented(source: str, name: str) -> tuple[str, list[Question]]:
    """Return the source of a module without the docstrings of its definitions, and what they ask for."""
    written = source.split("\n")  # and not at form feeds, which Python does not count as lines
    rows: list[str | None] = [*written]
    times = Counter(row.strip() for row in written)
    found: list[Question] = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, Definition) or not (described := ast.get_docstring(node)):
            continue
        text, line = node.body[0], written[node.lineno - 1].strip()
        if text.lineno == node.lineno or text.end_lineno is None:
            continue
        rows[text.lineno - 1 : text.end_lineno] = [None] * (text.end_lineno - text.lineno + 1)
        if len(node.body) == 1:
            rows[text.lineno - 1] = " " * text.col_offset + "pass"
        sentence = " ".join(_SENTENCE_END.split(described, maxsplit=1)[0].split())
        words = [word.lower() for word in _WORD.findall(sentence)]
        if len(words) >= FEWEST_WORDS and node.name.lower() not in words and times[line] == 1:
            found.append(Question(sentence, name, line))
    return "\n".join(row for row in rows if row is not None), found


def _chance(text: str, seed: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8, salt=seed.encode()[:16]).digest())


async def _ask(hub: Hub, question: Question) -> float:
    answer = await call(hub, "query_knowledge_base", query=question.text, collections=COLLECTION, top_k=DEPTH)
    right = [_holds(hit, question) for hit in answer["results"]]
    return 1 / log2(right.index(True) + 2) if any(right) else 0.0  # nDCG@10, as one passage answers it


def _holds(hit: dict[str, Any], question: Question) -> bool:
    rows = (row.strip() for row in hit["content"].splitlines())
    return hit["metadata"]["path"].endswith(f"/files/{question.module}") and question.line in rows


async def measure(questions: Questions, home: Path) -> list[tuple[Question, float]]:
    for name, text in questions.files.items():
        path = home / "files" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    cores: list[Core] = []

    def look(core: Core) -> Sequence[Capability]:
        cores.append(core)
        return ()

    async with open_hub(settings(home / "store", None, home, "e5"), more=look) as hub:
        given = {"path": str(home / "files"), "collection": COLLECTION, "recursive": True}
        answer = await call(hub, "ingest_documents", **given, create=True, force=True)
        assert answer["job"]["failed"] == 0, answer
        await filled(cores[0])
        return [(one, await _ask(hub, one)) for one in questions.questions]


def show(scored: Sequence[tuple[Question, float]]) -> None:
    halves = {
        "all": [value for _, value in scored],
        "fitted on": [value for one, value in scored if one.fitted],
        "not fitted on": [value for one, value in scored if not one.fitted],
    }
    print(f"{'modules':16}{'asked':>6}{'nDCG@10':>9}{'first':>7}{'in ten':>8}")
    for half, values in halves.items():
        first, shown = mean([value == 1 for value in values]), mean([value > 0 for value in values])
        print(f"{half:16}{len(values):6}{mean(values):9.3f}{first:7.3f}{shown:8.3f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, metavar="FOLDER")
    parser.add_argument("--each", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scored = asyncio.run(measure(load(), options.home or Path(folder)))
    if options.each:
        for question, value in scored:
            print(f"{value:.3f}  {question.module}  {question.line}  {question.text}")
    show(scored)
    return 0


if __name__ == "__main__":
    sys.exit(main())
