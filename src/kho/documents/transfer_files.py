"""A document as a file: its body byte for byte, and what else there is to it in front, as front matter.

A JSON file has no room for that and stays as it is; a file of the same name and `.yaml` beside it says the rest.
What Kho writes there is a name and a JSON value on each line, which is YAML, too, and is read back exactly; what people
write there may be any YAML.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from math import isfinite
from typing import Any, cast

import orjson

from kho.documents.model import MAX_TITLE
from kho.documents.store import Document
from kho.kernel import values
from kho.kernel.clock import iso
from kho.kernel.errors import InvalidParams

KINDS = {".md": "text/markdown", ".markdown": "text/markdown", ".txt": "text/plain", ".json": "application/json"}
ENDINGS = {"text/markdown": ".md", "text/plain": ".txt", "application/json": ".json"}
BESIDE = ".yaml"
"""What is added to the name of a JSON file for the file that says the rest."""
MOST = 256 * 1024
"""Characters of front matter."""

_KNOWN = ("id", "order", "created_at", "is_human_readable", "metadata")
_AMBIGUOUS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
"""Keys that are no texts to a reader of YAML."""
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*", re.A)
_LINE = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*): (.+)", re.A)
_FRONT = re.compile(r"---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.S | re.M)
_NOT_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t]*#*[ \t]*$", re.M)


class Unreadable(ValueError):
    """The file cannot be a document; the message says why."""


@dataclass(frozen=True, slots=True)
class Written:
    """What a file says. None: nothing of that."""

    mime_type: str
    body: str
    id: str | None = None
    order: float | None = None
    created_at: str | None = None
    is_human_readable: bool | None = None
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])


def as_files(document: Document, body: str, order: int) -> dict[str, bytes]:
    """The bytes of the document's file, or files, by how their names end."""
    saying = document.saying
    plain = {key: value for key, value in saying.metadata.items() if _is_plain(key)}
    rest = {key: value for key, value in saying.metadata.items() if key not in plain}
    known: dict[str, Any] = {"id": document.id, **plain, **({"metadata": rest} if rest else {})}
    known |= {"order": order, "is_human_readable": saying.is_human_readable, "created_at": iso(document.created_at)}
    facts = "".join(f"{name}: {_json(value)}\n" for name, value in known.items())
    ending = ENDINGS[saying.mime_type]
    if ending == ".json":
        return {ending: body.encode(), ending + BESIDE: facts.encode()}
    return {ending: f"---\n{facts}---\n{body}".encode()}


def read(ending: str, file: bytes, beside: bytes | None = None) -> Written:
    """The inverse; also for files that Kho did not write."""
    text, mime_type = _text(file), KINDS[ending]
    if mime_type == "application/json":
        return _written(mime_type, text, {} if beside is None else _facts(_text(beside)))
    found = _FRONT.match(text)
    if found is None:
        return Written(mime_type, text)
    if len(found[1]) > MOST:
        raise Unreadable(f"The front matter is longer than {MOST // 1024} KiB.")
    facts = _facts(found[1])
    if facts is None:  # two rules with something between them
        return Written(mime_type, text)
    return _written(mime_type, text[found.end() :], facts)


def title(written: Written, name: str) -> str:
    """For a document that has none: its first heading, or the file's name."""
    heading = _HEADING.search(written.body) if written.mime_type == "text/markdown" else None
    return " ".join((heading[1] if heading else name).split())[:MAX_TITLE]


def _is_plain(key: str) -> bool:
    return bool(_PLAIN.fullmatch(key)) and key not in _KNOWN and key.lower() not in _AMBIGUOUS


def _json(value: Any) -> str:
    return _NOT_YAML.sub(lambda sign: f"\\u{ord(sign[0]):04x}", orjson.dumps(value).decode())


def _text(file: bytes) -> str:
    try:
        return file.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise Unreadable(f"The file is not UTF-8 (byte {problem.start}).") from None


def _written(mime_type: str, body: str, facts: Mapping[str, Any] | None) -> Written:
    if facts is None:
        raise Unreadable(f"The {BESIDE} file beside it does not hold names and values.")
    metadata = {**_fact(facts, "metadata", dict, {}), **{k: v for k, v in facts.items() if k not in _KNOWN}}
    order = _fact(facts, "order", int | float, None)
    if isinstance(order, bool):
        raise Unreadable("'order' must be a number.")
    return Written(
        mime_type,
        body,
        _fact(facts, "id", str, None),
        order,
        _fact(facts, "created_at", str, None),
        _fact(facts, "is_human_readable", bool, None),
        metadata,
    )


def _fact(facts: Mapping[str, Any], name: str, kind: Any, otherwise: Any) -> Any:
    value = facts.get(name)
    if value is None:
        return otherwise
    if not isinstance(value, kind):
        called = {str: "a text", bool: "true or false", dict: "names and values"}.get(kind, "a number")
        raise Unreadable(f"'{name}' must be {called}.")
    return value


def _facts(text: str) -> dict[str, Any] | None:
    """None where this is neither what Kho writes nor YAML with names and values."""
    lines = [_LINE.fullmatch(line) for line in re.split(r"\r?\n", text) if line]
    with suppress(orjson.JSONDecodeError):
        return {line[1]: orjson.loads(line[2]) for line in lines if line} if all(lines) else _by_hand(text)
    return _by_hand(text)


def _by_hand(text: str) -> dict[str, Any] | None:
    import yaml  # takes a moment, and few need it

    try:
        tokens = cast(Any, yaml).scan(text, yaml.SafeLoader)  # the stubs leave its types open
        if any(isinstance(token, yaml.AliasToken) for token in tokens):
            raise Unreadable("The front matter repeats parts of itself ('*name'); write them out.")
        found = yaml.safe_load(text)
    except yaml.YAMLError as problem:
        raise Unreadable(f"The front matter is not YAML: {' '.join(str(problem).split())}") from None
    except RecursionError:
        raise Unreadable("The front matter is nested too deeply.") from None
    if found is None:
        return {}
    if not isinstance(found, dict):
        return None
    facts = cast(dict[str, Any], _plain(found))
    try:
        values.check(facts)
    except InvalidParams as problem:
        raise Unreadable(problem.message) from None
    if isinstance(facts.get("title"), int | float):
        facts["title"] = str(facts["title"])
    if "tags" in facts:
        facts["tags"] = _tags(facts["tags"])
    return facts


def _plain(value: Any) -> Any:
    """As JSON has it."""
    match value:
        case dict():
            return {str(_plain(key)): _plain(one) for key, one in cast(dict[Any, Any], value).items()}
        case list():
            return [_plain(one) for one in cast(list[Any], value)]
        case date():  # and datetime
            return value.isoformat()
        case None | bool() | str():
            return value
        case int() | float():
            return value if isfinite(value) and abs(value) < 2**63 else str(value)
        case _:
            raise Unreadable(
                "The front matter holds something that is neither text, number, list nor names and values."
            )


def _tags(value: Any) -> Any:
    """`tags: a, b` is common."""
    if isinstance(value, str):
        return [tag.strip().removeprefix("#") for tag in value.split(",") if tag.strip()]
    if isinstance(value, list):
        return [str(one) if isinstance(one, int | float) else one for one in cast(list[Any], value)]
    return [] if value is None else value
