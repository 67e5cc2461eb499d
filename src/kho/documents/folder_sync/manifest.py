"""The manifest of a folder: which of its files was which document the last time.

A file that names no document is known by its path, so that one that is gone can be reported, and one that says what a
vanished one said, word for word, is that one under another name.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from kho.documents import store, tree
from kho.documents.deletion import CurrentReads
from kho.documents.folder_sync.front_matter import Unreadable
from kho.documents.folder_sync.layout import FolderEntry, FolderScan, load, scan
from kho.kernel.call import Call
from kho.kernel.ports import Database, Tx

Files = Mapping[str, str]
"""The ids of documents, by the paths of their files in the folder."""
Other = tuple[str, str]
"""A folder's name, and the document that it was put below."""
MAX_FOLDERS = 20
"""Folders of a tenant of which so much is known."""


@dataclass(frozen=True, slots=True)
class KnownFolder:
    tenant: str
    name: str
    """Its full path: the same however it was typed."""
    parent: str
    """The document that it is put below."""

    def files(self, tx: Tx) -> dict[str, str]:
        rows = tx.all(
            "SELECT path, id FROM document_files WHERE tenant = $1 AND folder = $2 AND parent = $3",
            self.tenant,
            self.name,
            self.parent,
        )
        return dict(rows)

    def others(self, tx: Tx) -> list[Other]:
        """The tenant's other folders, those that were used last first."""
        rows = tx.all(
            "SELECT folder, parent FROM document_folders WHERE tenant = $1 AND NOT (folder = $2 AND parent = $3) "
            "ORDER BY used DESC, folder, parent",
            self.tenant,
            self.name,
            self.parent,
        )
        return [(folder, parent) for folder, parent in rows]

    def keep(self, tx: Tx, files: Files, surplus: Sequence[Other] = ()) -> None:
        """Only what differs is written: mostly, nothing does. What is known of the surplus is forgotten."""
        tree.hold(tx, self.tenant)  # a folder may be read or written twice at once
        own = (self.tenant, self.name, self.parent)
        before = self.files(tx)
        tx.many(
            "DELETE FROM document_files WHERE tenant = $1 AND folder = $2 AND parent = $3 AND path = $4",
            [(*own, path) for path, id in before.items() if files.get(path) != id],
        )
        tx.many(
            "INSERT INTO document_files (tenant, folder, parent, path, id) VALUES ($1, $2, $3, $4, $5)",
            [(*own, path, id) for path, id in files.items() if before.get(path) != id],
        )
        tx.run(
            "INSERT INTO document_folders (tenant, folder, parent, used) "
            "SELECT $1, $2, $3, COALESCE(MAX(used), 0) + 1 FROM document_folders WHERE tenant = $1 "
            "ON CONFLICT (tenant, folder, parent) DO UPDATE SET used = excluded.used",
            *own,
        )
        for table in ("document_files", "document_folders"):
            tx.many(
                f"DELETE FROM {table} WHERE tenant = $1 AND folder = $2 AND parent = $3",
                [(self.tenant, *other) for other in surplus],
            )


async def keep(db: Database, here: KnownFolder, files: Files, max_folders: int) -> None:
    """For the next time. So many folders are remembered; the first to be forgotten are those that this machine does
    not see. Those alone would not do: they may be another machine's, or on a disk that comes back."""
    others = await db.read(here.others)
    if len(others) >= max_folders:
        there = await asyncio.to_thread(lambda: {name for name, _ in others if _is_there(name)})
        others.sort(key=lambda one: one[0] not in there)
    await db.write(lambda tx: here.keep(tx, files, others[max_folders - 1 :]))


def _is_there(name: str) -> bool:
    return os.path.isdir(name)  # noqa: PTH112 (Path would raise where this says no)


@dataclass(frozen=True, slots=True)
class FolderState:
    """A folder as it is, and as it was the last time."""

    folder: KnownFolder
    scan: FolderScan
    known: Files
    """Also of those that are gone. A file that was renamed is known by its new path."""
    renamed: Mapping[str, str]
    """Paths, and what they were the last time."""


async def read(reads: CurrentReads, directory: Path, parent: str, call: Call) -> FolderState:
    """Raises OSError if the folder cannot be read."""
    here = await asyncio.to_thread(folder, call.tenant, directory, parent)
    known = await reads.read(call, here.files)
    found = await asyncio.to_thread(scan, directory, parent, known)
    lost, new = gone(known, found), _newcomers(known, found)
    if not lost or not new:
        return FolderState(here, found, known, {})
    saying, taken = await reads.read(call, lambda tx: _saying(tx, call.tenant, lost, new))
    renamed = await asyncio.to_thread(_renamed, saying, [one for one in new if one.id not in taken])
    if renamed:
        known = {path: id for path, id in known.items() if path not in renamed.values()} | {
            path: known[before] for path, before in renamed.items()
        }
        found = await asyncio.to_thread(scan, directory, parent, known)
    return FolderState(here, found, known, renamed)


def folder(tenant: str, directory: Path, parent: str) -> KnownFolder:
    return KnownFolder(tenant, os.fsencode(directory.resolve()).decode(errors="replace"), parent)


def gone(known: Files, found: FolderScan) -> dict[str, str]:
    """Documents whose file is no longer there, or is another document's now. What could not be read may be there."""
    ids = {one.id for one in found.found}
    closed = tuple(f"{one.path.rstrip('/')}/" for one in found.failed)
    return {path: id for path, id in known.items() if id not in ids and not f"{path.rstrip('/')}/".startswith(closed)}


def _newcomers(known: Files, found: FolderScan) -> list[FolderEntry]:
    """Files that were not there, and do not say which document they are."""
    return [one for one in found.found if one.file is not None and not one.is_named and one.path not in known]


def _saying(tx: Tx, tenant: str, lost: Files, new: Sequence[FolderEntry]) -> tuple[dict[str, list[str]], set[str]]:
    """The paths of the lost by what their documents say, and the ids of the new that there are already."""
    documents = {one.id: one for one in store.get_all(tx, tenant, [*lost.values(), *(one.id for one in new)])}
    saying: dict[str, list[str]] = {}
    for path, id in lost.items():
        document = documents.get(id)
        if document is not None and not document.deleted:
            saying.setdefault(_digest(store.body_of(tx, tenant, document)), []).append(path)
    return saying, {one.id for one in new if one.id in documents}


def _renamed(saying: Mapping[str, Sequence[str]], new: Sequence[FolderEntry]) -> dict[str, str]:
    """New paths, and the old ones. Only where no other file could be meant: neither of the lost nor of the new."""
    same: dict[str, list[str]] = {}
    for one in new:
        with suppress(Unreadable):  # it was readable when it was looked at, and will be looked at again
            if one.file is not None:
                same.setdefault(_digest(load(one.file).body), []).append(one.path)
    return {
        paths[0]: saying[digest][0]
        for digest, paths in same.items()
        if len(paths) == 1 and len(saying.get(digest, ())) == 1
    }


def _digest(body: str) -> str:
    return blake2b(body.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
