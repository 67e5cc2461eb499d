"""How an answer looks: JSON for programs, Markdown and short lists for people."""

import sys
from typing import Any, cast

import click
import orjson

from kho.doors.cli.hints import NAMING, Spell, outside_fences
from kho.kernel.errors import in_words
from kho.kernel.registry import Outcome

SHOWN = 40
"""Of each of the lists that an error may hold: what went well must not hide what did not."""


def as_json(value: Any) -> None:
    click.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())


def outcome(found: Outcome, *, json: bool, spell: Spell) -> int:
    """Prints it and gives the exit status: 0, or 1 for a failure, also of a part. `spell` turns calls that it names
    into commands."""
    error = found.error
    if json:
        as_json(found.value if error is None else found.operation.failure(error))
    elif error is not None:
        message = spell.about(error, error.message)
        click.secho(f"error: {message} ({error.code})", err=True, fg="red")
        for problem in cast(list[dict[str, Any]], getattr(error, "problems", [])):
            click.echo(f"  {problem['field']}: {problem['message']}", err=True)
        for name, detail in error.details.items():
            several = cast(list[Any], detail) if isinstance(detail, list) else [detail]
            for one in several[:SHOWN]:
                said = in_words(spell.detail(name, one))
                if name not in NAMING or said not in message:
                    click.echo(f"  {name}: {said}", err=True)
            if len(several) > SHOWN:
                click.echo(f"  {name}: … and {len(several) - SHOWN} more (`--json` shows all)", err=True)
        if error.guidance:
            click.echo(f"  {spell.about(error, error.guidance)}", err=True)
    elif found.operation.text:
        text = outside_fences(found.operation.text(found.result), spell)
        _rendered(text)
    else:
        lines(data(found.value))
    partly = found.operation.failed_in_part
    return 1 if error or (partly is not None and partly(found.result)) else 0


def _rendered(markdown: str) -> None:
    if not sys.stdout.isatty():
        click.echo(markdown)
        return
    from rich.console import Console  # which takes a while, and whoever pipes needs none of it
    from rich.markdown import Markdown

    Console().print(Markdown(markdown))


def data(value: Any) -> Any:
    """What is inside a contract's envelope, if the value is one."""
    return cast(dict[str, Any], value).get("data", value) if isinstance(value, dict) else value


def lines(value: Any) -> None:
    """`name: value`, a line each."""
    if not isinstance(value, dict):
        click.echo(value if isinstance(value, str) else orjson.dumps(value).decode())
        return
    for name, item in cast(dict[str, Any], value).items():
        click.echo(f"{name}: {item if isinstance(item, str) else orjson.dumps(item).decode()}")
