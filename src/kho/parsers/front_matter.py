"""Front matter: what a Markdown file says of itself before it begins, in YAML (`---`) or TOML (`+++`).

Of YAML the part that people write there is understood: names with a text, a list, or something deeper, which is passed
over. Whatever does not look like that is not front matter but the beginning of the text.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, cast

from kho.kernel import front_matter
from kho.parsers.clean import one_line

MOST_TAGS = 32
MAX_TAG = 128
"""Characters of a tag."""
LONGEST = 20_000
"""Characters; what is longer is not front matter."""
_FIELD = re.compile(r"""(?:"([^"]+)"|'([^']+)'|([^\s:#'"\[{&*!|>%@`-][^:\n]*?))[ \t]*:(?:[ \t]+(.*))?$""")
_QUOTED = re.compile(r"""(["'])(.*)\1[ \t]*(?:#.*)?$""")
_COMMENT = re.compile(r"[ \t]+#.*$")
_COMMA = re.compile(r""",(?=(?:[^"]*"[^"]*")*[^"]*$)""")
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
    if found is None or len(found.text) > LONGEST:
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
    return [str(one) for one in several if isinstance(one, str | int | float) and str(one).strip()]


def _tags(given: list[str]) -> tuple[str, ...]:
    """A lone text has them between commas. One that cannot be a tag is left out."""
    found: dict[str, str] = {}
    for tag in given[0].split(",") if len(given) == 1 else given:
        name = " ".join(tag.strip().removeprefix("#").split())
        if 1 <= len(name) <= MAX_TAG and _JOINERS.sub("", name).isprintable():
            found.setdefault(name.casefold(), name)
    return tuple(found.values())[:MOST_TAGS]


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
    fields: dict[str, Any] = {}
    last = ""
    for line in text.split("\n"):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if line[0] in " \t-":  # belongs to the field above
            if not last or (line[0] == "-" and not re.match(r"-(?:[ \t]|$)", line)):
                return None
            _continue(fields, last, line.strip())
            continue
        field = _FIELD.match(line)
        if field is None:
            return None
        last = next(filter(None, field.groups()[:3])).strip().lower()
        fields[last] = _value((field[4] or "").strip())
    return fields if fields else None


def _continue(fields: dict[str, Any], name: str, line: str) -> None:
    before = fields[name]
    if line.startswith("-"):
        items = cast(list[str], before) if isinstance(before, list) else []
        fields[name] = [*items, str(_value(line[1:].strip()))]
    elif isinstance(before, str):
        fields[name] = f"{before.lstrip('|>+- ')} {line}".strip()


def _value(text: str) -> str | list[str]:
    quoted = _QUOTED.match(text)
    if quoted:
        return quoted[2].replace(f"\\{quoted[1]}", quoted[1]) if quoted[1] == '"' else quoted[2].replace("''", "'")
    text = _COMMENT.sub("", text)
    if text.startswith("[") and text.endswith("]"):
        return [str(_value(part.strip())) for part in _COMMA.split(text[1:-1]) if part.strip()]
    return "" if text in ("~", "null") else text
