"""Manifest of a folder: which file was which document the last time, and what an export wrote.

It is a file in the folder, so it moves and is copied with it. Files without a document id are identified by their path:
so a missing one can be reported, and a new one with exactly the text of a missing one is recognised as renamed.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from pydantic import BaseModel, Field, ValidationError, model_validator

from kho.documents import store
from kho.documents.deletion import CurrentReads
from kho.documents.folder_sync.front_matter import NotADocument
from kho.documents.folder_sync.layout import FolderEntry, FolderScan, load, scan
from kho.kernel import Call, Tx
from kho.lib import private_file
from kho.lib.dataclass import dataclass
from kho.lib.sql import digest

NAME = ".kho-export.json"

Files = Mapping[str, str]
"""Document ids by the path of their file in the folder."""
MAX_BYTES = 256 * 1024 * 1024
"""A line for each document has some 150."""


class Manifest(BaseModel):
    written: dict[str, str] = Field(default_factory=dict[str, str])
    """Digests of the files that the last export wrote, by path, to detect changed files."""
    documents: dict[str, dict[str, str]] = Field(default_factory=dict[str, dict[str, str]])
    """Ids by path, for each tenant and parent that the folder was exported from or imported below."""

    @model_validator(mode="before")
    @classmethod
    def _of_older_exports(cls, value: Any) -> Any:
        """Accept manifests of older versions, which hold only the digests."""
        return value if {"written", "documents"}.intersection(value or ()) else {"written": value}

    @classmethod
    def of(cls, folder: Path) -> "Manifest":
        """Load the folder's manifest; an empty one if there is none, it cannot be read, or it is none of ours: a pipe
        would be waited for, and one of any size read into memory."""
        file = folder / NAME
        try:
            if not file.is_file() or file.stat().st_size > MAX_BYTES:
                return cls()
            return cls.model_validate_json(file.read_bytes())
        except (OSError, ValidationError):
            return cls()

    def save(self, folder: Path) -> None:
        """Save atomically, because two processes may use the same folder."""
        new = folder / f"{NAME}.{uuid4()}"
        try:
            private_file.write(new, self.model_dump_json(indent=2).encode())
            new.replace(folder / NAME)
        finally:
            new.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class FolderState:
    """A folder as scanned now, and what is known from the last time."""

    directory: Path
    place: str
    """Key of tenant and parent document (`place_of`)."""
    manifest: Manifest
    scan: FolderScan
    known: Files
    """Known files, including missing ones. A renamed file is listed under its new path."""
    renamed: Mapping[str, str]
    """Old paths of renamed files, by new path."""

    def keep(self, files: Files) -> None:
        """Save paths and ids for the next time. Errors are ignored: a read-only folder is imported, too, but nothing is
        known of it the next time."""
        with suppress(OSError):
            self.manifest.documents[self.place] = dict(files)
            self.manifest.save(self.directory)


async def read(reads: CurrentReads, directory: Path, parent: str, call: Call) -> FolderState:
    """Scan a folder and detect renamed files. Raises OSError if the folder cannot be read."""
    manifest, place = await asyncio.to_thread(Manifest.of, directory), place_of(call.tenant, parent)
    known: Files | None = manifest.documents.get(place)
    if known is None:
        name = await asyncio.to_thread(lambda: os.fsencode(directory.resolve()).decode(errors="replace"))
        known = await reads.read(call, lambda tx: _remembered(tx, call.tenant, name, parent))
    found = await asyncio.to_thread(scan, directory, parent, known)
    lost, new, renamed = gone(known, found), _newcomers(known, found), dict[str, str]()
    if lost and new:
        saying, taken = await reads.read(call, lambda tx: _saying(tx, call.tenant, lost, new))
        renamed = await asyncio.to_thread(_renamed, saying, [one for one in new if one.id not in taken])
    if renamed:
        stayed = {path: id for path, id in known.items() if path not in renamed.values()}
        known = stayed | {path: known[before] for path, before in renamed.items()}
        found = await asyncio.to_thread(scan, directory, parent, known)
    return FolderState(directory, place, manifest, found, known, renamed)


def place_of(tenant: str, parent: str) -> str:
    return f"{tenant} {parent}"


def _remembered(tx: Tx, tenant: str, folder: str, parent: str) -> dict[str, str]:
    """Return ids by path from the table in which earlier versions stored them. It is no longer written."""
    select = "SELECT path, id FROM document_files WHERE tenant = $1 AND folder = $2 AND parent = $3"
    return dict(tx.all(select, tenant, folder, parent))


def gone(known: Files, found: FolderScan) -> dict[str, str]:
    """Return documents whose file is missing, or is another document's now. Those at or below a path that could not
    be read are left out: they may still exist."""
    ids = {one.id for one in found.found}
    closed = tuple(f"{one.path.rstrip('/')}/" for one in found.failed)
    return {path: id for path, id in known.items() if id not in ids and not f"{path.rstrip('/')}/".startswith(closed)}


def _newcomers(known: Files, found: FolderScan) -> list[FolderEntry]:
    """Return files that are new and contain no document id."""
    return [one for one in found.found if one.file is not None and not one.is_named and one.path not in known]


def _saying(tx: Tx, tenant: str, lost: Files, new: Sequence[FolderEntry]) -> tuple[dict[str, list[str]], set[str]]:
    """Return the missing files' paths by the digest of their documents' text, and those ids of new files that exist
    already."""
    documents = {one.id: one for one in store.get_all(tx, tenant, [*lost.values(), *(one.id for one in new)])}
    saying: dict[str, list[str]] = {}
    for path, id in lost.items():
        document = documents.get(id)
        if document is not None and not document.deleted:
            saying.setdefault(digest(store.body_of(tx, tenant, document)), []).append(path)
    return saying, {one.id for one in new if one.id in documents}


def _renamed(saying: Mapping[str, Sequence[str]], new: Sequence[FolderEntry]) -> dict[str, str]:
    """Return old paths by new path. Only unambiguous pairs: one missing and one new file with the same text."""
    same: dict[str, list[str]] = {}
    for one in new:
        with suppress(NotADocument):  # it was readable in the first scan; the import reads it again and reports it
            if one.file is not None:
                same.setdefault(digest(load(one.file).body), []).append(one.path)
    return {
        paths[0]: saying[digest][0]
        for digest, paths in same.items()
        if len(paths) == 1 and len(saying.get(digest, ())) == 1
    }
