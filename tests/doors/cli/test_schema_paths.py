"""Objects in arguments: each part of them has a flag of its own, a free one is typed as JSON."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field, JsonValue
from tests.doors.command_line import program_of, run_in_process
from tests.doors.doors import Finished

from kho.doors.cli import schema_paths
from kho.kernel.call import Call
from kho.kernel.capability import Capability
from kho.kernel.command import Command
from kho.kernel.operation import Operation
from kho.kernel.params import Params, Result
from kho.settings import Settings

LABELS: dict[str, Any] = {"properties": {"colour": {"type": "string"}, "marks": {"type": "array"}}}


class Size(Params):
    width: int = Field(1, ge=1, le=9)
    unit: str | None = None


class Text(Params):
    body: str
    size: Size | None = None


class Print(Params):
    name: str
    text: Text
    labels: dict[str, JsonValue] = Field(default_factory=dict, json_schema_extra=LABELS)
    size: Size | None = None


class Patch(Params):
    text: str | None = None
    labels: dict[str, JsonValue] | None = Field(None, json_schema_extra=LABELS)


class Change(Params):
    name: str
    patch: Patch
    mask: list[str] | None = None


class Printed(Result):
    given: dict[str, Any]


async def echo(params: Params, call: Call) -> Printed:
    return Printed(given=params.model_dump(exclude_unset=True))


PRESS = Capability(
    "press",
    "press-server",
    (
        Operation(
            "press.print",
            "Prints.",
            Print,
            echo,
            "press",
            result=Printed,
            example={
                "name": "poster",
                "text": {"body": "xin chào", "size": {"width": 2}},
                "labels": {"colour": "red", "marks": ["a", "b"], "shop": {"no": 3}},
            },
            cli=(
                Command(
                    "press print",
                    ("name",),
                    names={"labels.marks": "mark", "text.size.width": "letter-width", "text.size.unit": "letter-unit"},
                    from_file="text.body",
                ),
            ),
        ),
        Operation(
            "press.change",
            "Changes.",
            Change,
            echo,
            "press",
            result=Printed,
            example={"name": "poster", "patch": {"text": "chào"}},
            cli=(Command("press change", ("name",), from_file="patch.text", masks=("patch", "mask")),),
        ),
    ),
)


def run(settings: Settings, *arguments: str, stdin: bytes = b"") -> Finished:
    return run_in_process(program_of(settings, PRESS), "press", *arguments, stdin=stdin)


def given(done: Finished) -> dict[str, Any]:
    assert done.status == 0, done.err
    return json.loads(done.out)["given"]


def test_each_part_has_a_flag(settings: Settings) -> None:
    typed = ["--body", "x", "--letter-width", "3", "--width", "4", "--unit", "cm", "--colour", "red", "--mark", "a,b"]
    assert given(run(settings, "print", "p", *typed, "--json")) == {
        "name": "p",
        "text": {"body": "x", "size": {"width": 3}},
        "labels": {"colour": "red", "marks": ["a", "b"]},
        "size": {"width": 4, "unit": "cm"},
    }


def test_what_is_not_typed_is_not_there(settings: Settings) -> None:
    assert given(run(settings, "print", "p", "--body", "x", "--json")) == {"name": "p", "text": {"body": "x"}}


def test_a_free_object_is_json_and_its_known_parts_win(settings: Settings) -> None:
    labels = '{"colour": "blue", "deep": {"er": [1, null]}}'
    found = given(run(settings, "print", "p", "--body", "x", "--labels", labels, "--colour", "red", "--json"))
    assert found["labels"] == {"colour": "red", "deep": {"er": [1, None]}}


@pytest.mark.parametrize("labels", ["{", "[1]", "red", '{"a": NaN}'])
def test_what_is_no_json_object_is_a_failure(settings: Settings, labels: str) -> None:
    done = run(settings, "print", "p", "--body", "x", "--labels", labels, "--colour", "red")
    assert (done.status, done.out) == (1, "")
    assert "--labels: " in done.err


def test_the_operation_has_the_errors(settings: Settings) -> None:
    done = run(settings, "print", "p", "--body", "x", "--letter-width", "wide")
    assert done.status == 1
    assert "`--letter-width` must be a whole number" in done.err
    done = run(settings, "change", "p")
    assert (done.status, "`--colour`" in done.err) == (1, True)


def test_arguments_from_a_file_are_joined_part_by_part(settings: Settings) -> None:
    filed = {"name": "q", "text": {"body": "filed", "size": {"width": 2, "unit": "mm"}}, "labels": {"shop": 1}}
    typed = ["--letter-width", "5", "--colour", "red", "--params", "-", "--json"]
    assert given(run(settings, "print", *typed, stdin=json.dumps(filed).encode())) == {
        "name": "q",
        "text": {"body": "filed", "size": {"width": 5, "unit": "mm"}},
        "labels": {"shop": 1, "colour": "red"},
    }


def test_a_text_inside_comes_from_a_file_or_from_stdin(settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "x.md"
    file.write_bytes("chào\r\n\n".encode())
    for found in (
        run(settings, "print", "p", "--from-file", str(file), "--json"),
        run(settings, "print", "p", "--json", stdin=file.read_bytes()),
    ):
        assert given(found)["text"] == {"body": "chào\r\n\n"}


def test_stdin_is_left_alone_where_the_text_is_not_required(settings: Settings) -> None:
    found = given(run(settings, "change", "p", "--colour", "red", "--json", stdin=b"not meant"))
    assert found == {"name": "p", "patch": {"labels": {"colour": "red"}}, "mask": ["labels.colour"]}
    found = given(run(settings, "change", "p", "--from-file", "-", "--json", stdin=b"meant"))
    assert found == {"name": "p", "patch": {"text": "meant"}, "mask": ["text"]}


def test_a_mask_names_what_was_typed(settings: Settings) -> None:
    found = given(run(settings, "change", "p", "--text", "x", "--labels", "{}", "--marks", "a", "--json"))
    assert found["patch"] == {"text": "x", "labels": {"marks": ["a"]}}
    assert sorted(found["mask"]) == ["labels", "labels.marks", "text"]
    assert given(run(settings, "change", "p", "--text", "x", "--mask", "labels", "--json"))["mask"] == ["labels"]
    filed = json.dumps({"patch": {"labels": {"a": 1}}}).encode()
    assert "mask" not in given(run(settings, "change", "p", "--text", "x", "--params", "-", "--json", stdin=filed))


def test_the_example_in_help_is_the_operation_s(settings: Settings) -> None:
    shown = run(settings, "print", "--help").out
    labels = '--labels \'{"shop":{"no":3}}\' --colour red --mark a --mark b'
    assert f"kho press print poster --body 'xin chào' --letter-width 2 {labels}" in " ".join(shown.split())
    assert "--labels JSON" in shown


def test_required_means_on_every_level() -> None:
    inner: dict[str, Any] = {"type": "object", "properties": {"b": {}, "c": {}}, "required": ["b"]}
    schema: dict[str, Any] = {"properties": {"a": inner, "d": inner}, "required": ["a"]}
    assert [schema_paths.is_required(schema, path) for path in ("a", "a.b", "a.c", "d", "d.b")] == [
        True, True, False, False, False,
    ]  # fmt: skip
