"""What all models need done to a text, and to the name of a model."""

import hashlib
import re

_surrogates = re.compile("[\ud800-\udfff]")


def whole(text: str) -> str:
    """Without halves of characters, which can be neither sent nor cut into tokens."""
    return _surrogates.sub("\ufffd", text)


def sendable(text: str) -> str:
    """Servers refuse an empty text."""
    return whole(text) or " "


def named(model: str, passage_prefix: str, dimension: int | None = None) -> str:
    """The name under which vectors may be compared: with all that changes them in it."""
    parts = [model]
    if dimension is not None:
        parts.append(str(dimension))
    if passage_prefix:
        parts.append(hashlib.blake2b(passage_prefix.encode(), digest_size=4).hexdigest())
    return "/".join(parts)
