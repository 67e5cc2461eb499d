"""Checks on JSON values that hold at every door, before any model sees them."""

from typing import Any, cast

from kho.kernel.errors import InvalidParams
from kho.lib.jsonrpc import MAX_DEPTH


def check(value: Any) -> None:
    """Refuses what one database would take and the other not (NUL), what is no text at all (lone surrogates),
    and nesting that only serves to exhaust the stack."""
    stack: list[tuple[Any, str, int]] = [(value, "", 0)]
    while stack:
        item, path, depth = stack.pop()
        if isinstance(item, str):
            _check_text(item, path)
        elif isinstance(item, dict | list):
            if depth >= MAX_DEPTH:
                raise InvalidParams(f"The arguments are nested more than {MAX_DEPTH} levels deep.")
            if isinstance(item, dict):
                for key, inner in cast(dict[str, Any], item).items():
                    _check_text(key, path)
                    stack.append((inner, f"{path}.{key}" if path else key, depth + 1))
            else:
                for index, inner in enumerate(cast(list[Any], item)):
                    stack.append((inner, f"{path}[{index}]", depth + 1))


def _check_text(text: str, path: str) -> None:
    if text.isascii():
        if "\0" not in text:
            return
    else:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InvalidParams("Text must be valid Unicode: it holds a lone surrogate.", field=_name(path)) from None
        if "\0" not in text:
            return
    raise InvalidParams("Text must not hold the NUL character.", field=_name(path))


def _name(path: str) -> str:
    return path.encode("utf-8", "replace").decode().replace("\0", "\\0")
