"""Finds and parses front matter: metadata at the start of a text, between lines of `---` (YAML) or `+++` (TOML). A
scalar whose type would not keep its spelling stays a string: `version: 1.10`, `code: 007`, `country: no`."""

import re
from math import isfinite
from typing import Any, cast

import orjson

from kho.lib.dataclass import dataclass

_FRONT = re.compile(
    r"(?:---[ \t]*\r?\n(?P<yaml>.*?)^(?:---|\.\.\.)|\+\+\+[ \t]*\r?\n(?P<toml>.*?)^\+\+\+)[ \t]*(?:\r?\n|\Z)",
    re.S | re.M,
)
_TAG = "tag:yaml.org,2002:"
_TEXTS = ("str", "timestamp", "merge", "value")
_TINY = re.compile(r"-?\de-?\d+", re.A)
"""A number in JSON's notation that YAML does not recognise."""
_STRANGE = "The front matter holds something that is neither text, number, list nor names and values."
_WHOLE = re.compile(r"-?\d+", re.A)


class Malformed(ValueError):
    """The front matter cannot be parsed; the message says why, as a sentence."""


@dataclass(frozen=True, slots=True)
class FrontMatter:
    text: str
    """What is between the two marker lines."""
    is_toml: bool
    end: int
    """Where the text after the front matter begins."""


def find(text: str) -> FrontMatter | None:
    """Find front matter. The caller decides if it is really one: two horizontal rules with text between look the
    same."""
    found = _FRONT.match(text)
    if found is None:
        return None
    toml = found["toml"]
    return FrontMatter(found["yaml"] if toml is None else toml, toml is not None, found.end())


def toml(text: str) -> dict[str, Any]:
    """Parse TOML. Raises ValueError with the reason."""
    import tomllib  # few files need it

    try:
        return tomllib.loads(text, parse_float=number)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def yaml(text: str) -> Any:
    """Parse YAML, with dates as strings; None if it is empty. Raises Malformed, and RecursionError if it is nested too
    deeply."""
    import yaml as pyyaml  # slow to import, and rarely needed

    reader = cast(Any, pyyaml)  # the stubs do not type it
    try:
        aliased = any(isinstance(token, pyyaml.AliasToken) for token in reader.scan(text, pyyaml.SafeLoader))
        node = None if aliased else reader.compose(text, pyyaml.SafeLoader)
    except (
        pyyaml.YAMLError,
        ValueError,
        OverflowError,
    ) as problem:  # the last two for numbers that are too large
        raise Malformed(f"The front matter is not YAML: {' '.join(str(problem).split())}") from None
    if aliased:
        raise Malformed("The front matter repeats parts of itself ('*name'); write them out.")
    return None if node is None else _value(node)


def _value(node: Any) -> Any:
    """Convert a node. Its kind counts as well as its tag: a tag does not turn a word into a list."""
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
    """Return a number if it would be written like that, else the text: a version 1.10 is not 1.1, and 007 is not 7."""
    try:
        value = int(text) if _WHOLE.fullmatch(text) else float(text)
    except ValueError:
        return text
    if not isfinite(value) or (isinstance(value, int) and not -(2**63) <= value < 2**64):
        return text
    return value if text in (repr(value), orjson.dumps(value).decode()) else text
