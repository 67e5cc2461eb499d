"""`kho docs import`: a folder of files as documents of the tree.

Parents come before those below them, so that each finds its place. Every document is a change of its own: one file that
cannot be a document does not hold up the others, and a second import finds nothing left to do. Documents whose files
are gone stay, and are named.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from kho.documents import markdown, model, store, tree
from kho.documents.contract import DOCUMENTS
from kho.documents.deletion import CurrentReads
from kho.documents.errors import Cycle, NotAllImported, NotTheMachinesUser
from kho.documents.folder_sync import manifest, ordering
from kho.documents.folder_sync.differences import differences, stated
from kho.documents.folder_sync.document_file import DocumentFile, Unreadable
from kho.documents.folder_sync.layout import FolderEntry, folder_of, load
from kho.documents.folder_sync.manifest import FolderState
from kho.documents.folder_sync.model import Change, Counts, Failure, Gone, ImportDocuments, Imported
from kho.documents.folder_sync.ordering import TreeBefore
from kho.documents.model import ROOT
from kho.documents.service import Service
from kho.documents.store import Document
from kho.kernel import values
from kho.kernel.call import Call
from kho.kernel.command import Command
from kho.kernel.errors import InvalidParams, KhoError
from kho.kernel.ports import Database, Tx

REASON = "not in the imported folder"
PLACED = {"created", "renamed", "moved", "restored"}
"""Changes that give a document another place among its siblings."""


@dataclass(slots=True, kw_only=True)
class Import:
    db: Database
    service: Service
    reads: CurrentReads
    max_folders: int = manifest.MAX_FOLDERS

    @DOCUMENTS.write(
        "import",
        tool=False,
        rpc=False,
        action=False,
        cli=Command("docs import", ("directory",), names={"parent_id": "parent"}, paths=("directory",)),
        example={"directory": "handbook", "dry_run": True},
        text=markdown.imported,
    )
    async def run(self, params: ImportDocuments, call: Call) -> Imported:
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
    """One import."""

    of: Import
    params: ImportDocuments
    call: Call
    read: FolderState
    before: TreeBefore
    _in: dict[str, FolderEntry] = field(default_factory=dict[str, FolderEntry])
    """Entries that are in the store by now, by id."""
    _done: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    _deleted: list[Change] = field(default_factory=list[Change])
    _came: list[str] = field(default_factory=list[str])
    """Moved in from elsewhere in the tree."""
    _undone: set[str] = field(default_factory=set[str])
    """Deletions; whatever one took away comes back together."""

    async def run(self) -> Imported:
        total = len(self.read.scan.found)
        for number, one in enumerate(self.read.scan.found, 1):
            try:
                await self._take(one)
            except (Unreadable, ValidationError, KhoError) as problem:
                self.read.scan.failed.append(Failure(path=one.path, reason=_reason(problem)))
            await self.call.progress(number, total, one.path)
        await self._put_in_order()
        notes = ordering.came(self._came, self.before, self.params)
        if self.params.prune and self.read.scan.failed:
            notes.append("Nothing was deleted, because not all files could be imported.")
        elif self.params.prune:
            await self._prune()
        answer = self._answer(notes, await self._gone())
        if self.read.scan.failed:
            counts = answer.counts.model_dump(exclude_defaults=True)
            said: dict[str, Any] = answer.model_dump(exclude_none=True) | {"counts": counts}
            failed = [one.model_dump() for one in sorted(self.read.scan.failed, key=lambda one: one.path)]
            raise NotAllImported(_incomplete(len(failed), self.params.dry_run), **said, failed=failed)
        return answer

    async def _gone(self) -> list[Gone]:
        """Documents whose files are gone. What is known of the folder is kept for the next time."""
        others = {path: id for path, id in self.read.known.items() if id not in self._in}

        def look(tx: Tx) -> set[str]:
            return {one.id for one in store.get_all(tx, self.call.tenant, [*others.values()]) if not one.deleted}

        alive = await self.of.reads.read(self.call, look)
        alive -= {one.document_id for one in self._deleted}
        lost = {path: id for path, id in others.items() if id in alive}
        files = lost | {one.path: id for id, one in self._in.items()}
        if not self.params.dry_run and (files or self.read.known):
            await manifest.keep(self.of.db, self.read.folder, files, self.of.max_folders)
        missing = manifest.gone(lost, self.read.scan)
        return [Gone(path=path, document_id=id) for path, id in sorted(missing.items())]

    async def _take(self, one: FolderEntry) -> None:
        if one.parent is None or (one.parent != self.params.parent_id and one.parent not in self._in):
            raise Unreadable("The document above it could not be imported.")
        if one.id in self._in:
            raise Unreadable(f"It has the same id as '{self._in[one.id].path}': {one.id}")
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
            "is_human_readable": written.is_human_readable is not False,
            "created_at": written.created_at,
        }
        values.check(given)
        params = model.CreateDocument.model_validate(given)
        if not self.params.dry_run:
            await self.of.service.create(params, self.call)
        return ["created"]

    async def _bring_up_to_date(
        self, one: FolderEntry, written: DocumentFile, document: Document, body: str
    ) -> list[str]:
        if one.id in self.before.above:
            raise Cycle(document_id=one.id, new_parent_id=self.params.parent_id)
        done: list[str] = []
        act = not self.params.dry_run
        patch = {} if one.file is None else differences(written, one.name, document, body)
        values.check(patch)
        model.Content.model_validate({"mime_type": written.mime_type, "body": written.body})
        update = model.UpdateDocument.model_validate(
            {"document_id": one.id, "patch": patch, "last_known_revision": document.revision}
        )
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
                await self.of.service.update(update, self.call)
            done.append("updated")
        return done

    async def _put_in_order(self) -> None:
        """Siblings stand as in the folder; others that are there stay between them."""
        wanted: dict[str, list[str]] = {}
        for id, one in self._in.items():
            wanted.setdefault(one.parent or ROOT, []).append(id)
        shape = await self._shape()
        for parent, ids in wanted.items():
            now = [id for id in shape.get(parent, ()) if id in self._in and self._in[id].parent == parent]
            now += [id for id in ids if id not in {*now}]  # somebody else may have taken it away
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
                self._deleted += [Change(path="", document_id=one, done=["deleted"]) for one in with_it]

    async def _move(self, id: str, parent: str, before: str | None) -> None:
        position = None if before is None else model.Position(before=before)
        params = model.MoveDocument(document_id=id, new_parent_id=parent, position=position)
        await self.of.service.move(params, self.call)

    async def _now(self, id: str) -> tuple[Document, str] | None:
        def work(tx: Tx) -> tuple[Document, str] | None:
            found = store.get(tx, self.call.tenant, id)
            return None if found is None else (found, store.body_of(tx, self.call.tenant, found))

        return await self.of.reads.read(self.call, work)

    async def _shape(self) -> dict[str, list[str]]:
        """The tree below the parent by now; in a dry run, as it would be."""
        tenant, top = self.call.tenant, self.params.parent_id
        parents = {id: one.parent or ROOT for id, one in self._in.items()}

        def work(tx: Tx) -> dict[str, list[str]]:
            if not self.params.dry_run:
                return tree.shape(tx, tenant, top, False)
            return ordering.as_if(tx, tenant, [top, *self._came], parents, self._undone)

        return await self.of.reads.read(self.call, work)

    def _answer(self, notes: list[str], gone: list[Gone]) -> Imported:
        changes = [Change(path=self._in[id].path, document_id=id, done=done) for id, done in self._done.items() if done]
        changes += self._deleted
        unchanged = sum(1 for done in self._done.values() if not done)
        counted = Counter(what for one in changes for what in one.done)
        counts = Counts(**counted, unchanged=unchanged, ignored=self.read.scan.ignored)
        return Imported(
            counts=counts,
            changes=changes,
            gone=gone or None,
            dry_run=self.params.dry_run or None,
            notes=notes or None,
        )


def _reason(problem: Unreadable | ValidationError | KhoError) -> str:
    if isinstance(problem, ValidationError):
        first = problem.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        return f"The text {first['msg']}." if where == "content.body" else f"'{where}': {first['msg']}"
    return problem.message if isinstance(problem, KhoError) else str(problem)


def _incomplete(count: int, dry_run: bool) -> str:
    files = "1 file" if count == 1 else f"{count} files"
    return f"{files} could not be imported; all others {'could be' if dry_run else 'are in'}."
