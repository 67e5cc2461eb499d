"""Parse front matter: the names and values before a document's text in its file.

Kho writes a name and a JSON value on each line and reads them back exactly; people may write any YAML or TOML. A scalar
whose spelling a typed value would lose stays a string: `version: 1.10`, `code: 007`, `country: no`.
"""

import json
import re
from datetime import date, time
from typing import Any, cast

import orjson

from kho.kernel.errors import InvalidParams
from kho.kernel.validation import check_values
from kho.lib import front_matter
from kho.lib.front_matter import FrontMatter, number

_LINE = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*): (.+)", re.A)
_ASSIGNED = re.compile(r"""^[ \t]*[\w."'-]+[ \t]*=(?!=)""", re.M)
"""A line `key = …`, which shows that TOML is meant."""


class NotADocument(ValueError):
    """The file cannot be read as a document; the message says why."""


def facts(front: FrontMatter) -> dict[str, Any] | None:
    """Return the names and values; None if it holds none."""
    try:
        found = _toml(front.text) if front.is_toml else _lines(front.text)
    except RecursionError:
        raise NotADocument("The front matter is nested too deeply.") from None
    if found is None:
        return None
    try:
        check_values(found)
    except InvalidParams as problem:
        raise NotADocument(problem.message) from None
    if isinstance(found.get("title"), int | float):
        found["title"] = str(found["title"])
    if "tags" in found:
        found["tags"] = _tags(found["tags"])
    return found


def _lines(text: str) -> dict[str, Any] | None:
    lines = [_LINE.fullmatch(line) for line in re.split(r"\r?\n", text) if line]
    try:
        return {line[1]: _exactly(line[2]) for line in lines if line} if all(lines) else _yaml(text)
    except orjson.JSONDecodeError:
        return _yaml(text)


def _exactly(text: str) -> Any:
    orjson.loads(text)  # stricter than json, but cannot keep numbers as they are written
    return json.loads(text, parse_float=number, parse_int=number)


def _toml(text: str) -> dict[str, Any] | None:
    try:
        return cast(dict[str, Any], _plain(front_matter.toml(text)))
    except ValueError as problem:
        if not _ASSIGNED.search(text):
            return None
        raise NotADocument(f"The front matter is not TOML: {problem}.") from None


def _plain(value: Any) -> Any:
    """Convert a TOML value to JSON types."""
    match value:
        case dict():
            return {key: _plain(one) for key, one in cast(dict[str, Any], value).items()}
        case list():
            return [_plain(one) for one in cast(list[Any], value)]
        case date() | time():  # and datetime
            return value.isoformat().replace("+00:00", "Z")
        case int() if not isinstance(value, bool):
            return number(str(value))
        case _:
            return value


def _yaml(text: str) -> dict[str, Any] | None:
    try:
        found = front_matter.yaml(text)
    except front_matter.Malformed as problem:
        raise NotADocument(str(problem)) from None
    if found is None:
        return {}
    return cast(dict[str, Any], found) if isinstance(found, dict) else None


def _tags(value: Any) -> Any:
    """Convert tags to a list; also accepts the common `tags: a, b`."""
    if isinstance(value, str):
        return [tag.strip().removeprefix("#") for tag in value.split(",") if tag.strip()]
    if isinstance(value, list):
        return [str(one) if isinstance(one, int | float) else one for one in cast(list[Any], value)]
    return [] if value is None else value
