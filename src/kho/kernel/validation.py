"""Checks that every door makes, large requests off the event loop, and validation errors in plain words.

Pydantic's messages are for programmers ("Input should be a valid dictionary or instance of Envelope"); Kho's answers
are read by people and models that do not know its classes. This module translates the former into the latter.
"""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, cast

from pydantic import ValidationError

from kho.kernel.errors import InvalidParams
from kho.lib import combining_marks
from kho.lib.dataclass import dataclass
from kho.lib.jsonrpc import MAX_DEPTH

T = TypeVar("T")

LARGE = 100_000
"""Size (bytes of a body, or characters of its values) above which a request is read in a thread. Smaller ones take a
millisecond or two, less than the switch to a thread is worth."""
_MEMBER = 20
"""Characters that each member of a list or an object counts as, for the work that it causes."""
_THREADS = ThreadPoolExecutor(2, "kho-large")
"""A separate pool: work that takes minutes must not delay requests, nor many large requests use up the machine."""

OBJECT, LIST, TEXT = "must be an object", 'must be a list, such as ["a", "b"]', "must be a text"
WHOLE, NUMBER, SWITCH = "must be a whole number", "must be a number", "must be true or false"

WORDS: Mapping[str, str] = {
    "missing": "is required",
    "extra_forbidden": "is not a known parameter",
    "model_type": OBJECT,
    "model_attributes_type": OBJECT,
    "dict_type": OBJECT,
    "mapping_type": OBJECT,
    "list_type": LIST,
    "tuple_type": LIST,
    "set_type": LIST,
    "string_type": TEXT,
    "path_type": "must be a path",
    "int_type": WHOLE,
    "int_parsing": WHOLE,
    "int_parsing_size": WHOLE,
    "int_from_float": WHOLE,
    "float_type": NUMBER,
    "float_parsing": NUMBER,
    "finite_number": "must be a finite number",
    "bool_type": SWITCH,
    "bool_parsing": SWITCH,
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be {ge} or more",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be {le} or less",
    "too_short": "must have at least {min_length} items",
    "too_long": "must have at most {max_length} items",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "string_pattern_mismatch": "must be of the form {pattern}",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "none_required": "must be null",
    "value_error": "{error}",
}
"""By pydantic's error type; names in braces are filled from the error's context."""

_FORMS: dict[str, str] = {}


def in_words(pattern: str, words: str) -> str:
    """Register `words` as the error message for a pattern, and return the pattern."""
    _FORMS[pattern] = words
    return pattern


MAX_PROBLEMS = 1_000
"""Invalid values that are listed one by one. Pydantic takes 0.4 s to list 100,000, which blocks all other requests."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with one parameter. `kind` is pydantic's error type ('missing', 'string_too_long', …)."""

    field: str
    kind: str
    message: str

    def as_dict(self) -> dict[str, str]:
        return {"field": self.field, "message": self.message}


def found(failure: ValidationError) -> list[Problem]:
    """Return the problems, without the values, which may be secret."""
    if (count := failure.error_count()) > MAX_PROBLEMS:
        why = f"{count:,} values are wrong; {MAX_PROBLEMS:,} is the most that is listed. Compare them with the schema"
        return [Problem("", "too_many", why)]
    return [
        Problem(
            ".".join(map(str, error["loc"])), error["type"], _said(error["type"], error["msg"], error.get("ctx", {}))
        )
        for error in failure.errors(include_url=False, include_input=False)
    ]


def _said(kind: str, message: str, known: Mapping[str, Any]) -> str:
    if known.get("min_length") == 1:
        return "must not be empty"
    if known.get("pattern") in _FORMS:
        return _FORMS[known["pattern"]]
    try:
        return WORDS[kind].format_map(known)
    except KeyError:  # an error type of our own, which has its own sentence
        return message.replace("Input should be", "must be")


MAX_NAME = 200
"""Characters of a path in an answer. A key may be as long as the body."""

_TOO_DEEP = f"The arguments are nested more than {MAX_DEPTH} levels deep."
_NUL = "Text must not contain the NUL character."
_MARKS = f"Text must not have more than {combining_marks.MOST} combining marks on one letter."
_SURROGATE = "Text must be valid Unicode: it contains a lone surrogate."


def check_values(value: Any) -> None:
    """Reject what one database accepts and the other does not (NUL), what is not valid text (lone surrogates),
    nesting that could exhaust the stack, and letters with so many marks that normalising them blocks all others."""
    problem, path = _problem(value, 0)
    if problem == _TOO_DEEP:
        raise InvalidParams(problem)
    if problem:
        raise InvalidParams(problem, field=shown("".join(reversed(path)).removeprefix(".")))


def check_period(since: int | None, until: int | None) -> None:
    """Raises InvalidParams if a period ends before it begins."""
    if since is not None and until is not None and since > until:
        raise InvalidParams(
            "'since' is after the end of the period. Swap the two times, or leave one out.", field="since"
        )


def shown(path: str) -> str:
    """Return a path in a form that is safe in an answer."""
    return path[:MAX_NAME].encode("utf-8", "replace").decode().replace("\0", "\\0")


def _problem(item: Any, depth: int) -> tuple[str, list[str]]:
    """Return the problem, if any, and the path to it, innermost first. The path is built only on failure: naming each
    of many members takes seconds, and one long key in all of them more memory than there is."""
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
        if combining_marks.has_too_many(text):
            return _MARKS
    return _NUL if "\0" in text else ""


async def read_large(size: int, work: Callable[[], T]) -> T:
    """Run `work` for a request of that size, in a thread if it is large. Not cancelled when the caller leaves: the work
    is short and bounded."""
    return work() if size <= LARGE else await asyncio.get_running_loop().run_in_executor(_THREADS, work)


def size_of(value: Any) -> int:
    """Estimate the size of a JSON value. Stops counting once it is known to be large."""
    stack, found = [value], 0
    while stack and found <= LARGE:
        item = stack.pop()
        if isinstance(item, str):
            found += len(item)
        elif isinstance(item, dict | list):
            members = cast("dict[str, Any] | list[Any]", item)
            found += _MEMBER * len(members)
            if found <= LARGE:
                stack.extend(members.values() if isinstance(members, dict) else members)
    return found
