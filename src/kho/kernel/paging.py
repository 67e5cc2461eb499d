"""Opaque cursors: where the next page begins, as text that a caller hands back unread."""

import base64
import binascii
from collections.abc import Sequence
from typing import Any, TypeVar

import orjson

from kho.kernel.errors import InvalidParams

T = TypeVar("T")

OF_ANOTHER_LIST = "The cursor does not belong to this list. Start again without it."


def encode(position: Any) -> str:
    return base64.urlsafe_b64encode(orjson.dumps(position)).decode().rstrip("=")


def decode(cursor: str) -> Any:
    try:
        return orjson.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (binascii.Error, ValueError):
        raise InvalidParams(
            "The cursor is not one that Kho gave out. Start again without it.", field="cursor"
        ) from None


def foreign() -> InvalidParams:
    return InvalidParams(OF_ANOTHER_LIST, field="cursor")


def page(items: Sequence[T], cursor: str | None, size: int) -> tuple[Sequence[T], str | None]:
    """One page of a list that is at hand, and the cursor of the next."""
    start = decode(cursor) if cursor else 0
    if type(start) is not int or not 0 <= start <= len(items):
        raise foreign()
    end = start + size
    return items[start:end], encode(end) if end < len(items) else None
