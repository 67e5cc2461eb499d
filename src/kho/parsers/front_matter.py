"""Front matter: what a Markdown file says of itself before it begins, in YAML (`---`) or TOML (`+++`).

Fields begin at the left margin; whatever does not look like that is not front matter but the beginning of the text. A
field that is no YAML, as people write them (`title: Tea: a guide`), keeps its words.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, cast

from kho.lib import front_matter
from kho.parsers.clean import one_line

MAX_TAGS = 32
MAX_TAG = 128
"""Characters of a tag."""
MAX_FRONT_MATTER = 20_000
"""Characters; what is longer is not front matter."""
_FIELD = re.compile(r"""(?:"([^"]+)"|'([^']+)'|([^\s:#'"\[{&*!|>%@`-][^:\n]*?))[ \t]*:(?:[ \t]+(.*))?$""")
_JOINERS = re.compile("[\u200c\u200d]")
"""Between the letters of some scripts and the parts of some emoji; no other sign that cannot be seen is in a tag."""
_DAY = re.compile(r"\d{4}(?:-\d{2}(?:-\d{2})?)?(?=$|[T ])", re.A)


@dataclass(frozen=True, slots=True)
class Front:
    title: str = ""
    tags: tuple[str, ...] = ()
    author: str | None = None
    published: str | None = None


def split(text: str) -> tuple[Front, str]:
    """What the front matter says, and the text without it. A text that has nothing else stays as it is."""
    found = front_matter.find(text)
    if found is None or len(found.text) > MAX_FRONT_MATTER:
        return Front(), text
    fields = _toml(found.text) if found.is_toml else _yaml(found.text)
    rest = text[found.end :]
    if fields is None or not rest.strip():
        return Front(), text
    return _front(fields), rest


def _front(fields: Mapping[str, Any]) -> Front:
    authors = _texts(fields.get("author") or fields.get("authors"))
    title = _texts(fields.get("title"))
    return Front(
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
    """A lone text has them between commas. One that cannot be a tag is left out."""
    found: dict[str, str] = {}
    for tag in given[0].split(",") if len(given) == 1 else given:
        name = " ".join(tag.strip().removeprefix("#").split())
        if 1 <= len(name) <= MAX_TAG and _JOINERS.sub("", name).isprintable():
            found.setdefault(name.casefold(), name)
    return tuple(found.values())[:MAX_TAGS]


def _published(value: Any) -> str | None:
    """The day; a time of it is more than is kept."""
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
    """By name in small letters; None when this is not front matter."""
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
