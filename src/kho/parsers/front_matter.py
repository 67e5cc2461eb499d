"""Front matter: metadata at the beginning of a Markdown file, in YAML (`---`) or TOML (`+++`).

Fields begin at the left margin; anything that does not look like that is the beginning of the text, not front matter. A
field that is not valid YAML, as people write them (`title: Tea: a guide`), is kept as text.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any, cast

from kho.lib import front_matter
from kho.lib.dataclass import dataclass
from kho.parsers.clean import one_line

MAX_TAGS = 32
MAX_TAG = 128
"""Maximum characters of a tag."""
MAX_FRONT_MATTER = 20_000
"""Maximum characters of front matter; anything longer is treated as text."""
_FIELD = re.compile(r"""(?:"([^"]+)"|'([^']+)'|([^\s:#'"\[{&*!|>%@`-][^:\n]*?))[ \t]*:(?:[ \t]+(.*))?$""")
_JOINERS = re.compile("[\u200c\u200d]")
"""Joiners between letters of some scripts and parts of some emoji: the only invisible characters allowed in a tag."""
_DAY = re.compile(r"\d{4}(?:-\d{2}(?:-\d{2})?)?(?=$|[T ])", re.A)


@dataclass(frozen=True, slots=True)
class FileMetadata:
    title: str = ""
    tags: tuple[str, ...] = ()
    author: str | None = None
    published: str | None = None


def split(text: str) -> tuple[FileMetadata, str]:
    """Return the metadata, and the text without it. A text that has nothing but front matter stays as it is."""
    found = front_matter.find(text)
    if found is None or len(found.text) > MAX_FRONT_MATTER:
        return FileMetadata(), text
    fields = _toml(found.text) if found.is_toml else _yaml(found.text)
    rest = text[found.end :]
    if fields is None or not rest.strip():
        return FileMetadata(), text
    return _front(fields), rest


def _front(fields: Mapping[str, Any]) -> FileMetadata:
    authors = _texts(fields.get("author") or fields.get("authors"))
    title = _texts(fields.get("title"))
    return FileMetadata(
        one_line(title[0]) if title else "",
        _tags(_texts(fields.get("tags"))),
        one_line(", ".join(authors)) or None,
        _published(fields.get("date")),
    )


def _texts(value: Any) -> list[str]:
    several = cast(list[Any], value) if isinstance(value, list) else [value]
    plain = [str(one).lower() if isinstance(one, bool) else one for one in several]
    return [str(one) for one in plain if isinstance(one, str | int | float) and str(one).strip()]


def _tags(given: list[str]) -> tuple[str, ...]:
    """Return the valid tags. A single string is split at commas."""
    found: dict[str, str] = {}
    for tag in given[0].split(",") if len(given) == 1 else given:
        name = " ".join(tag.strip().removeprefix("#").split())
        if 1 <= len(name) <= MAX_TAG and _JOINERS.sub("", name).isprintable():
            found.setdefault(name.casefold(), name)
    return tuple(found.values())[:MAX_TAGS]


def _published(value: Any) -> str | None:
    """Return the date without the time."""
    text = value.isoformat() if isinstance(value, date) else str(value)
    day = _DAY.match(text)
    try:
        return day[0] if day and date.fromisoformat(f"{day[0]}-01-01"[:10]) else None
    except ValueError:
        return None


def _toml(text: str) -> dict[str, Any] | None:
    try:
        return front_matter.toml(text)
    except ValueError:
        return None


def _yaml(text: str) -> dict[str, Any] | None:
    """Return the fields by lower-case name; None if this is not front matter."""
    fields: list[list[str]] = []
    for line in text.split("\n"):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if line[0] not in " \t-":
            if not _FIELD.match(line):
                return None
            fields.append([line])
        elif fields and re.match(r"[ \t]|-(?:[ \t]|$)", line):  # belongs to the field above
            fields[-1].append(line)
        else:
            return None
    return {name: value for lines in fields for name, value in _field(lines)} or None


def _field(lines: list[str]) -> Iterator[tuple[str, Any]]:
    try:
        found = front_matter.yaml("\n".join(lines))
    except (front_matter.Malformed, RecursionError):
        found = None
    if isinstance(found, dict):
        yield from ((name.strip().lower(), value) for name, value in cast(dict[str, Any], found).items())
    elif field := _FIELD.match(lines[0]):
        items = [line.strip()[1:].strip() for line in lines[1:] if line.lstrip().startswith("-")]
        yield next(filter(None, field.groups()[:3])).strip().lower(), items or (field[4] or "").strip()
