"""Configurations to compare: the settings unchanged, or with changes."""

import tomllib
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from kho.evaluation.errors import BadConfiguration
from kho.lib.dataclass import dataclass

OWN = "eval"
"""Table of a TOML file that is not a setting of Kho: restricts the search, to measure what each part contributes."""


@dataclass(frozen=True, slots=True)
class Configuration:
    name: str
    changes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Settings that differ, nested as in the settings file."""
    lean: float | None = None
    """Fixed weight of the keyword score, for every question."""
    look: bool = True
    """False leaves out the second ranking of the best hits."""


NAMED = {
    one.name: one
    for one in (
        Configuration("default"),
        Configuration("words", {"search": {"embedder": {"provider": "none"}}}),
        Configuration("meaning", lean=0.0),
        Configuration("first-stage", look=False),
    )
}


def configuration(text: str) -> Configuration:
    """Return the configuration with this name, or read a TOML file of settings."""
    if text in NAMED:
        return NAMED[text]
    file = Path(text)
    if not file.is_file():
        raise BadConfiguration(f"{text!r} is neither a file nor one of {', '.join(NAMED)}.")
    try:
        content = tomllib.loads(file.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise BadConfiguration(f"{file} is not valid TOML: {problem}.") from None
    own = content.pop(OWN, {})
    match own:
        case {**rest} if not set(rest) - {"lean", "look"}:
            lean, look = rest.get("lean"), rest.get("look", True)
        case _:
            raise BadConfiguration(f"{file}: [{OWN}] has 'lean' and 'look', and nothing else.")
    if not (lean is None or (isinstance(lean, int | float) and 0 <= lean <= 1)) or not isinstance(look, bool):
        raise BadConfiguration(f"{file}: [{OWN}] 'lean' is a number in 0..1, 'look' is true or false.")
    return Configuration(file.stem, content, None if lean is None else float(lean), look)
