"""What is known of a folder from the last time: which of its files is which document.

A file that names no document is known by its path, so that one that is gone can be told, and one that says what a
vanished one said, word for word, is that one under another name.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from kho.documents import store
from kho.documents.deleting import Deleting
from kho.documents.transfer_folder import Found, Scan, load, scan
from kho.documents.transfer_front import Unreadable
from kho.kernel.call import Call
from kho.kernel.ports import Tx

Files = Mapping[str, str]
"""The ids of documents, by the paths of their files in the folder."""


@dataclass(frozen=True, slots=True)
class Folder:
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
        return {row[0]: row[1] for row in rows}

    def keep(self, tx: Tx, files: Files) -> None:
        """Only what differs is written: mostly, nothing does."""
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


@dataclass(frozen=True, slots=True)
class Read:
    """A folder as it is, and as it was the last time."""

    folder: Folder
    scan: Scan
    known: Files
    """Also of those that are gone. A file that was renamed is known by its new path."""
    renamed: Mapping[str, str]
    """Paths, and what they were the last time."""


async def read(deleting: Deleting, directory: Path, parent: str, call: Call, timeout: float) -> Read:
    """Raises OSError if the folder cannot be read."""
    here = await asyncio.to_thread(folder, call.tenant, directory, parent)
    known = await deleting.read(call, here.files, timeout)
    found = await asyncio.to_thread(scan, directory, parent, known)
    lost, new = gone(known, found), _newcomers(known, found)
    if not lost or not new:
        return Read(here, found, known, {})
    saying, taken = await deleting.read(call, lambda tx: _saying(tx, call.tenant, lost, new), timeout)
    renamed = await asyncio.to_thread(_renamed, saying, [one for one in new if one.id not in taken])
    if renamed:
        known = {path: id for path, id in known.items() if path not in renamed.values()} | {
            path: known[before] for path, before in renamed.items()
        }
        found = await asyncio.to_thread(scan, directory, parent, known)
    return Read(here, found, known, renamed)


def folder(tenant: str, directory: Path, parent: str) -> Folder:
    return Folder(tenant, os.fsencode(directory.resolve()).decode(errors="replace"), parent)


def gone(known: Files, found: Scan) -> dict[str, str]:
    """Whose file is no longer there. What could not be looked at may be."""
    paths = {one.path for one in found.found}
    ids = {one.id for one in found.found}
    closed = tuple(f"{one.path.rstrip('/')}/" for one in found.failed)
    return {
        path: id
        for path, id in known.items()
        if path not in paths and id not in ids and not f"{path.rstrip('/')}/".startswith(closed)
    }


def _newcomers(known: Files, found: Scan) -> list[Found]:
    """Files that were not there, and do not say which document they are."""
    return [one for one in found.found if one.file is not None and not one.is_named and one.path not in known]


def _saying(tx: Tx, tenant: str, lost: Files, new: Sequence[Found]) -> tuple[dict[str, list[str]], set[str]]:
    """The paths of the lost by what their documents say, and the ids of the new that there are already."""
    documents = {one.id: one for one in store.get_all(tx, tenant, [*lost.values(), *(one.id for one in new)])}
    saying: dict[str, list[str]] = {}
    for path, id in lost.items():
        document = documents.get(id)
        if document is not None and not document.deleted:
            body = store.body(tx, tenant, id, document.saying.body_of)
            saying.setdefault(_digest(body), []).append(path)
    return saying, {one.id for one in new if one.id in documents}


def _renamed(saying: Mapping[str, Sequence[str]], new: Sequence[Found]) -> dict[str, str]:
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
