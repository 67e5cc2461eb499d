"""`kho docs export`: write the tree as a folder of files.

Exporting into the same folder again keeps file names and removes the files of documents that are gone. Files that
people added or changed are protected: an export that would overwrite them is refused, unless importing them would
change nothing.
"""

import asyncio
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from kho.documents import markdown, store, tree
from kho.documents.contract import DOCUMENTS
from kho.documents.deletion import CurrentReads
from kho.documents.errors import NotTheMachinesUser, WouldOverwrite
from kho.documents.folder_sync import manifest
from kho.documents.folder_sync.document_file import BESIDE, NotADocument, as_files, differences
from kho.documents.folder_sync.layout import FilePlace, FolderEntry, NamedDocument, folder_of, load, places
from kho.documents.folder_sync.manifest import Manifest, place_of
from kho.documents.folder_sync.model import ExportDocuments, ExportedFolder
from kho.documents.store import StoredDocument, body_of
from kho.kernel import Call, Command, InvalidParams, Tx
from kho.lib import private_file
from kho.lib.dataclass import dataclass

BATCH = 50
MAX_NAMED = 20
"""Maximum number of files named in a refusal."""

Files = dict[str, bytes]


@dataclass(slots=True, kw_only=True)
class Export:
    reads: CurrentReads

    @DOCUMENTS.read(
        "export",
        tool=False,
        rpc=False,
        action=False,
        cli=Command("docs export", ("directory",), names={"parent_id": "parent"}, paths=("directory",)),
        example={"directory": "handbook"},
        text=markdown.exported,
    )
    async def run(self, params: ExportDocuments, call: Call) -> ExportedFolder:
        """Write the tree as a folder of Markdown, text and JSON files."""
        if call.shared:
            raise NotTheMachinesUser
        try:
            return await self._run(folder_of(params.directory), params, call)
        except OSError as problem:
            raise InvalidParams(f"The folder cannot be written: {problem.strerror}.", field="directory") from None

    async def _run(self, folder: Path, params: ExportDocuments, call: Call) -> ExportedFolder:
        kept = await asyncio.to_thread(_kept, folder)
        there = await self._there(folder, params.parent_id, call)
        names = {one.id: one.name for one in reversed(there)}
        wanted = await self.reads.read(call, lambda tx: _places(tx, call.tenant, params.parent_id, names))
        targets = {name: one.id for one in wanted for name in _files(one.path + one.ending)}
        ids = {*targets.values()}
        # A document has one file: one at another path is removed.
        others = {name: one.id for one in there if one.id in ids for name in _files(one.path)}
        gone = [name for name in {**kept.written, **others} if name not in targets]
        if not params.overwrite:
            await self._check(folder, {**others, **targets}, gone, kept.written, call)
        removed = await asyncio.to_thread(_remove, folder, gone)
        digests: dict[str, str] = {}
        written = 0
        for start in range(0, len(wanted), BATCH):
            batch = wanted[start : start + BATCH]
            documents = await self._documents([one.id for one in batch], call)
            for one in batch:
                if one.id in documents:
                    made = as_files(*documents[one.id], one.order)
                    files = {one.path + ending: content for ending, content in made.items()}
                    written += await asyncio.to_thread(_write, folder, files)
                    digests |= {name: _digest(content) for name, content in files.items()}
            await call.progress(start + len(batch), len(wanted), "Exporting")
        kept.written = digests
        kept.documents[place_of(call.tenant, params.parent_id)] = {one.path + one.ending: one.id for one in wanted}
        await asyncio.to_thread(kept.save, folder)
        return ExportedFolder(
            directory=str(folder),
            documents=len(wanted),
            written=written,
            unchanged=len(digests) - written,
            removed=removed,
        )

    async def _there(self, folder: Path, parent: str, call: Call) -> list[FolderEntry]:
        """Return the entries of files in the folder: those that name their document before those known by their path
        from the last time."""
        try:
            read = await manifest.read(self.reads, folder, parent, call)
        except FileNotFoundError:
            return []
        return sorted((one for one in read.scan.found if one.file is not None), key=lambda one: not one.is_named)

    async def _check(
        self, folder: Path, whose: Mapping[str, str], gone: Sequence[str], listed: Mapping[str, str], call: Call
    ) -> None:
        """Raise WouldOverwrite if files with content that is stored nowhere else would be overwritten or removed."""
        unknown = await asyncio.to_thread(_unknown, folder, [*dict.fromkeys([*whose, *gone])], listed)
        documents = await self._documents([whose[name] for name in unknown if name in whose], call)
        lost: list[str] = []
        for name in unknown:
            here = documents.get(whose[name]) if name in whose else None
            if here is None or not await asyncio.to_thread(_says_the_same, folder / name, *here):
                lost.append(name)
        if lost:
            raise WouldOverwrite(
                "Files in the folder were changed since the export, and would be overwritten.",
                files=lost[:MAX_NAMED],
            )

    async def _documents(self, ids: Sequence[str], call: Call) -> dict[str, tuple[StoredDocument, str]]:
        def work(tx: Tx) -> dict[str, tuple[StoredDocument, str]]:
            found = store.get_all(tx, call.tenant, list(dict.fromkeys(ids)))
            return {one.id: (one, body_of(tx, call.tenant, one)) for one in found}

        return await self.reads.read(call, work)


def _places(tx: Tx, tenant: str, parent: str, names: Mapping[str, str]) -> list[FilePlace]:
    store.need_parent(tx, tenant, parent, "parent_id")
    shape = tree.shape(tx, tenant, parent, False)
    documents = store.get_all(tx, tenant, [id for children in shape.values() for id in children])
    known = {
        one.id: NamedDocument(one.version.title, one.version.mime_type, names.get(one.id, "")) for one in documents
    }
    return list(places(shape, known, parent))


def _files(name: str) -> list[str]:
    """Return the file's name, and for a JSON file also that of the `.yaml` file beside it."""
    return [name, name + BESIDE] if name.lower().endswith(".json") else [name]


def _kept(folder: Path) -> Manifest:
    if folder.exists() and not folder.is_dir():
        raise InvalidParams("'directory' is not a folder.", field="directory")
    return Manifest.of(folder)


def _unknown(folder: Path, files: list[str], before: Mapping[str, Any]) -> list[str]:
    """Return the files that exist and differ from what the last export wrote."""
    there = [name for name in files if (folder / name).is_file()]
    return [name for name in there if before.get(name) != _digest((folder / name).read_bytes())]


def _says_the_same(file: Path, document: StoredDocument, body: str) -> bool:
    """True if an import of the file would change nothing."""
    file = file.with_suffix("") if file.suffix == BESIDE else file
    try:
        written = load(file)
        return written.id in (None, document.id) and not differences(written, file.stem, document, body)
    except (NotADocument, ValidationError, InvalidParams):
        return False


def _write(folder: Path, files: Files) -> int:
    """Write the files that differ; return how many."""
    count = 0
    for name, content in files.items():
        file = folder / name
        if not _inside(folder, file):
            raise WouldOverwrite("A link in the folder leads out of it.", files=[name])
        if not (file.is_file() and file.read_bytes() == content):
            file.parent.mkdir(parents=True, exist_ok=True)
            private_file.write(file, content)
            count += 1
    return count


def _remove(folder: Path, files: list[str]) -> int:
    """Remove files, and folders left empty; return how many files were removed."""
    count = 0
    for name in files:
        file = folder / name
        if not _inside(folder, file) or not file.is_file():
            continue
        file.unlink()
        count += 1
        for above in file.parents:
            if above == folder or any(above.iterdir()):
                break
            above.rmdir()
    return count


def _inside(folder: Path, file: Path) -> bool:
    return file.resolve().is_relative_to(folder.resolve())


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()
