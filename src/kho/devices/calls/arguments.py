"""Checks arguments against a board's schema before they are sent.

Firmware uses the default where an optional argument has the wrong type, ignores unknown names, and truncates numbers: a
call with a mistake in it would succeed and do something else. So mistakes are reported here.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, cast

import orjson

from kho.devices.errors import WrongArguments
from kho.devices.protocol.tool_listing import BoardTool
from kho.kernel.validation import check_values
from kho.lib.lazy_regex import pattern

MAX_BYTES = 64 * 1024
_UPGRADE, _ADDRESS = "upgrade_firmware", "url"
_INTEGER = pattern(r"[+-]?\d{1,15}(\.0+)?")
_INT_32 = 2**31
_KINDS: dict[str, tuple[type[Any] | tuple[type[Any], ...], str]] = {
    "boolean": (bool, "true or false"),
    "integer": (int, "a whole number"),
    "number": ((int, float), "a number"),
    "string": (str, "a text"),
    "array": (list, "a list"),
    "object": (dict, "an object"),
    "null": (type(None), "null"),
}


def honest(tool: BoardTool) -> dict[str, Any]:
    """Return the tool's corrected schema. Firmware declares the description of `url` of upgrade_firmware as its
    default, and would install from that; with such a default, `url` becomes required."""
    properties = cast(dict[str, dict[str, Any]], tool.schema.get("properties", {}))
    part = properties.get(_ADDRESS)
    default = None if part is None else part.get("default")
    if part is None or not tool.name.endswith(_UPGRADE) or not isinstance(default, str) or "://" in default:
        return dict(tool.schema)
    meant = {key: value for key, value in part.items() if key != "default"}
    required = cast(list[str], tool.schema.get("required", []))
    return {
        **tool.schema,
        "properties": {**properties, _ADDRESS: meant},
        "required": list(dict.fromkeys([*required, _ADDRESS])),
    }


def check(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments as they are sent. Raise WrongArguments, which lists all problems.

    A schema without `properties` stands for one that could not be used: then only the board can check.
    """
    given = {name: value for name, value in arguments.items() if value is not None}
    check_values(given)
    if _size(given) > MAX_BYTES:
        raise WrongArguments([("", f"The arguments are longer than {MAX_BYTES // 1024} KiB.")])
    if "properties" not in schema:
        return given
    properties = cast(dict[str, dict[str, Any]], schema["properties"])
    required = cast(list[str], schema.get("required", []))
    problems: list[tuple[str, str]] = []
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name not in properties and name not in required:
            problems.append((name, _unknown(name, [*properties])))
            continue
        part = properties.get(name, {})
        found[name] = _coerced(part, value)
        if problem := _problem(part, found[name]):
            problems.append((name, f"is {_shown(value)}, but must be {problem}"))
    for name in required:
        if name not in given:
            problems.append((name, f"is missing: it must be {wanted(properties.get(name, {}))}"))
    if problems:
        raise WrongArguments(problems)
    return found


def _size(arguments: dict[str, Any]) -> int:
    try:
        return len(orjson.dumps(arguments))
    except TypeError as problem:
        raise WrongArguments([("", f"The arguments cannot be sent: {problem}.")]) from None


def _unknown(name: str, known: list[str]) -> str:
    if not known:
        return "is not known: the tool takes no arguments"
    close = get_close_matches(name.casefold(), known, 1, 0.6)
    hint = f"perhaps '{close[0]}' is meant" if close else f"the tool takes {', '.join(known)}"
    return f"is not known: {hint}"


def _coerced(part: Mapping[str, Any], value: Any) -> Any:
    """Convert equal values: models write 50.0 or "50" for 50. Only exact equivalents are accepted."""
    kind = part.get("type")
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    if kind == "integer" and isinstance(value, str) and value.isascii() and _INTEGER.fullmatch(value.strip()):
        return int(value.strip().partition(".")[0])
    if kind == "boolean" and isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    return value


def _problem(part: Mapping[str, Any], value: Any) -> str:
    """Return what the value must be; empty if it is valid."""
    kind = part.get("type")
    if isinstance(kind, str) and kind in _KINDS:
        expected = _KINDS[kind][0]
        if not isinstance(value, expected) or (isinstance(value, bool) and kind != "boolean"):
            return wanted(part)
    if isinstance(value, int | float) and not isinstance(value, bool):
        low, high = _limits(part)
        if (low is not None and value < low) or (high is not None and value > high):
            return wanted(part)
        if kind == "integer" and not -_INT_32 <= value < _INT_32:
            return "a whole number of 32 bits"
    allowed = part.get("enum")
    if isinstance(allowed, list) and value not in cast(list[Any], allowed):
        return wanted(part)
    return ""


def wanted(part: Mapping[str, Any]) -> str:
    """Describe what an argument must be, e.g. "a whole number from 0 to 100"."""
    allowed = part.get("enum")
    if isinstance(allowed, list) and allowed:
        return f"one of {', '.join(_shown(one) for one in cast(list[Any], allowed)[:20])}"
    kind = part.get("type")
    named = _KINDS[kind][1] if isinstance(kind, str) and kind in _KINDS else "given"
    low, high = _limits(part)
    if low is not None and high is not None:
        return f"{named} from {low} to {high}"
    if low is not None:
        return f"{named}, {low} or more"
    return named if high is None else f"{named}, {high} or less"


def _limits(part: Mapping[str, Any]) -> tuple[float | None, float | None]:
    low, high = part.get("minimum"), part.get("maximum")
    return (low if _is_number(low) else None), (high if _is_number(high) else None)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    text = orjson.dumps(value).decode()
    return text if len(text) <= 60 else text[:59] + "…"
