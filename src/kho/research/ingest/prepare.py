"""Turns one file into a document: read, compare, extract the text, chunk and tokenize. Stores nothing."""

import asyncio
import hashlib
import uuid
from typing import Protocol

from kho.kernel.errors import NotSanitized
from kho.kernel.ports import Screen
from kho.lib.clock import SECOND, Clock
from kho.lib.dataclass import dataclass
from kho.parsers.model import ParsedFile, UnreadableFile
from kho.research.errors import DocumentError, Unreadable
from kho.research.ingest import indexing
from kho.research.ingest.allowed_paths import Roots
from kho.research.ingest.indexing import Doc, Filing
from kho.research.ingest.job_store import Job
from kho.research.ingest.plan import Failure, Known, Wanted
from kho.search.indexing.index import Index, TooManyPassages

UNSETTLED = 2 * SECOND
"""A file younger than this may be written again without a new modification time: some disks have a resolution of two
seconds."""


class Reader(Protocol):
    async def read(self, data: bytes, name: str, *, suspect: bool = False) -> ParsedFile: ...
    async def read_text(self, text: str) -> ParsedFile: ...


@dataclass(frozen=True, slots=True)
class Same:
    """The file has the same bytes as its document."""

    known: Known
    mtime: int | None
    """Modification time that its row should have."""


Prepared = Filing | Same | Failure


@dataclass(slots=True, kw_only=True)
class Preparing:
    """Prepares the files of one job."""

    job: Job
    roots: Roots
    reader: Reader
    clock: Clock
    index: Index
    limit: int
    """Maximum file size in bytes."""
    force: bool
    screen: Screen | None = None
    sightings: list[str]
    """Gets the files with secrets in them."""
    suspect: bool = False
    """The previous process died while running this job: one of the files may have crashed it."""

    async def prepare(self, wanted: Wanted) -> Prepared:
        try:
            return await self._prepare(wanted)
        except DocumentError as problem:
            return Failure(wanted.path, problem.message, problem.code, problem.guidance)
        except NotSanitized as problem:
            return Failure(wanted.path, problem.message, problem.code, problem.guidance)
        except UnreadableFile as problem:
            return Failure(wanted.path, sentence(problem.reason), Unreadable.code, problem.advice)
        except TooManyPassages as problem:
            return Failure(wanted.path, problem.message, problem.code, problem.guidance)
        except OSError as problem:
            return Failure(wanted.path, f"It cannot be read: {problem.strerror}.", Unreadable.code)

    async def _prepare(self, wanted: Wanted) -> Prepared:
        file, known = wanted.file, wanted.known
        data, digest = await asyncio.to_thread(self._bytes, wanted)
        now = self.clock()
        mtime = None if abs(now - file.modified) < UNSETTLED else file.modified
        if known is not None and known.hash == digest and (not self.force or known.job_id == self.job.id):
            return Same(known, mtime)
        found = await self.reader.read(data, file.path.name, suspect=self.suspect)
        doc = Doc(
            id=known.id if known else str(uuid.uuid4()),
            collection_id=self.job.collection_id or "",
            origin="file",
            path=wanted.path,
            title=found.title,
            format=found.format,
            cut=found.kind,
            hash=digest,
            size_bytes=len(data),
            modified_at=mtime,
            tags=found.tags,
            author=found.author,
            published=found.published,
            job_id=self.job.id,
            created_at=known.created_at if known else now,
            updated_at=now,
        )
        del data
        if self.screen is not None:
            self.sightings += await self.screen.screen_file("research", wanted.path, [wanted.path, *found.texts])
        return await asyncio.to_thread(indexing.make, self.job.tenant, doc, found.text, found.chunks, self.index)

    def _bytes(self, wanted: Wanted) -> tuple[bytes, str]:
        data = self.roots.read(wanted.file.located, self.limit)
        return data, hash_of(data)


def hash_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def sentence(reason: str) -> str:
    """Turn a reason into a sentence: capital letter and full stop."""
    return f"{reason[:1].upper()}{reason[1:].rstrip('.')}."
