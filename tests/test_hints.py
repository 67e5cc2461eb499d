"""Every hint in the source names operations that exist, with arguments that they take, and no other text names one."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest
from tests.doors.command_line import program_of

from kho.doors.cli import build
from kho.doors.cli.hints import Spell
from kho.kernel.hints import Op
from kho.kernel.operation import Operation
from kho.settings import Settings
from kho.slices import describe

PACKAGE = Path(__file__).parent.parent / "src" / "kho"
PROTOCOL = {"tools/list", "tools/call", "resources/list", "resources/read", "prompts/list", "prompts/get"}
"""Methods of MCP itself, which clients know by these names."""
FOR_MODELS = {"description", "instructions"}
"""Arguments whose text only MCP clients read: it names tools. So do the texts of prompts."""


@cache
def operations() -> list[Operation]:
    return [one for capability in describe().capabilities for one in capability.operations]


@cache
def tools() -> dict[str, Operation]:
    return {one.tool: one for one in operations() if one.tool}


def sources() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path.relative_to(PACKAGE).as_posix(), ast.parse(path.read_text("utf-8"))


def references(tree: ast.Module, kind: str) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == kind:
            yield node


def wrong_references(path: str, tree: ast.Module) -> Iterator[str]:
    slice_ = path.partition("/")[0]
    own = [one for one in operations() if one.name.startswith(f"{slice_}.")]
    for node in references(tree, "Op"):
        name = ast.literal_eval(node.args[0])
        if (operation := tools().get(name)) is None:
            yield f"{path}:{node.lineno}: there is no operation {name}"
            continue
        for argument in node.keywords:
            if argument.arg not in operation.params.model_fields:
                yield f"{path}:{node.lineno}: {name} takes no {argument.arg}"
    for node in references(tree, "Arg"):
        name = ast.literal_eval(node.args[0])
        if not any(name in one.params.model_fields for one in own):
            yield f"{path}:{node.lineno}: no operation of {slice_} takes {name}"


def flattened(path: str, tree: ast.Module) -> Iterator[str]:
    """Hints inside of an f-string, which makes a plain text of them: every door would then read the tools' names."""
    hints = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith(("Hint(", "Op(", "Arg("))
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.FormattedValue):
            named = ast.unparse(node.value)
            if named in hints or named.startswith(("Hint(", "Op(", "Arg(")) or named.endswith(".guidance"):
                yield f"{path}:{node.lineno}: {named}"


def test_no_hint_loses_what_it_names_in_an_f_string() -> None:
    assert [one for path, tree in sources() for one in flattened(path, tree)] == []
    breaches = ("X = Hint('a')\ny = f'{X} b'", "f'{Op(1)}'", "f'{why} {problem.guidance}'")
    assert all(list(flattened("x.py", ast.parse(breach))) for breach in breaches)
    assert not list(flattened("x.py", ast.parse("X = Hint('a')\ny = Hint(X, f'{b} c')")))


def test_every_reference_is_to_an_operation_that_takes_its_arguments() -> None:
    found = [problem for path, tree in sources() for problem in wrong_references(path, tree)]
    assert found == []
    assert sum(1 for _, tree in sources() for _ in references(tree, "Op")) > 40


@pytest.mark.parametrize(
    "breach",
    ['Op("restore_documnet")', 'Op("restore_document", id="a")', 'Arg("overrite", True)', 'Op("get_document", **x)'],
)
def test_a_wrong_reference_is_found(breach: str) -> None:
    assert list(wrong_references("documents/x.py", ast.parse(breach)))
    lawful = 'Op("restore_document", document_id="a"); Arg("overwrite", True)'
    assert not list(wrong_references("documents/x.py", ast.parse(lawful)))


def named_in_prose(path: str, tree: ast.Module) -> Iterator[str]:
    methods = {one.rpc for one in tools().values() if one.rpc and "/" in one.rpc}
    names = "|".join(map(re.escape, ({name for name in tools() if "_" in name} | methods) - PROTOCOL))
    table = r"(?<!FROM )(?<!INTO )(?<!UPDATE )(?<!JOIN )(?<!TABLE )"
    prose = re.compile(rf"(?<![\\w/-]){table}({names})(?![\\w/-])".replace("\\\\", "\\"))
    free: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):  # a docstring: its reader has the source, or is a model that reads of tools
            free.add(id(node.value))
        elif (isinstance(node, ast.keyword) and node.arg in FOR_MODELS) or (
            isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).lower() in FOR_MODELS
        ):
            free.update(id(part) for part in ast.walk(node.value))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in free:
            for found in prose.finditer(node.value):
                if found[0] != node.value:
                    yield f"{path}:{node.lineno}: {found[0]}"


def test_no_text_names_an_operation_in_prose() -> None:
    found = [one for path, tree in sources() if not path.endswith("prompts.py") for one in named_in_prose(path, tree)]
    assert found == []


@pytest.mark.parametrize(
    ("breach", "lawful"),
    [
        ('guidance = "Call restore_document first."', 'guidance = Hint("Call ", Op("restore_document"), " first.")'),
        ('X(guidance=f"See memory/list of {name}.")', 'X(description="See memory/list.")'),
        ('why = "device_notifications has it"', 'tx.all("SELECT at FROM device_notifications WHERE tenant = $1")'),
        ("f(f'{x} manage_projects(action=\"list\")')", 'def f():\n    """Use manage_projects."""'),
    ],
)
def test_an_operation_in_prose_is_found(breach: str, lawful: str) -> None:
    assert list(named_in_prose("memory/x.py", ast.parse(breach)))
    assert not list(named_in_prose("memory/x.py", ast.parse(lawful)))


def test_every_operation_in_a_hint_is_a_command_that_can_be_typed(tmp_path: Path) -> None:
    program = program_of(Settings(home=tmp_path, database_url=None))
    line = build(program)
    named = [
        Op(ast.literal_eval(node.args[0]), **{one.arg or "": _sample(one.value) for one in node.keywords})
        for _, tree in sources()
        for node in references(tree, "Op")
    ]
    asked = tools()["get_document"]
    spell = Spell(program, asked, asked.cli[0])
    for reference in named:
        typed = spell(reference)
        group: click.Command = line
        for word in typed.strip("`").split()[1:]:
            if not isinstance(group, click.Group):
                break
            found = group.get_command(click.Context(group), word)
            assert found is not None, f"{reference} is said as {typed}"
            group = found
        options = {option for one in group.params for option in one.opts}
        flags = {word for word in typed.strip("`").split() if word.startswith("--")}
        assert flags <= options, f"{reference} is said as {typed}"


def _sample(value: ast.expr) -> object:
    """An argument as the source gives it, or some value where it is only known when it runs."""
    return value.value if isinstance(value, ast.Constant) else "x"
