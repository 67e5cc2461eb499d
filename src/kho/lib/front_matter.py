"""Finds and parses front matter: what a text says of itself before it begins, between lines of `---` (YAML) or `+++`
(TOML). A scalar whose type would lose how it is written stays a text: `version: 1.10`, `code: 007`, `country: no`."""

import re
import tomllib
from dataclasses import dataclass
from math import isfinite
from typing import Any, cast

import orjson

_FRONT = re.compile(
    r"(?:---[ \t]*\r?\n(?P<yaml>.*?)^(?:---|\.\.\.)|\+\+\+[ \t]*\r?\n(?P<toml>.*?)^\+\+\+)[ \t]*(?:\r?\n|\Z)",
    re.S | re.M,
)
_TAG = "tag:yaml.org,2002:"
_TEXTS = ("str", "timestamp", "merge", "value")
_TINY = re.compile(r"-?\de-?\d+", re.A)
"""A number that JSON has and YAML has not."""
_STRANGE = "The front matter holds something that is neither text, number, list nor names and values."
_WHOLE = re.compile(r"-?\d+", re.A)


class Malformed(ValueError):
    """The front matter cannot be read; the message says why, as a sentence."""


@dataclass(frozen=True, slots=True)
class Front:
    text: str
    """What stands between the two lines."""
    is_toml: bool
    end: int
    """Where the text begins that it stands before."""


def find(text: str) -> Front | None:
    """Whether it means anything is for the caller to see: two rules with words between them look the same."""
    found = _FRONT.match(text)
    if found is None:
        return None
    toml = found["toml"]
    return Front(found["yaml"] if toml is None else toml, toml is not None, found.end())


def toml(text: str) -> dict[str, Any]:
    """Raises ValueError with the reason where it is not TOML."""
    try:
        return tomllib.loads(text, parse_float=number)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def yaml(text: str) -> Any:
    """The value, with texts for dates; None where it is empty. Raises Malformed, and RecursionError where it is nested
    too deeply."""
    import yaml as pyyaml  # takes a moment, and few need it

    reader = cast(Any, pyyaml)  # the stubs leave its types open
    try:
        aliased = any(isinstance(token, pyyaml.AliasToken) for token in reader.scan(text, pyyaml.SafeLoader))
        node = None if aliased else reader.compose(text, pyyaml.SafeLoader)
    except (
        pyyaml.YAMLError,
        ValueError,
        OverflowError,
    ) as problem:  # the last two of numbers that are too large for it
        raise Malformed(f"The front matter is not YAML: {' '.join(str(problem).split())}") from None
    if aliased:
        raise Malformed("The front matter repeats parts of itself ('*name'); write them out.")
    return None if node is None else _value(node)


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
            raise Malformed(_STRANGE)


def _scalar(kind: str, text: str, *, quoted: bool) -> Any:
    if kind == "null":
        return None
    if kind == "bool" and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if kind in ("int", "float") or (kind == "str" and not quoted and _TINY.fullmatch(text)):
        return number(text)
    if kind in _TEXTS or kind == "bool":
        return text
    raise Malformed(_STRANGE)


def _name(node: Any) -> str:
    if not isinstance(node.value, str):
        raise Malformed("The front matter has a name that is not a text.")
    return node.value


def number(text: str) -> int | float | str:
    """The number, where a number is written like that; else the text: a version 1.10 is not 1.1, and 007 is not 7."""
    try:
        value = int(text) if _WHOLE.fullmatch(text) else float(text)
    except ValueError:
        return text
    if not isfinite(value) or (isinstance(value, int) and not -(2**63) <= value < 2**64):
        return text
    return value if text in (repr(value), orjson.dumps(value).decode()) else text
