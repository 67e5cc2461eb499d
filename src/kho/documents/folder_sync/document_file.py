"""A document as a file: its body byte for byte, and what else there is to it in front, as front matter.

A JSON file has no room for that and stays as it is; a file of the same name and `.yaml` beside it says the rest.
What Kho writes there is a name and a JSON value on each line, which is YAML, too.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

import orjson

from kho.documents.folder_sync.front_matter import Unreadable, facts
from kho.documents.model import MAX_TITLE
from kho.documents.store import Document
from kho.lib import front_matter
from kho.lib.clock import iso
from kho.lib.front_matter import Front

KINDS = {".md": "text/markdown", ".markdown": "text/markdown", ".txt": "text/plain", ".json": "application/json"}
ENDINGS = {"text/markdown": ".md", "text/plain": ".txt", "application/json": ".json"}
BESIDE = ".yaml"
"""Added to the name of a JSON file, it names the file that holds the rest."""
MAX_FRONT_MATTER = 256 * 1024
"""Characters of front matter."""

_KNOWN = ("id", "order", "created_at", "is_human_readable", "metadata")
_AMBIGUOUS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
"""Keys that are no texts to a reader of YAML."""
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*", re.A)
_NOT_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t]*#*[ \t]*$", re.M)


@dataclass(frozen=True, slots=True)
class DocumentFile:
    """The content of a file. A field is None where the file does not have it."""

    mime_type: str
    body: str
    id: str | None = None
    order: float | None = None
    created_at: str | None = None
    is_human_readable: bool | None = None
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])


def as_files(document: Document, body: str, order: int) -> dict[str, bytes]:
    """The bytes of the document's file, or files, by how their names end."""
    version = document.version
    plain = {key: value for key, value in version.metadata.items() if _is_plain(key)}
    rest = {key: value for key, value in version.metadata.items() if key not in plain}
    known: dict[str, Any] = {"id": document.id, **plain, **({"metadata": rest} if rest else {})}
    known |= {"order": order, "is_human_readable": version.is_human_readable, "created_at": iso(document.created_at)}
    front = "".join(f"{name}: {_json(value)}\n" for name, value in known.items())
    ending = ENDINGS[version.mime_type]
    if ending == ".json":
        return {ending: body.encode(), ending + BESIDE: front.encode()}
    return {ending: f"---\n{front}---\n{body}".encode()}


def read(ending: str, file: bytes, beside: bytes | None = None) -> DocumentFile:
    """The inverse; also for files that Kho did not write."""
    text, mime_type = _text(file), KINDS[ending]
    if mime_type == "application/json":
        return _written(mime_type, text, {} if beside is None else facts(Front(_text(beside), False, 0)))
    front = front_matter.find(text)
    if front is None:
        return DocumentFile(mime_type, text)
    if len(front.text) > MAX_FRONT_MATTER:
        raise Unreadable(f"The front matter is longer than {MAX_FRONT_MATTER // 1024} KiB.")
    found = facts(front)
    if found is None:  # two rules with something between them
        return DocumentFile(mime_type, text)
    return _written(mime_type, text[front.end :], found)


def title(written: DocumentFile, name: str) -> str:
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


def _written(mime_type: str, body: str, found: Mapping[str, Any] | None) -> DocumentFile:
    if found is None:
        raise Unreadable(f"The {BESIDE} file beside it does not hold names and values.")
    metadata = {**_fact(found, "metadata", dict, {}), **{k: v for k, v in found.items() if k not in _KNOWN}}
    return DocumentFile(
        mime_type,
        body,
        _fact(found, "id", str, None),
        _order(found.get("order")),
        _fact(found, "created_at", str, None),
        _fact(found, "is_human_readable", bool, None),
        metadata,
    )


def _fact(found: Mapping[str, Any], name: str, kind: Any, otherwise: Any) -> Any:
    value = found.get(name)
    if value is None:
        return otherwise
    if not isinstance(value, kind):
        called = {str: "a text", bool: "true or false", dict: "names and values"}[kind]
        raise Unreadable(f"'{name}' must be {called}.")
    return value


def _order(value: Any) -> float | None:
    """Also of a number that stayed a text, because it is written like none of Kho's: here only its size counts."""
    if isinstance(value, str):
        with suppress(ValueError):
            value = float(value)
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)):
        return value
    raise Unreadable("'order' must be a number.")
