"""The files that are measured with: what they become, and what is said of broken ones."""

import json
from pathlib import Path
from typing import Any

import pytest

from kho.evaluation.configurations import NAMED, configuration
from kho.evaluation.datasets import Variant, read, tasks, unmarked
from kho.evaluation.errors import BadConfiguration, BadData
from kho.lib.merge import merged

CORPUS = {"1": "Mèo ngủ trên mái nhà.", "2": "Chó đuổi theo xe."}
QUERIES = [["q1", "Con gì ngủ?", ["1"]], ["q2", "Con gì đuổi xe?", ["2"]]]


def write(folder: Path, name: str, content: Any) -> Path:
    file = folder / name
    file.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return file


def vi(folder: Path) -> Path:
    return write(folder, "vi.json", {"corpus": CORPUS, "queries": QUERIES})


def en(folder: Path) -> Path:
    texts = {"1": "A cat sleeps on the roof.", "2": "A dog chases a car."}
    return write(folder, "en.json", {"corpus": texts, "queries": [["q1", "What sleeps?", ["1"]]]})


def test_a_file_is_a_task(tmp_path: Path) -> None:
    [task] = tasks([vi(tmp_path)], None, Variant())
    assert task.name == "vi"
    assert task.corpus.texts == CORPUS
    assert [(q.id, q.text, q.relevant) for q in task.questions] == [
        ("q1", "Con gì ngủ?", ("1",)),
        ("q2", "Con gì đuổi xe?", ("2",)),
    ]


def test_the_name_of_a_corpus_changes_with_its_texts(tmp_path: Path) -> None:
    [one] = tasks([vi(tmp_path)], None, Variant())
    [same] = tasks([vi(tmp_path)], en(tmp_path), Variant())
    assert one.corpus.name == same.corpus.name
    other = write(tmp_path, "vi.json", {"corpus": {**CORPUS, "3": "Cá."}, "queries": QUERIES})
    assert tasks([other], None, Variant())[0].corpus.name != one.corpus.name


def test_questions_of_one_file_over_the_texts_of_another(tmp_path: Path) -> None:
    [task] = tasks([vi(tmp_path)], en(tmp_path), Variant())
    assert task.name == "en → vi"
    assert task.corpus.texts == CORPUS
    assert [q.text for q in task.questions] == ["What sleeps?"]


def test_all_texts_together(tmp_path: Path) -> None:
    first, second = tasks([vi(tmp_path), en(tmp_path)], None, Variant(together=True))
    assert (first.name, second.name) == ("vi in all", "en in all")
    assert first.corpus == second.corpus
    assert set(first.corpus.texts) == {"vi/1", "vi/2", "en/1", "en/2"}
    assert first.questions[0].relevant == ("vi/1",)
    assert second.questions[0].relevant == ("en/1",)
    [mixed] = tasks([vi(tmp_path), en(tmp_path)], en(tmp_path), Variant(together=True))
    assert mixed.questions[0].relevant == ("vi/1", "en/1")


def test_marks_are_taken_off_and_questions_left_out(tmp_path: Path) -> None:
    [task] = tasks([vi(tmp_path)], None, Variant(strip_marks=True, limit=1))
    assert (task.name, [q.text for q in task.questions]) == ("vi, no marks", ["Con gi ngu?"])
    assert (
        unmarked("Đường đi khó, không khó vì ngăn sông cách núi 中文 ok")
        == "Duong di kho, khong kho vi ngan song cach nui 中文 ok"
    )
    many = write(tmp_path, "many.json", {"corpus": CORPUS, "queries": [[str(n), "x", ["1"]] for n in range(10)]})
    assert [q.id for q in tasks([many], None, Variant(limit=4))[0].questions] == ["0", "2", "5", "7"]


BROKEN: list[tuple[Any, str]] = [
    ("{", "is not JSON"),
    ([], 'is not an object with "corpus" and "queries"'),
    ({"queries": QUERIES}, '"corpus" is an object'),
    ({"corpus": {}, "queries": QUERIES}, "at least one"),
    ({"corpus": {"1": 5}, "queries": QUERIES}, "entry '1'"),
    ({"corpus": {"1": " "}, "queries": QUERIES}, "entry '1'"),
    ({"corpus": {"": "x"}, "queries": QUERIES}, "an id that is empty"),
    ({"corpus": CORPUS}, '"queries" is a list'),
    ({"corpus": CORPUS, "queries": [*QUERIES, ["q3", "x"]]}, '"queries", entry 3: it is not'),
    ({"corpus": CORPUS, "queries": [["q1", "x", []]]}, "entry 1"),
    ({"corpus": CORPUS, "queries": [["q1", "x", [3]]]}, "entry 1: a relevant id is not a text"),
    ({"corpus": CORPUS, "queries": [["q1", "  ", ["1"]]]}, "the question is empty"),
]


@pytest.mark.parametrize(("content", "complaint"), BROKEN)
def test_a_broken_file_is_named_with_the_entry(tmp_path: Path, content: Any, complaint: str) -> None:
    file = write(tmp_path, "broken.json", content)
    with pytest.raises(BadData) as raised:
        read(file)
    assert complaint in raised.value.message
    assert str(file) in raised.value.message


def test_a_question_about_a_text_that_is_not_there(tmp_path: Path) -> None:
    file = write(tmp_path, "vi.json", {"corpus": CORPUS, "queries": [["q9", "x", ["77"]]]})
    with pytest.raises(BadData, match="question 'q9' asks for '77'"):
        tasks([file], None, Variant())
    with pytest.raises(BadData, match="cannot be read"):
        read(tmp_path)
    (tmp_path / "b").mkdir()
    with pytest.raises(BadData, match="the same name"):
        tasks([vi(tmp_path), vi(tmp_path / "b")], None, Variant(together=True))


def test_configurations_by_name_or_from_a_file(tmp_path: Path) -> None:
    assert configuration("words") is NAMED["words"]
    assert configuration("meaning").lean == 0.0
    assert configuration("first-stage").look is False
    file = tmp_path / "mine.toml"
    file.write_text("[search]\npatience = 9.0\n[eval]\nlean = 0.3\n")
    mine = configuration(str(file))
    assert (mine.name, mine.changes, mine.lean, mine.look) == ("mine", {"search": {"patience": 9.0}}, 0.3, True)
    for broken, complaint in (
        ("[eval", "not valid TOML"),
        ("[eval]\nx = 1", "nothing else"),
        ("[eval]\nlean = 7", "0..1"),
    ):
        file.write_text(broken)
        with pytest.raises(BadConfiguration, match=complaint):
            configuration(str(file))
    with pytest.raises(BadConfiguration, match="neither a file nor one of default, words"):
        configuration("best")


def test_changes_go_into_tables() -> None:
    settings = {"home": "x", "search": {"timeout": 1, "embedder": {"provider": "e5", "batch": 2}}}
    changed = merged(settings, {"search": {"embedder": {"provider": "none"}}, "home": "y"})
    assert changed == {"home": "y", "search": {"timeout": 1, "embedder": {"provider": "none", "batch": 2}}}
    assert settings["home"] == "x"
