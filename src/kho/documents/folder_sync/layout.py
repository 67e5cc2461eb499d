"""File names of an exported folder, and the scan of a folder for import.

`name.md` is a document, and the folder `name` beside it holds its children. Names are made from titles, without
characters that some file system rejects, and siblings' names differ in more than case. The document's id is in the
file, so files may be renamed.
"""

import os
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from math import inf
from pathlib import Path

from kho.documents.folder_sync.document_file import (
    BESIDE,
    ENDINGS,
    KINDS,
    MAX_FRONT_MATTER,
    DocumentFile,
    NotADocument,
    read,
)
from kho.documents.folder_sync.model import FailedFile
from kho.documents.model import MAX_BODY, ROOT
from kho.documents.tree import MAX_DEPTH
from kho.lib.dataclass import dataclass
from kho.lib.sql import digest

MAX_NAME, MAX_DEEP_NAME = 100, 24
"""Maximum bytes of a name; shorter from DEEP_LEVEL on, because the whole path is limited, too."""
DEEP_LEVEL = 10
MAX_ID = 128
_FORBIDDEN = re.compile(r'[<>:"/\\|?*\s]+')
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.I)
_NOT_IN_IDS = re.compile(r"[^A-Za-z0-9._:/-]+")
_DIGITS = re.compile(r"(\d+)", re.A)


@dataclass(frozen=True, slots=True)
class NamedDocument:
    """What the file name of a document depends on."""

    title: str
    mime_type: str
    name: str = ""
    """Name of its existing file, if any."""


@dataclass(frozen=True, slots=True)
class FilePlace:
    """The file that a document is written to."""

    id: str
    path: str
    """Path without its ending."""
    ending: str
    order: int
    """Position among its siblings."""


def places(shape: Mapping[str, Sequence[str]], known: Mapping[str, NamedDocument], top: str) -> Iterator[FilePlace]:
    """Yield the file places of all documents below `top`."""
    waiting = [(top, "", 0)]
    while waiting:
        parent, folder, depth = waiting.pop()
        taken: set[str] = set()
        numbers: dict[str, int] = {}
        orders = {id: order for order, id in enumerate(one for one in shape.get(parent, ()) if one in known)}
        for id in sorted(orders, key=lambda id: not known[id].name):  # existing names are kept: they come first
            title = _safe(known[id].title) or _safe(id) or "document"
            wanted = known[id].name or _cut(title, MAX_NAME if depth < DEEP_LEVEL else MAX_DEEP_NAME)
            ending = ENDINGS[known[id].mime_type]
            path = folder + _free(wanted, ending, taken, numbers)
            yield FilePlace(id, path, ending, orders[id])
            if id in shape:
                waiting.append((id, f"{path}/", depth + 1))


def _safe(text: str) -> str:
    visible = "".join(sign if sign.isprintable() else " " for sign in unicodedata.normalize("NFC", text))
    name = _FORBIDDEN.sub("-", visible).strip("-.")
    return f"_{name}" if _RESERVED.fullmatch(name) else name


def _cut(name: str, longest: int) -> str:
    return name.encode()[:longest].decode(errors="ignore").rstrip("-.")


def _free(wanted: str, ending: str, taken: set[str], numbers: dict[str, int]) -> str:
    """Return the name, with a number appended if a sibling's file or folder has it already."""
    number = numbers.get(_alike(wanted), 1)
    while True:
        name = wanted if number == 1 else f"{wanted}-{number}"
        number += 1
        files = {_alike(one) for one in (name, name + ending, name + ending + BESIDE)}
        if not files & taken:
            taken |= files
            numbers[_alike(wanted)] = number
            return name


def _alike(name: str) -> str:
    """Normalise a name so that names that are the same file on some file system become equal."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


# -- reading -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FolderEntry:
    """A document found in a folder."""

    path: str
    name: str
    id: str
    parent: str | None
    """None: the parent's file could not be read."""
    file: Path | None
    """None: a folder without a file of its own."""
    is_named: bool = False
    """True if the file contains its document's id."""
    order: float = inf


@dataclass(slots=True)
class FolderScan:
    found: list[FolderEntry] = field(default_factory=list[FolderEntry])
    """Parents before their children, siblings in order."""
    failed: list[FailedFile] = field(default_factory=list[FailedFile])
    ignored: int = 0
    known: Mapping[str, str] = field(default_factory=dict[str, str])
    """Document ids by path, from the last time."""
    taken: frozenset[str] = frozenset()
    """Those of the known ids whose files still exist."""


def scan(top: Path, parent: str, known: Mapping[str, str] | None = None) -> FolderScan:
    """Scan a folder for documents. Raises OSError if the folder itself cannot be read."""
    known = known or {}
    result = FolderScan(known=known, taken=frozenset(id for path, id in known.items() if (top / path).is_file()))
    result.found = _below(top, "", parent, "" if parent == ROOT else f"{parent}/", 1, result)
    return result


def folder_of(directory: str) -> Path:
    return Path(os.path.expanduser(directory))  # noqa: PTH111 (a '~name' that nobody has stays as it is)


def load(file: Path) -> DocumentFile:
    """Read a file as a document. Raises NotADocument with the reason."""
    ending = file.suffix.lower()
    beside = file.with_name(file.name + BESIDE) if ENDINGS[KINDS[ending]] == ".json" else None
    try:
        if file.stat().st_size > MAX_BODY + MAX_FRONT_MATTER:
            raise NotADocument("The file is too large: a document has at most 4 MiB.")
        if beside and beside.is_file() and beside.stat().st_size > MAX_FRONT_MATTER:
            raise NotADocument(f"{beside.name} is longer than {MAX_FRONT_MATTER // 1024} KiB.")
        return read(ending, file.read_bytes(), beside.read_bytes() if beside and beside.is_file() else None)
    except OSError as problem:
        raise NotADocument(f"The file cannot be read: {problem.strerror}.") from None


def _below(
    folder: Path, inside: str, parent: str | None, prefix: str, depth: int, result: FolderScan
) -> list[FolderEntry]:
    heads: dict[str, FolderEntry | None] = {}
    documents: list[FolderEntry] = []
    folders: list[Path] = []
    for entry in sorted(folder.iterdir(), key=lambda path: (path.suffix.lower() != ".md", path.name)):
        path = inside + entry.name
        problem = _not_for_us(entry, depth)
        if problem is not None:
            result.failed += [FailedFile(path=_shown(path), reason=problem)] if problem else []
        elif entry.is_dir():
            folders.append(entry)
        elif entry.suffix.lower() in KINDS:
            found = _document(entry, path, parent, prefix, result)
            heads.setdefault(entry.stem, found)
            documents += [found] if found else []
        elif not (entry.suffix == BESIDE and entry.with_suffix("").suffix.lower() == ".json"):
            result.ignored += 1
    below: dict[str, list[FolderEntry]] = {}
    for entry in folders:
        path = inside + entry.name
        head = heads.get(entry.name)
        own = FolderEntry(f"{path}/", entry.name, _id_of(f"{path}/", prefix + path, result), parent, None)
        above = (head or own).id if head or entry.name not in heads else None
        try:
            found = _below(entry, f"{path}/", above, prefix, depth + 1, result)
        except OSError as problem:
            result.failed.append(FailedFile(path=f"{path}/", reason=f"The folder cannot be read: {problem.strerror}."))
            continue
        if found and entry.name not in heads:
            documents.append(own)
        below[(head or own).path] = found
    documents.sort(key=lambda one: (one.order, *_naturally(one.name)))
    return [one for document in documents for one in (document, *below.pop(document.path, ()))] + [
        one for lost in below.values() for one in lost
    ]


def _not_for_us(entry: Path, depth: int) -> str | None:
    """Return why an entry is skipped: '' if silently, None if it is not skipped."""
    if entry.name.startswith("."):
        return ""
    if entry.is_symlink():
        return "It is a link; links are not followed."
    if entry.name.encode("utf-8", "replace").decode() != entry.name:
        return "Its name is not UTF-8."
    if entry.is_dir() and depth >= MAX_DEPTH:
        return f"It is too deep: a tree has at most {MAX_DEPTH} levels."
    return None if entry.is_dir() or entry.is_file() else ""


def _document(entry: Path, path: str, parent: str | None, prefix: str, result: FolderScan) -> FolderEntry | None:
    try:
        written = load(entry)
    except NotADocument as problem:
        result.failed.append(FailedFile(path=path, reason=str(problem)))
        return None
    id = written.id or _id_of(path, prefix + path.removesuffix(".md"), result)
    found = FolderEntry(path, entry.stem, id, parent, entry, written.id is not None)
    return found if written.order is None else replace(found, order=written.order)


def _id_of(path: str, wanted: str, result: FolderScan) -> str:
    """Return the id that the path had the last time, or one made from the path; with a hash if that is the id of
    another file, which had this path before it was renamed."""
    if path in result.known:
        return result.known[path]
    id = _id(wanted)
    return _id(wanted, numbered=True) if id in result.taken else id


def _id(path: str, *, numbered: bool = False) -> str:
    """Make an id from a path. If it has characters that ids do not allow, or is too long, these are replaced or cut and
    a hash of the whole path is appended."""
    path = unicodedata.normalize("NFC", path)
    if not numbered and len(path) <= MAX_ID and not _NOT_IN_IDS.search(path) and path != ROOT:
        return path
    letters = unicodedata.normalize("NFKD", path.replace("đ", "d").replace("Đ", "D"))
    plain = "".join(sign for sign in letters if not unicodedata.combining(sign))
    parts = (_NOT_IN_IDS.sub("-", part).strip("-") for part in plain.split("/"))
    written = "/".join(part for part in parts if part) or "document"  # a Chinese path may become empty
    return f"{written[: MAX_ID - 9].rstrip('/-')}-{digest(path, size=4)}"


def _shown(path: str) -> str:
    return os.fsencode(path).decode(errors="replace")


def _naturally(name: str) -> tuple[list[str | int], str]:
    """Sort key for natural order: 2 before 10."""
    parts = _DIGITS.split(name.casefold())
    return [int(part) if part.isascii() and part.isdigit() else part for part in parts], name
