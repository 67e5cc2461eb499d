"""What stands before a document's text in its file, as names and values.

What Kho writes is a name and a JSON value on each line, and is read back exactly; what people write may be any YAML or
TOML. A scalar whose type would lose how it is written stays a text: `version: 1.10`, `code: 007`, `country: no`.
"""

import json
import re
from datetime import date, time
from typing import Any, cast

import orjson

from kho.kernel import front_matter, values
from kho.kernel.errors import InvalidParams
from kho.kernel.front_matter import Front, number

_LINE = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*): (.+)", re.A)
_TAG = "tag:yaml.org,2002:"
_TEXTS = ("str", "timestamp", "merge", "value")
_TINY = re.compile(r"-?\de-?\d+", re.A)
"""A number that JSON has and YAML has not."""
_ASSIGNED = re.compile(r"""^[ \t]*[\w."'-]+[ \t]*=(?!=)""", re.M)
"""A line that nobody writes who does not mean TOML."""
_STRANGE = "The front matter holds something that is neither text, number, list nor names and values."


class Unreadable(ValueError):
    """The file cannot be a document; the message says why."""


def facts(front: Front) -> dict[str, Any] | None:
    """None where it holds no names and values."""
    try:
        found = _toml(front.text) if front.is_toml else _lines(front.text)
    except RecursionError:
        raise Unreadable("The front matter is nested too deeply.") from None
    if found is None:
        return None
    try:
        values.check(found)
    except InvalidParams as problem:
        raise Unreadable(problem.message) from None
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
    orjson.loads(text)  # is stricter, and knows no way to keep a number as it is written
    return json.loads(text, parse_float=number, parse_int=number)


def _toml(text: str) -> dict[str, Any] | None:
    try:
        return cast(dict[str, Any], _plain(front_matter.toml(text)))
    except ValueError as problem:
        if not _ASSIGNED.search(text):
            return None
        raise Unreadable(f"The front matter is not TOML: {problem}.") from None


def _plain(value: Any) -> Any:
    """As JSON has it."""
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
    import yaml  # takes a moment, and few need it

    reader = cast(Any, yaml)  # the stubs leave its types open
    try:
        aliased = any(isinstance(token, yaml.AliasToken) for token in reader.scan(text, yaml.SafeLoader))
        node = None if aliased else reader.compose(text, yaml.SafeLoader)
    except (yaml.YAMLError, ValueError, OverflowError) as problem:  # the last two of numbers that are too large for it
        raise Unreadable(f"The front matter is not YAML: {' '.join(str(problem).split())}") from None
    if aliased:
        raise Unreadable("The front matter repeats parts of itself ('*name'); write them out.")
    found: Any = {} if node is None else _value(node)
    if found is None:
        return {}
    return cast(dict[str, Any], found) if isinstance(found, dict) else None


def _value(node: Any) -> Any:
    """What a tag says does not make a list of a word: the kind of the node counts as well."""
    match node.id, node.tag.removeprefix(_TAG):
        case "mapping", "map":
            return {_name(key): _value(one) for key, one in node.value}
        case "sequence", "seq":
            return [_value(one) for one in node.value]
        case "scalar", kind:
            return _scalar(kind, node.value, quoted=node.style is not None)
        case _:
            raise Unreadable(_STRANGE)


def _scalar(kind: str, text: str, *, quoted: bool) -> Any:
    if kind == "null":
        return None
    if kind == "bool" and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if kind in ("int", "float") or (kind == "str" and not quoted and _TINY.fullmatch(text)):
        return number(text)
    if kind in _TEXTS or kind == "bool":
        return text
    raise Unreadable(_STRANGE)


def _name(node: Any) -> str:
    if not isinstance(node.value, str):
        raise Unreadable("The front matter has a name that is not a text.")
    return node.value


def _tags(value: Any) -> Any:
    """`tags: a, b` is common."""
    if isinstance(value, str):
        return [tag.strip().removeprefix("#") for tag in value.split(",") if tag.strip()]
    if isinstance(value, list):
        return [str(one) if isinstance(one, int | float) else one for one in cast(list[Any], value)]
    return [] if value is None else value
