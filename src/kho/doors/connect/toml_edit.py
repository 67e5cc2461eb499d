"""Edits of TOML text that keep every other byte. A new table goes to the end of the file as text, so that cutting it
leaves what was there; everything else is done by tomlkit. What comes out is read again and compared before it is used.
"""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, cast

from kho.doors.connect.errors import CannotConnect
from kho.doors.connect.json_edit import Edit

OTHER_FORM = "it has this entry in a form that cannot be edited safely: change it by hand."


class InvalidToml(CannotConnect):
    code = "INVALID_TOML"


def parse(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except ValueError as problem:
        raise InvalidToml(f"it is not valid TOML: {problem}") from None


def find(text: str, path: Sequence[str]) -> Any:
    found: Any = parse(text)
    for key in path:
        found = cast(dict[str, Any], found).get(key) if isinstance(found, dict) else None
    return found


def put(text: str, path: Sequence[str], value: Mapping[str, Any]) -> Edit:
    wanted = parse(text)
    table = wanted
    for key in path[:-1]:
        if not isinstance(table.setdefault(key, {}), dict):
            raise CannotConnect(f"{key} is not a table.")
        table: dict[str, Any] = table[key]
    if table.get(path[-1]) == value:
        return Edit(text, "")
    is_new = path[-1] not in table
    table[path[-1]] = dict(value)
    if is_new:
        appended = _table(text, path, value)
        if _reads(text + appended) == wanted:
            return Edit(text + appended, appended)
    return Edit(_with_tomlkit(text, path, value, wanted), "")


def remove(text: str, path: Sequence[str]) -> str:
    if find(text, path) is None:
        return text
    wanted = parse(text)
    table = wanted
    for key in path[:-1]:
        table = table[key]
    del table[path[-1]]
    return _with_tomlkit(text, path, None, wanted)


def _table(text: str, path: Sequence[str], value: Mapping[str, Any]) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = [f"[{'.'.join(path)}]", *(f"{key} = {_literal(one)}" for key, one in value.items())]
    apart = "" if not text.strip() else newline if text.endswith("\n") else newline * 2
    return apart + newline.join(lines) + newline


def _literal(value: Any) -> str:
    if isinstance(value, dict):
        items = cast(dict[str, Any], value).items()
        return "{ " + ", ".join(f"{key} = {_literal(one)}" for key, one in items) + " }"
    return json.dumps(value, ensure_ascii=False)


def _with_tomlkit(text: str, path: Sequence[str], value: Mapping[str, Any] | None, wanted: dict[str, Any]) -> str:
    import tomlkit  # only for a file that was written or changed by somebody else

    try:
        document = tomlkit.parse(text)
    except ValueError:
        raise CannotConnect(OTHER_FORM) from None
    table: Any = document
    for key in path[:-1]:
        table = table[key]
    entry = table.get(path[-1])
    if value is None:
        del table[path[-1]]
    elif entry is None:
        table[path[-1]] = dict(value)
    else:
        for key in [key for key in entry if key not in value]:
            del entry[key]
        for key, one in value.items():
            if key not in entry or entry[key] != one:
                entry[key] = one
    edited = tomlkit.dumps(document)  # pyright: ignore[reportUnknownMemberType]  # it takes mappings of anything
    if "\r\n" in text and not re.search(r"(?<!\r)\n", text):
        edited = re.sub(r"(?<!\r)\n", "\r\n", edited)
    if _without_empty(_reads(edited), path) != _without_empty(wanted, path):
        raise CannotConnect(OTHER_FORM)
    return edited


def _reads(text: str) -> Any:
    try:
        return tomllib.loads(text)
    except ValueError:
        return None


def _without_empty(read: Any, path: Sequence[str]) -> Any:
    """A table that held the entry alone goes with it, or stays, empty."""
    if isinstance(read, dict) and cast(dict[str, Any], read).get(path[0]) == {}:
        return {key: one for key, one in cast(dict[str, Any], read).items() if key != path[0]}
    return cast(Any, read)


def is_valid(text: str) -> bool:
    return _reads(text) is not None
