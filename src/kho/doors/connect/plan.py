"""What is going to be written where, written atomically, and put back later.

For every file that is changed, KHO_HOME/connect keeps a record and a copy of the old bytes. If the file is still as we
left it, disconnecting puts these bytes back; if somebody has changed it since, only ours is taken out.
"""

import contextlib
import difflib
import hashlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

import orjson

from kho.doors.connect.editors import Editor, JsonEntry, Kind, TomlEntry
from kho.doors.connect.errors import CannotConnect
from kho.kernel.api_keys import LOCAL
from kho.lib.dataclass import dataclass
from kho.lib.folders import private_folder, sync_folder

BOM = "\ufeff"


@dataclass(frozen=True, slots=True)
class Record:
    """What was done to a file."""

    path: str
    kind: Kind
    scope: str
    clients: list[str]
    """Those for which it was done: several agents read the same AGENTS.md."""
    digest: str
    """Of the bytes that we left there."""
    made: bool
    """True if there was no file before."""
    folders: list[str] = field(default_factory=list[str])
    """Folders that were made for it, the outermost first."""
    fragments: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class Change:
    """A file before and after. None stands for a file that is not there."""

    path: Path
    kind: Kind
    current: bytes | None
    after: bytes | None
    record: Record | None
    """To be kept when it is done; None: the record of the file is dropped."""
    old: bytes | None = None
    """What disconnecting will put back."""

    @property
    def action(self) -> str:
        if self.current == self.after:
            return "unchanged"
        return "created" if self.current is None else "deleted" if self.after is None else "changed"

    def difference(self) -> str:
        before, after = (_lines(one) for one in (self.current, self.after))
        names = (
            ("/dev/null" if self.current is None else str(self.path)),
            ("/dev/null" if self.after is None else str(self.path)),
        )
        return "".join(difflib.unified_diff(before, after, *names))


class Ledger:
    """The records, in a folder of the hub."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, path: Path, kind: Kind) -> Record | None:
        try:
            return Record(**orjson.loads(self._name(path, kind, "json").read_bytes()))
        except FileNotFoundError:
            return None

    def old(self, record: Record) -> bytes | None:
        """The bytes from before."""
        return None if record.made else self._name(Path(record.path), record.kind, "old").read_bytes()

    def all(self) -> list[Record]:
        return [Record(**orjson.loads(file.read_bytes())) for file in sorted(self._folder.glob("*.json"))]

    def put(self, record: Record, old: bytes | None) -> None:
        private_folder(self._folder)
        if old is not None:
            write(self._name(Path(record.path), record.kind, "old"), old, mode=0o600)
        write(self._name(Path(record.path), record.kind, "json"), orjson.dumps(record), mode=0o600)

    def drop(self, path: Path, kind: Kind) -> None:
        for ending in ("json", "old"):
            self._name(path, kind, ending).unlink(missing_ok=True)

    def keep(self, path: Path, kind: Kind, content: bytes) -> None:
        """A copy of what is replaced without a way back."""
        private_folder(self._folder)
        write(self._name(path, kind, "removed"), content, mode=0o600)

    def _name(self, path: Path, kind: Kind, ending: str) -> Path:
        return self._folder / f"{kind}-{hashlib.sha256(os.fsencode(path)).hexdigest()[:16]}.{ending}"


def connection(ledger: Ledger, path: Path, kind: Kind, editor: Editor, client: str, scope: str) -> Change:
    """The change that puts ours into a file."""
    path = path.resolve()
    current, record = read(path), ledger.get(path, kind)
    base, old = current, current
    if record is not None and current is not None:
        if _digest(current) == record.digest:
            base = old = ledger.old(record)
        elif editor.has(_text(path, current)[0]):
            old = _undone(ledger, record, editor, path, current)
        else:
            record = None
    text, bom = _text(path, base)
    edited, fragments = _named(path, editor.put, text)
    after = (bom + edited).encode()
    made = old is None
    kept = record.folders if record else []
    folders = kept or [str(one) for one in reversed(path.parents) if not one.exists()]
    clients = sorted({client, *(record.clients if record else ())})
    new = Record(str(path), kind, scope, clients, _digest(after), made, folders, fragments)
    return Change(path, kind, current, after, new, old)


def disconnection(ledger: Ledger, path: Path, kind: Kind, editor: Editor, client: str, *, force: bool) -> Change | None:
    """The change that takes ours out of a file; None if it is not there, or another client needs it. One that nobody
    recorded may be the user's own: it is only taken out by `force`."""
    path = path.resolve()
    current, record = read(path), ledger.get(path, kind)
    if record is not None and client not in record.clients:
        return None
    if record is not None and record.clients != [client]:
        left = replace(record, clients=[one for one in record.clients if one != client])
        return Change(path, kind, current, current, left, ledger.old(record))
    if current is None:
        return Change(path, kind, None, None, None) if record else None
    if record is not None and _digest(current) == record.digest:
        return Change(path, kind, current, ledger.old(record), None)
    if record is None and not (force and editor.has(_text(path, current)[0])):
        return None
    after = _undone(ledger, record, editor, path, current)
    return Change(path, kind, current, after, None)


def carry_out(ledger: Ledger, change: Change) -> None:
    """Writes the file and its record. The record comes first: a crash between the two leaves a file that can still be
    put back."""
    if read(change.path) != change.current:
        raise CannotConnect(f"{change.path} was changed meanwhile. Nothing was written: run the command again.")
    known = ledger.get(change.path, change.kind)
    if change.after == change.current and known is None:
        return
    if change.record is not None:
        ledger.put(change.record, change.old)
    elif known is None or (change.current is not None and _digest(change.current) != known.digest):
        ledger.keep(change.path, change.kind, change.current or b"")
    if change.after is None:
        change.path.unlink(missing_ok=True)
    elif change.after != change.current:
        write(change.path, change.after)
    if change.record is None:
        if change.after is None and known is not None:
            _remove_folders(known.folders)
        ledger.drop(change.path, change.kind)


def value_in(path: Path, editor: JsonEntry | TomlEntry) -> Mapping[str, Any] | None:
    """The entry of the server in a file; None if there is none."""
    content = read(path)
    return None if content is None else editor.value(_text(path, content)[0])


def read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as problem:
        raise CannotConnect(f"{path} cannot be read: {problem.strerror}.") from None


def write(path: Path, content: bytes, mode: int | None = None) -> None:
    """Atomic: a temporary file in the same folder, on the disk, in the place of the old one, with its mode."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".kho-", dir=path.parent)
        temporary = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            _take_over(path, temporary, mode, secret=LOCAL.encode() in content)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as problem:
        raise CannotConnect(f"{path} cannot be written: {problem.strerror}.") from None
    sync_folder(path.parent)


def _take_over(path: Path, temporary: Path, mode: int | None, *, secret: bool) -> None:
    """Gives the new file the mode and the owner of the old one. One that was not there, and holds a `secret`, is for
    this user alone."""
    try:
        old = path.stat()
    except FileNotFoundError:
        umask = os.umask(0)
        os.umask(umask)
        usual = 0o600 if secret else 0o666 & ~umask
        temporary.chmod(usual if mode is None else mode)
        return
    temporary.chmod(old.st_mode & 0o7777 if mode is None else mode)
    if hasattr(os, "chown"):
        with contextlib.suppress(PermissionError):
            os.chown(temporary, old.st_uid, old.st_gid)


def _undone(ledger: Ledger, record: Record | None, editor: Editor, path: Path, current: bytes) -> bytes | None:
    """A changed file without ours; None if nothing else is in it and there was no file before."""
    text, bom = _text(path, current)
    old = ledger.old(record) if record else None
    cut = text
    for fragment in reversed(record.fragments if record else []):  # a later one may stand inside an earlier one
        cut = cut.replace(fragment, "") if cut.count(fragment) == 1 else cut
    if cut == text or not editor.is_sound(text, cut) or editor.has(cut):
        cut = _named(path, editor.remove, text, _text(path, old)[0])
    if record is not None and record.made and editor.is_empty(cut):
        return None
    return (bom + cut).encode()


def _named(path: Path, edit: Any, *texts: str) -> Any:
    try:
        return edit(*texts)
    except CannotConnect as problem:
        problem.message = f"{path}: {problem.message}"
        raise


def _text(path: Path, content: bytes | None) -> tuple[str, str]:
    """The text, and the byte order mark if there is one."""
    try:
        text = (content or b"").decode()
    except UnicodeDecodeError:
        raise CannotConnect(f"{path} is not UTF-8 text. Nothing was written.") from None
    return (text[1:], BOM) if text.startswith(BOM) else (text, "")


def _lines(content: bytes | None) -> list[str]:
    lines = (content or b"").decode("utf-8", "replace").splitlines(keepends=True)
    return [*lines[:-1], lines[-1] + "\n\\ No newline at end of file\n"] if lines and lines[-1][-1] != "\n" else lines


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _remove_folders(folders: Sequence[str]) -> None:
    for folder in reversed(folders):
        with contextlib.suppress(OSError):  # not empty: somebody put something there
            Path(folder).rmdir()
