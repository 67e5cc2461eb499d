"""Dataset files, and the tasks made from them.

{"corpus": {"id": "text", …}, "queries": [["id", "question", ["relevant id", …]], …]}
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, cast

import orjson

from kho.evaluation.errors import BadData
from kho.lib.dataclass import dataclass

MAX_ID_LENGTH = 512


@dataclass(frozen=True, slots=True)
class JudgedQuestion:
    id: str
    text: str
    relevant: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Corpus:
    name: str
    """Unique: it ends in a digest of the content."""
    texts: dict[str, str]


@dataclass(frozen=True, slots=True)
class Dataset:
    name: str
    texts: dict[str, str]
    questions: list[JudgedQuestion]


@dataclass(frozen=True, slots=True)
class Task:
    name: str
    corpus: Corpus
    questions: list[JudgedQuestion]


@dataclass(frozen=True, slots=True)
class Variant:
    """Variations of a task: marks stripped, corpora joined, fewer questions."""

    strip_marks: bool = False
    together: bool = False
    limit: int | None = None
    """Questions of each task, spread evenly over all of them."""


def tasks(files: Sequence[Path], queries: Path | None, variant: Variant) -> list[Task]:
    data = [read(file) for file in files]
    asked = read(queries) if queries is not None else None
    if variant.together:
        made = _together(data, asked)
    else:
        made = [
            Task(
                one.name if asked is None else f"{asked.name} → {one.name}",
                corpus(one.name, one.texts),
                (asked or one).questions,
            )
            for one in data
        ]
    return [_varied(task, variant) for task in made]


def _together(data: Sequence[Dataset], asked: Dataset | None) -> list[Task]:
    """Join all files into one corpus. Relevant is the text of the question's own file; for questions of another file,
    the text with that id in any of them."""
    if len({one.name for one in data}) < len(data):
        raise BadData("Two of the files have the same name, so their texts cannot be told apart. Rename one.")
    texts = {f"{one.name}/{id}": text for one in data for id, text in one.texts.items()}
    whole = corpus("together", texts)
    if asked is None:
        return [Task(f"{one.name} in all", whole, _under(one.questions, [one.name])) for one in data]
    return [Task(f"{asked.name} → all", whole, _under(asked.questions, [one.name for one in data]))]


def _under(questions: Sequence[JudgedQuestion], names: Sequence[str]) -> list[JudgedQuestion]:
    return [
        replace(question, relevant=tuple(f"{name}/{id}" for name in names for id in question.relevant))
        for question in questions
    ]


def _varied(task: Task, variant: Variant) -> Task:
    name, questions = task.name, task.questions
    for question in questions:
        if missing := [id for id in question.relevant if id not in task.corpus.texts]:
            raise BadData(f"{name}: question {question.id!r} asks for {missing[0]!r}, which the corpus does not have.")
    if variant.strip_marks:
        name = f"{name}, no marks"
        questions = [replace(question, text=unmarked(question.text)) for question in questions]
    if variant.limit is not None and variant.limit < len(questions):
        step = len(questions) / variant.limit
        questions = [questions[int(number * step)] for number in range(variant.limit)]
    return Task(name, task.corpus, questions)


def corpus(name: str, texts: dict[str, str]) -> Corpus:
    digest = blake2b(orjson.dumps(texts, option=orjson.OPT_SORT_KEYS), digest_size=6).hexdigest()
    return Corpus(f"{name}-{digest}", texts)


def unmarked(text: str) -> str:
    """Remove Vietnamese marks and turn đ into d, as people type on a phone."""
    apart = unicodedata.normalize("NFD", text.replace("đ", "d").replace("Đ", "D"))
    return unicodedata.normalize("NFC", "".join(char for char in apart if not unicodedata.combining(char)))


def read(file: Path) -> Dataset:
    try:
        content: Any = orjson.loads(file.read_bytes())
    except OSError as problem:
        raise BadData(f"{file} cannot be read: {problem.strerror}.") from None
    except orjson.JSONDecodeError as problem:
        raise BadData(f"{file} is not JSON: {problem}.") from None
    if not isinstance(content, dict):
        raise BadData(f'{file} is not an object with "corpus" and "queries".')
    parts = cast(dict[str, Any], content)
    return Dataset(file.stem, _texts(file, parts.get("corpus")), _questions(file, parts.get("queries")))


def _texts(file: Path, value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not value:
        raise BadData(f'{file}: "corpus" is an object of texts by id, with at least one.')
    for id, text in cast(dict[str, Any], value).items():
        if not id or len(id) > MAX_ID_LENGTH or "\0" in id:
            raise BadData(
                f'{file}: "corpus" has an id that is empty, longer than {MAX_ID_LENGTH} characters or has a NUL.'
            )
        if not isinstance(text, str) or not text.strip():
            raise BadData(f'{file}: "corpus", entry {id!r}: it is not a text, or an empty one.')
    return cast(dict[str, str], value)


def _questions(file: Path, value: Any) -> list[JudgedQuestion]:
    if not isinstance(value, list) or not value:
        raise BadData(f'{file}: "queries" is a list of [id, question, [relevant ids]], with at least one.')
    return [_question(file, number, one) for number, one in enumerate(cast(list[Any], value), 1)]


def _question(file: Path, number: int, value: Any) -> JudgedQuestion:
    where = f'{file}: "queries", entry {number}'
    match value:
        case [str(id), str(text), [_, *_] as relevant]:
            ids = cast(list[Any], relevant)
        case _:
            raise BadData(f"{where}: it is not [id, question, [relevant ids]] with at least one relevant id.")
    if not text.strip():
        raise BadData(f"{where}: the question is empty.")
    for one in ids:
        if not isinstance(one, str):
            raise BadData(f"{where}: a relevant id is not a text.")
    return JudgedQuestion(id, text, tuple(dict.fromkeys(cast(list[str], ids))))
