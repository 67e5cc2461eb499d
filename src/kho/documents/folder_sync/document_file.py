"""Convert documents to files and back: the body byte for byte, preceded by the other fields as front matter.

A JSON file cannot hold front matter and has only the body; a file of the same name plus `.yaml` beside it holds the
other fields. Kho writes a name and a JSON value on each line, which is valid YAML.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field
from math import isfinite
from typing import Any

import orjson
from pydantic import ValidationError

from kho.documents import model
from kho.documents.folder_sync.front_matter import NotADocument, facts
from kho.documents.model import MAX_TITLE, PLAIN
from kho.documents.store import DocumentVersion, StoredDocument
from kho.kernel import validation
from kho.kernel.errors import about
from kho.kernel.validation import check_values
from kho.lib import front_matter
from kho.lib.clock import iso
from kho.lib.dataclass import dataclass
from kho.lib.front_matter import FrontMatter

KINDS = {".md": "text/markdown", ".markdown": "text/markdown", ".txt": "text/plain", ".json": "application/json"}
ENDINGS = {"text/markdown": ".md", "text/plain": ".txt", "application/json": ".json"}
BESIDE = ".yaml"
"""Suffix that is added to the name of a JSON file for the file that holds its other fields."""
MAX_FRONT_MATTER = 256 * 1024
"""Maximum characters of front matter."""

_KNOWN = ("id", "order", "created_at", "metadata", *PLAIN)
_AMBIGUOUS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
"""Keys that a YAML parser does not read as strings."""
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*", re.A)
_NOT_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t]*#*[ \t]*$", re.M)


@dataclass(frozen=True, slots=True)
class DocumentFile:
    """The content of a file. A field is None if the file does not have it."""

    mime_type: str
    body: str
    id: str | None = None
    order: float | None = None
    created_at: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    plain: dict[str, Any] = field(default_factory=dict[str, Any])
    """Those of the `PLAIN` fields that the file has."""


def as_files(document: StoredDocument, body: str, order: int) -> dict[str, bytes]:
    """Return the contents of the document's file or files, by the ending of their names."""
    version = document.version
    plain = {key: value for key, value in version.metadata.items() if _is_plain(key)}
    rest = {key: value for key, value in version.metadata.items() if key not in plain}
    known: dict[str, Any] = {"id": document.id, **plain, **({"metadata": rest} if rest else {})}
    known |= {"order": order, **_plain(version), "created_at": iso(document.created_at)}
    front = "".join(f"{name}: {_json(value)}\n" for name, value in known.items())
    ending = ENDINGS[version.mime_type]
    if ending == ".json":
        return {ending: body.encode(), ending + BESIDE: front.encode()}
    return {ending: f"---\n{front}---\n{body}".encode()}


def read(ending: str, file: bytes, beside: bytes | None = None) -> DocumentFile:
    """Inverse of `as_files`; also reads files that Kho did not write. Raises NotADocument."""
    text, mime_type = _text(file), KINDS[ending]
    if mime_type == "application/json":
        return _written(mime_type, text, {} if beside is None else facts(FrontMatter(_text(beside), False, 0)))
    front = front_matter.find(text)
    if front is None:
        return DocumentFile(mime_type, text)
    if len(front.text) > MAX_FRONT_MATTER:
        raise NotADocument(f"The front matter is longer than {MAX_FRONT_MATTER // 1024} KiB.")
    found = facts(front)
    if found is None:  # no front matter: two horizontal rules with text between them
        return DocumentFile(mime_type, text)
    return _written(mime_type, text[front.end :], found)


def title(written: DocumentFile, name: str) -> str:
    """Return a title for a document without one: its first heading, or the file's name."""
    heading = _HEADING.search(written.body) if written.mime_type == "text/markdown" else None
    return " ".join((heading[1] if heading else name).split())[:MAX_TITLE]


def differences(written: DocumentFile, name: str, document: StoredDocument, body: str) -> dict[str, Any]:
    """Return the differences between a file and its document as a patch. A file that Kho did not write changes only the
    fields that it has."""
    version = document.version
    metadata = stated(written, name, version.metadata)
    patch: dict[str, Any] = {}
    content = {
        key: value
        for key, value, now in (("mime_type", written.mime_type, version.mime_type), ("body", written.body, body))
        if value != now
    }
    if content:
        patch["content"] = content
    check_values(metadata)
    if model.Patch.model_validate({"metadata": metadata}).metadata != version.metadata:
        patch["metadata"] = metadata
    return patch | {name: value for name, value in written.plain.items() if value != getattr(version, name)}


def stated(written: DocumentFile, name: str, before: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the metadata that a file states: all of it if the file has a document id, else changes to `before`."""
    if written.id is not None:
        return written.metadata
    return {"title": title(written, name), **(before or {}), **written.metadata}


def _is_plain(key: str) -> bool:
    return bool(_PLAIN.fullmatch(key)) and key not in _KNOWN and key.lower() not in _AMBIGUOUS


def _plain(version: DocumentVersion) -> dict[str, Any]:
    return {name: value for name in PLAIN if (value := getattr(version, name)) is not None}


def _json(value: Any) -> str:
    return _NOT_YAML.sub(lambda sign: f"\\u{ord(sign[0]):04x}", orjson.dumps(value).decode())


def _text(file: bytes) -> str:
    try:
        return file.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise NotADocument(f"The file is not UTF-8 (byte {problem.start}).") from None


def _written(mime_type: str, body: str, found: Mapping[str, Any] | None) -> DocumentFile:
    if found is None:
        raise NotADocument(f"The {BESIDE} file beside it does not hold names and values.")
    metadata = {**_fact(found, "metadata", dict, {}), **{k: v for k, v in found.items() if k not in _KNOWN}}
    plain = {name: found[name] for name in PLAIN if found.get(name) is not None}
    try:
        model.Patch.model_validate(plain, strict=True)
    except ValidationError as failure:
        problem = validation.found(failure)[0]
        raise NotADocument(about(f"'{problem.field}'", f"{problem.message}.")) from None
    return DocumentFile(
        mime_type,
        body,
        _fact(found, "id", str, None),
        _order(found.get("order")),
        _fact(found, "created_at", str, None),
        metadata,
        plain,
    )


def _fact(found: Mapping[str, Any], name: str, kind: Any, otherwise: Any) -> Any:
    value = found.get(name)
    if value is None:
        return otherwise
    if not isinstance(value, kind):
        called = {str: "a text", dict: "names and values"}[kind]
        raise NotADocument(f"'{name}' must be {called}.")
    return value


def _order(value: Any) -> float | None:
    """Parse `order`; also from a number that stayed a string because of its spelling: here only its value counts."""
    if isinstance(value, str):
        with suppress(ValueError):
            value = float(value)
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)):
        return value
    raise NotADocument("'order' must be a number.")
