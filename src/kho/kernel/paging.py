"""Opaque cursors: the start of the next page as text that clients send back unchanged."""

import base64
import binascii
from collections.abc import Callable, Sequence
from types import UnionType
from typing import Any, TypeVar, cast

import orjson

from kho.kernel.errors import InvalidParams

T = TypeVar("T")


def encode(position: Any) -> str:
    return base64.urlsafe_b64encode(orjson.dumps(position)).decode().rstrip("=")


def decode(cursor: str) -> Any:
    try:
        return orjson.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (binascii.Error, ValueError):
        raise InvalidParams("The cursor is not valid. Start again without it.", field="cursor") from None


def foreign() -> InvalidParams:
    return InvalidParams("The cursor does not belong to this list. Start again without it.", field="cursor")


def place(cursor: str | None, *parts: type | UnionType) -> tuple[Any, ...] | None:
    """Decode a cursor into parts of these types, as the list passed them to `encode`; None for the first page."""
    if cursor is None:
        return None
    found = decode(cursor)
    given = tuple(cast(list[Any], found)) if isinstance(found, list) else ()
    if len(given) != len(parts) or not all(map(_is, given, parts)):
        raise foreign()
    return given


def _is(part: Any, kind: type | UnionType) -> bool:
    return isinstance(part, kind) and not isinstance(part, bool)  # JSON's true is not a number


def cut(rows: Sequence[T], limit: int, key: Callable[[T], Any]) -> tuple[Sequence[T], str | None]:
    """Cut `limit + 1` rows that were read to a page, and return the next cursor: the key of the page's last row."""
    return rows[:limit], encode(key(rows[limit - 1])) if len(rows) > limit else None


def page(items: Sequence[T], cursor: str | None, size: int) -> tuple[Sequence[T], str | None]:
    """Return one page of a list in memory and the cursor of the next page."""
    start = decode(cursor) if cursor else 0
    if type(start) is not int or not 0 <= start <= len(items):
        raise foreign()
    end = start + size
    return items[start:end], encode(end) if end < len(items) else None
