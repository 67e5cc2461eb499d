"""`kho docs import`: bring the tree in step with a folder of files.

Parents are imported before their children. Each document is changed on its own: a file that cannot be imported does
not stop the others, and a second import finds nothing left to do. Documents whose files are gone are kept and
reported.
"""

import asyncio
from collections import Counter
from dataclasses import field, replace
from typing import Any

from pydantic import ValidationError

from kho.documents import markdown, model, store, tree
from kho.documents.contract import DOCUMENTS
from kho.documents.deletion import CurrentReads
from kho.documents.errors import Cycle, NotAllImported, NotTheMachinesUser
from kho.documents.folder_sync import manifest, ordering
from kho.documents.folder_sync.document_file import DocumentFile, NotADocument, differences, stated
from kho.documents.folder_sync.layout import FolderEntry, folder_of, load
from kho.documents.folder_sync.manifest import FolderState
from kho.documents.folder_sync.model import FailedFile, FileChange, Gone, ImportCounts, ImportDocuments, ImportedFolder
from kho.documents.folder_sync.ordering import TreeBefore
from kho.documents.model import ROOT
from kho.documents.service import DocumentService
from kho.documents.store import StoredDocument
from kho.kernel import Call, Command, InvalidParams, KhoError, Tx
from kho.kernel.ports import Screen
from kho.kernel.validation import check_values
from kho.lib.dataclass import dataclass

REASON = "not in the imported folder"
PLACED = {"created", "renamed", "moved", "restored"}
"""Changes that alter a document's place among its siblings."""


@dataclass(slots=True, kw_only=True)
class Import:
    service: DocumentService
    reads: CurrentReads
    screen: Screen | None = None

    @DOCUMENTS.write(
        "import",
        tool=False,
        rpc=False,
        action=False,
        cli=Command("docs import", ("directory",), names={"parent_id": "parent"}, paths=("directory",)),
        example={"directory": "handbook", "dry_run": True},
        text=markdown.imported,
    )
    async def run(self, params: ImportDocuments, call: Call) -> ImportedFolder:
        """Bring the tree in step with a folder of Markdown, text and JSON files."""
        if call.shared:
            raise NotTheMachinesUser
        await self.reads.read(call, lambda tx: store.need_parent(tx, call.tenant, params.parent_id, "parent_id"))
        try:
            read = await manifest.read(self.reads, folder_of(params.directory), params.parent_id, call)
        except OSError as problem:
            raise InvalidParams(f"The folder cannot be read: {problem.strerror}.", field="directory") from None
        if params.prune and not read.scan.found:
            raise InvalidParams(
                "The folder holds no documents, so nothing was deleted. Is it the right one?", field="directory"
            )
        ids = [one.id for one in read.scan.found]
        before = await self.reads.read(call, lambda tx: ordering.before(tx, call.tenant, params.parent_id, ids))
        return await _ImportRun(of=self, params=params, call=call, read=read, before=before).run()


@dataclass(slots=True, kw_only=True)
class _ImportRun:
    """State of one import."""

    of: Import
    params: ImportDocuments
    call: Call
    read: FolderState
    before: TreeBefore
    _in: dict[str, FolderEntry] = field(default_factory=dict[str, FolderEntry])
    """Entries imported so far, by id."""
    _done: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    _deleted: list[FileChange] = field(default_factory=list[FileChange])
    _came: list[str] = field(default_factory=list[str])
    """Ids of documents moved in from elsewhere in the tree."""
    _undone: set[str] = field(default_factory=set[str])
    """Deletions undone so far: all documents of one deletion are restored together."""
    _sightings: list[str] = field(default_factory=list[str])
    """Files with secrets in them."""

    async def run(self) -> ImportedFolder:
        total = len(self.read.scan.found)
        for number, one in enumerate(self.read.scan.found, 1):
            try:
                await self._take(one)
            except (NotADocument, ValidationError, KhoError) as problem:
                self.read.scan.failed.append(FailedFile(path=one.path, reason=_reason(problem)))
            await self.call.progress(number, total, one.path)
        await self._put_in_order()
        notes = ordering.came(self._came, self.before, self.params)
        if self.params.prune and self.read.scan.failed:
            notes.append("Nothing was deleted, because not all files could be imported.")
        elif self.params.prune:
            await self._prune()
        if self.of.screen is not None:
            self.of.screen.tell(self.call, self._sightings)
        answer = self._answer(notes, await self._gone())
        if self.read.scan.failed:
            counts = answer.counts.model_dump(exclude_defaults=True)
            said: dict[str, Any] = answer.model_dump(exclude_none=True) | {"counts": counts}
            failed = [one.model_dump() for one in sorted(self.read.scan.failed, key=lambda one: one.path)]
            raise NotAllImported(_incomplete(len(failed), self.params.dry_run), **said, failed=failed)
        return answer

    async def _gone(self) -> list[Gone]:
        """Return the documents whose files are gone; save the folder's paths and ids for the next time."""
        others = {path: id for path, id in self.read.known.items() if id not in self._in}

        def look(tx: Tx) -> set[str]:
            return {one.id for one in store.get_all(tx, self.call.tenant, [*others.values()]) if not one.deleted}

        alive = await self.of.reads.read(self.call, look)
        alive -= {one.document_id for one in self._deleted}
        lost = {path: id for path, id in others.items() if id in alive}
        files = lost | {one.path: id for id, one in self._in.items()}
        if not self.params.dry_run and (files or self.read.known):
            await asyncio.to_thread(self.read.keep, files)
        missing = manifest.gone(lost, self.read.scan)
        return [Gone(path=path, document_id=id) for path, id in sorted(missing.items())]

    async def _take(self, one: FolderEntry) -> None:
        if one.parent is None or (one.parent != self.params.parent_id and one.parent not in self._in):
            raise NotADocument("The document above it could not be imported.")
        if one.id in self._in:
            raise NotADocument(f"It has the same id as '{self._in[one.id].path}': {one.id}")
        written = (
            DocumentFile("text/markdown", f"# {one.name}\n")
            if one.file is None
            else await asyncio.to_thread(load, one.file)
        )
        now = await self._now(one.id)
        if now is None:
            done = await self._create(one, written)
        else:
            done = await self._bring_up_to_date(one, written, *now)
        self._in[one.id] = one
        self._done[one.id] = ["renamed", *done] if one.path in self.read.renamed else done

    async def _create(self, one: FolderEntry, written: DocumentFile) -> list[str]:
        given: dict[str, Any] = {
            "document_id": one.id,
            "parent_id": one.parent,
            "content": {"mime_type": written.mime_type, "body": written.body},
            "metadata": stated(written, one.name),
            "created_at": written.created_at,
            **written.plain,
        }
        check_values(given)
        params = model.CreateDocument.model_validate(given)
        call = await self._screened(one, params)
        if not self.params.dry_run:
            await self.of.service.create(params, call)
        return ["created"]

    async def _screened(self, one: FolderEntry, params: Any) -> Call:
        """Look through what a file brings for secrets, as the registry does with what callers send, and return the call
        of this change, whose audit row names what was found. Raises NotSanitized."""
        call = replace(self.call, warnings=[], sightings=[])
        if self.of.screen is not None:
            act = not self.params.dry_run
            found = await self.of.screen.screen_file(DOCUMENTS.capability, one.path, params, stored=act)
            if act:
                self.of.screen.tell(call, found)
                self._sightings += found
        return call

    async def _bring_up_to_date(
        self, one: FolderEntry, written: DocumentFile, document: StoredDocument, body: str
    ) -> list[str]:
        if one.id in self.before.above:
            raise Cycle(document_id=one.id, new_parent_id=self.params.parent_id)
        done: list[str] = []
        act = not self.params.dry_run
        patch = {} if one.file is None else differences(written, one.name, document, body)
        check_values(patch)
        model.NewContent.model_validate({"mime_type": written.mime_type, "body": written.body})
        update = model.UpdateDocument.model_validate(
            {"document_id": one.id, "patch": patch, "last_known_revision": document.revision}
        )
        call = await self._screened(one, update) if patch else self.call
        if document.deletion is not None and document.deletion not in self._undone:
            if act:
                await self.of.service.restore(model.RestoreDocument(document_id=one.id), self.call)
            self._undone.add(document.deletion)
            done.append("restored")
        if document.parent != one.parent:
            if act:
                await self._move(one.id, one.parent or ROOT, None)
            if one.id in self.before.outside:
                self._came.append(one.id)
            done.append("moved")
        if patch:
            if act:
                await self.of.service.update(update, call)
            done.append("updated")
        return done

    async def _put_in_order(self) -> None:
        """Move siblings into the folder's order; documents that are not in the folder stay between them."""
        wanted: dict[str, list[str]] = {}
        for id, one in self._in.items():
            wanted.setdefault(one.parent or ROOT, []).append(id)
        shape = await self._shape()
        for parent, ids in wanted.items():
            now = [id for id in shape.get(parent, ()) if id in self._in and self._in[id].parent == parent]
            now += [id for id in ids if id not in {*now}]  # another caller may have moved it away
            staying = ordering.staying(ids, now, {id for id in ids if PLACED & {*self._done[id]}})
            for place in reversed(range(len(ids))):
                if ids[place] in staying:
                    continue
                if not self.params.dry_run:
                    await self._move(ids[place], parent, ids[place + 1] if place + 1 < len(ids) else None)
                if "moved" not in self._done[ids[place]] and "created" not in self._done[ids[place]]:
                    self._done[ids[place]].append("moved")

    async def _prune(self) -> None:
        shape = await self._shape()
        waiting = [self.params.parent_id]
        while waiting:
            for id in shape.get(waiting.pop(), ()):
                if id in self._in:
                    waiting.append(id)
                    continue
                if not self.params.dry_run:
                    params = model.DeleteDocument(document_id=id, reason=REASON)
                    await self.of.service.delete(params, self.call)
                with_it = ordering.downwards(shape, id)
                self._deleted += [FileChange(path="", document_id=one, done=["deleted"]) for one in with_it]

    async def _move(self, id: str, parent: str, before: str | None) -> None:
        position = None if before is None else model.Position(before=before)
        params = model.MoveDocument(document_id=id, new_parent_id=parent, position=position)
        await self.of.service.move(params, self.call)

    async def _now(self, id: str) -> tuple[StoredDocument, str] | None:
        def work(tx: Tx) -> tuple[StoredDocument, str] | None:
            found = store.get(tx, self.call.tenant, id)
            return None if found is None else (found, store.body_of(tx, self.call.tenant, found))

        return await self.of.reads.read(self.call, work)

    async def _shape(self) -> dict[str, list[str]]:
        """Return the current tree below the parent; in a dry run, the tree as it would be."""
        tenant, top = self.call.tenant, self.params.parent_id
        parents = {id: one.parent or ROOT for id, one in self._in.items()}

        def work(tx: Tx) -> dict[str, list[str]]:
            if not self.params.dry_run:
                return tree.shape(tx, tenant, top, False)
            return ordering.as_if(tx, tenant, [top, *self._came], parents, self._undone)

        return await self.of.reads.read(self.call, work)

    def _answer(self, notes: list[str], gone: list[Gone]) -> ImportedFolder:
        done = {id: done for id, done in self._done.items() if done}
        changes = [FileChange(path=self._in[id].path, document_id=id, done=what) for id, what in done.items()]
        changes += self._deleted
        counted = Counter(what for one in changes for what in one.done)
        counts = ImportCounts(**counted, unchanged=len(self._done) - len(done), ignored=self.read.scan.ignored)
        return ImportedFolder(
            counts=counts,
            changes=changes,
            gone=gone or None,
            dry_run=self.params.dry_run or None,
            notes=notes or None,
        )


def _reason(problem: NotADocument | ValidationError | KhoError) -> str:
    if isinstance(problem, ValidationError):
        first = problem.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        return f"The text {first['msg']}." if where == "content.body" else f"'{where}': {first['msg']}"
    return problem.message if isinstance(problem, KhoError) else str(problem)


def _incomplete(count: int, dry_run: bool) -> str:
    files = "1 file" if count == 1 else f"{count} files"
    return f"{files} could not be imported; all others {'could be' if dry_run else 'are in'}."
