"""Formats answers: JSON for programs, Markdown and short lists for people."""

import sys
from typing import TYPE_CHECKING, Any, cast

import orjson

from kho.doors.cli.hints import NAMING, Spell, problems_of
from kho.doors.cli.terminal import echo, echo_json
from kho.kernel.errors import about, in_words
from kho.kernel.hints import presenting
from kho.kernel.registry import Outcome
from kho.lib.lazy_module import lazy
from kho.lib.shown_time import local_times
from kho.lib.visible import visible

if TYPE_CHECKING:
    from kho.lib import terminal_markdown
else:
    (terminal_markdown,) = lazy("kho.lib.terminal_markdown")  # slow to import, and not needed if the output is piped

SHOWN = 40
"""Maximum items shown of each list in an error, so that what succeeded does not hide what failed."""


def as_json(value: Any) -> None:
    echo_json(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())


def outcome(found: Outcome, *, json: bool, spell: Spell) -> int:
    """Print the outcome and return the exit status: 0, or 1 for a failure, also a partial one. `spell` renders the
    operations that it names as commands."""
    error = found.error
    if json:
        as_json(found.value if error is None else found.operation.failure(error))
    elif error is not None:
        message = spell.about(error, error.message)
        echo(f"error: {message} ({error.code})", err=True, fg="red")
        for problem in problems_of(error):
            echo(f"  {about(spell.parameter(problem['field']), problem['message'])}", err=True)
        for name, detail in error.details.items():
            several = cast(list[Any], detail) if isinstance(detail, list) else [detail]
            for one in several[:SHOWN]:
                said = in_words(spell.detail(name, one))
                if name not in NAMING or said not in message:
                    echo(f"  {name}: {said}", err=True)
            if len(several) > SHOWN:
                echo(f"  {name}: … and {len(several) - SHOWN} more (`--json` shows all)", err=True)
        if error.guidance:
            echo(f"  {spell.about(error, error.guidance)}", err=True)
    else:
        show(found.value, text(found, spell))
        if found.operation.remarks is not None and (beside := found.operation.remarks(found.result)):
            echo(beside, err=True)
    for warning in found.warnings:
        echo(f"warning: {warning}", err=True, fg="yellow")
    return 1 if error or failed_in_part(found) else 0


def text(found: Outcome, spell: Spell) -> str | None:
    """Return the answer as text for people; None if the operation has no text form."""
    if found.operation.text is None:
        return None
    with presenting(spell), local_times():
        return found.operation.text(found.result)


def failed_in_part(found: Outcome) -> bool:
    partly = found.operation.failed_in_part
    return partly is not None and partly(found.result)


def show(value: Any, text: str | None) -> None:
    if text is None:
        lines(data(value))
    else:
        _rendered(text)


def _rendered(markdown: str) -> None:
    if not sys.stdout.isatty():
        echo(markdown)
        return
    terminal_markdown.show(visible(markdown))


def data(value: Any) -> Any:
    """Return the contents of a contract's envelope, or the value itself if it is not one."""
    return cast(dict[str, Any], value).get("data", value) if isinstance(value, dict) else value


def lines(value: Any) -> None:
    """Print `name: value`, one per line."""
    if not isinstance(value, dict):
        echo(value if isinstance(value, str) else orjson.dumps(value).decode())
        return
    for name, item in cast(dict[str, Any], value).items():
        echo(f"{name}: {item if isinstance(item, str) else orjson.dumps(item).decode()}")
