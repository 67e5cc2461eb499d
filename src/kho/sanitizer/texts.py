"""The texts that a call brings, each under the name that the caller knows it by."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any, cast

from pydantic import BaseModel

from kho.kernel.params import NotScreened
from kho.lib.dataclass import dataclass
from kho.sanitizer.scan import BETWEEN_BLOBS, Finding, scan


@dataclass(frozen=True, slots=True)
class NamedText:
    name: str
    text: str
    lead: str = ""
    """What comes before it where names are the caller's own, as in metadata: `{"db_password": "…"}` is found by it."""


def texts_of(params: Any) -> list[NamedText]:
    """Return every text of an operation's parameters."""
    return [one for one in _within(params, "", "") if one.text]


def _within(value: Any, name: str, lead: str) -> Iterator[NamedText]:
    if isinstance(value, str):
        yield NamedText(name, value, lead)
    elif isinstance(value, BaseModel):
        for field, info in type(value).model_fields.items():
            if not any(isinstance(one, NotScreened) for one in info.metadata):
                yield from _within(getattr(value, field), f"{name}.{field}" if name else field, "")
    elif isinstance(value, Mapping):
        for key, item in cast(Mapping[Any, Any], value).items():
            yield NamedText(name, str(key))
            yield from _within(item, f"{name}.{key}" if name else str(key), f"{key}: ")
    elif isinstance(value, list | tuple | set | frozenset):
        for place, item in enumerate(cast(Iterable[Any], value)):
            yield from _within(item, f"{name}[{place}]", lead)


def look(texts: Iterable[NamedText], *, personal: bool) -> list[tuple[NamedText, Finding]]:
    """Find secrets, and `personal` data if asked for. Positions are those in the text itself. All texts are scanned as
    one, because a list of ten thousand words would else be ten thousand scans."""
    listed = list(texts)
    parts = [one.lead + one.text + BETWEEN_BLOBS for one in listed]
    starts = [0, *accumulate(map(len, parts))]
    found: list[tuple[NamedText, Finding]] = []
    place = 0
    for one in scan("".join(parts), personal=personal):
        while one.start >= starts[place + 1]:
            place += 1
        inside = starts[place] + len(listed[place].lead)
        start, end = max(0, one.start - inside), min(one.end - inside, len(listed[place].text))
        if end > start:
            found.append((listed[place], Finding(one.kind, start, end, one.tier)))
    return found
