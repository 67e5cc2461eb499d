"""Front matter: what a text says of itself before it begins, between lines of `---` (YAML) or `+++` (TOML)."""

import re
import tomllib
from dataclasses import dataclass
from math import isfinite
from typing import Any

import orjson

_FRONT = re.compile(
    r"(?:---[ \t]*\r?\n(?P<yaml>.*?)^(?:---|\.\.\.)|\+\+\+[ \t]*\r?\n(?P<toml>.*?)^\+\+\+)[ \t]*(?:\r?\n|\Z)",
    re.S | re.M,
)
_WHOLE = re.compile(r"-?\d+", re.A)


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


def number(text: str) -> int | float | str:
    """The number, where a number is written like that; else the text: a version 1.10 is not 1.1, and 007 is not 7."""
    try:
        value = int(text) if _WHOLE.fullmatch(text) else float(text)
    except ValueError:
        return text
    if not isfinite(value) or (isinstance(value, int) and not -(2**63) <= value < 2**64):
        return text
    return value if text in (repr(value), orjson.dumps(value).decode()) else text
