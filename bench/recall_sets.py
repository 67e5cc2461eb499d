"""The texts and queries of bench/sets: short notes and long passages in three languages, each with the queries that
should find it, and queries that mean nothing. All of them were written for this benchmark.

A file has a header and a line for each text: its kind, the text, keywords, a sentence, another language, and a sentence
in that language. Constants are fitted on two lines of every four; the figures that count are of the other two.

- `facts` and `passages`: what a person keeps, and longer texts beside it.
- `notes`: 80 short notes, most of them like some other one.
- `prose`: paragraphs of articles, manuals and reports; some go on about the same thing as the one before. The keywords
  of the Vietnamese ones are words of two or three syllables that only one paragraph has, while each syllable occurs in
  many.
"""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

FOLDER = Path(__file__).parent / "sets"
LANGUAGES = ("en", "vi", "zh")
OWN = ("personal", "project")
"""Kinds of facts of one short sentence about a person or a project; the other notes are of other kinds."""

How = Literal["keywords", "sentence", "other language"]
HOW: tuple[How, ...] = ("keywords", "sentence", "other language")


@dataclass(frozen=True, slots=True)
class Note:
    language: str
    kind: str
    text: str
    fitted: bool
    """True if constants are fitted on its queries."""

    @property
    def group(self) -> Literal["fact", "note", "passage"]:
        return "passage" if self.kind == "passage" else "fact" if self.kind in OWN else "note"


@dataclass(frozen=True, slots=True)
class Query:
    how: How
    language: str
    text: str
    note: int
    """The place of the note that it asks for."""


@dataclass(frozen=True, slots=True)
class Sets:
    notes: Sequence[Note]
    queries: Sequence[Query]
    nonsense: Sequence[str]


def load(one_in: int = 1, names: Sequence[str] = ("facts", "passages")) -> Sets:
    """All of it, or one text and its queries in so many."""
    notes: list[Note] = []
    queries: list[Query] = []
    for name in names:
        for language in LANGUAGES:
            for number, row in enumerate(_rows(f"{name}-{language}.tsv")):
                if number % one_in:
                    continue
                place = len(notes)
                notes.append(Note(language, row["kind"], row["text"], number % 4 < 2))
                queries.append(Query("keywords", language, row["keywords"], place))
                queries.append(Query("sentence", language, row["sentence"], place))
                queries.append(Query("other language", row["other"], row["other_sentence"], place))
    nonsense = [row["text"] for number, row in enumerate(_rows("nonsense.tsv")) if number % one_in == 0]
    return Sets(notes, queries, nonsense)


def _rows(name: str) -> Iterator[dict[str, str]]:
    with (FOLDER / name).open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
