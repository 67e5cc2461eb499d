"""Checks on JSON values that hold at every door, before any model sees them."""

from typing import Any, cast

from kho.kernel.errors import InvalidParams
from kho.lib.jsonrpc import MAX_DEPTH

LONGEST_NAME = 200
"""Characters of a path in an answer. A key may be as long as the body."""

_TOO_DEEP = f"The arguments are nested more than {MAX_DEPTH} levels deep."
_NUL = "Text must not hold the NUL character."
_SURROGATE = "Text must be valid Unicode: it holds a lone surrogate."


def check(value: Any) -> None:
    """Refuses what one database would take and the other not (NUL), what is no text at all (lone surrogates),
    and nesting that only serves to exhaust the stack."""
    problem, path = _problem(value, 0)
    if problem == _TOO_DEEP:
        raise InvalidParams(problem)
    if problem:
        raise InvalidParams(problem, field=shown("".join(reversed(path)).removeprefix(".")))


def shown(path: str) -> str:
    """A path as an answer may hold it."""
    return path[:LONGEST_NAME].encode("utf-8", "replace").decode().replace("\0", "\\0")


def _problem(item: Any, depth: int) -> tuple[str, list[str]]:
    """What is wrong, if anything, and the way to it, innermost first. The way is put together only then: a name for
    each of many members takes seconds, and one long key in all of them more memory than there is."""
    if isinstance(item, str):
        return _text_problem(item), []
    if not isinstance(item, dict | list):
        return "", []
    if depth >= MAX_DEPTH:
        return _TOO_DEEP, []
    if isinstance(item, dict):
        for key, inner in cast(dict[str, Any], item).items():
            if problem := _text_problem(key):
                return problem, []
            if isinstance(inner, str | dict | list):
                problem, path = _problem(inner, depth + 1)
                if problem:
                    return problem, [*path, f".{key}"]
    else:
        for index, inner in enumerate(cast(list[Any], item)):
            if isinstance(inner, str | dict | list):
                problem, path = _problem(inner, depth + 1)
                if problem:
                    return problem, [*path, f"[{index}]"]
    return "", []


def _text_problem(text: str) -> str:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return _SURROGATE
    return _NUL if "\0" in text else ""
