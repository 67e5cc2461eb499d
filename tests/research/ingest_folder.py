"""A folder of files beside the desk, and the services that take files in. Several of them on one database stand for
several processes."""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.clock import Clock
from tests.research.factories import Desk, files_of, settings
from tests.timeouts import PATIENCE

from kho import parsers
from kho.kernel.background import Background
from kho.kernel.call import Call
from kho.research import model
from kho.research.ingest import job_store
from kho.research.ingest.allowed_paths import AllowedPaths
from kho.research.ingest.indexing import Doc
from kho.research.ingest.jobs import JobLimits
from kho.research.ingest.prepare import Reader
from kho.research.ingest.report import Reports
from kho.research.ingest.service import Ingest
from kho.research.model import IngestAnswer, JobReport
from kho.research.settings import ResearchSettings
from kho.search.indexing import passages
from kho.storage.leases import SqlLeases


class Still(Clock):
    """Stands until it is moved: leases run out only when a test wants it."""

    def __call__(self) -> int:
        return self.now


class Plain:
    """Reads here and now: no file of these tests needs a process of its own."""

    async def read(self, data: bytes, name: str, *, suspect: bool = False) -> parsers.ParsedFile:
        return parsers.read(data, name)

    async def read_text(self, text: str) -> parsers.ParsedFile:
        return parsers.read_text(text)


class Gated(Plain):
    """Holds back what comes after the first `free` files until the gate opens."""

    def __init__(self, free: int = 0) -> None:
        self.free = free
        self.reached = asyncio.Event()
        self.gate = asyncio.Event()

    async def read(self, data: bytes, name: str, *, suspect: bool = False) -> parsers.ParsedFile:
        self.free -= 1
        if self.free < 0:
            self.reached.set()
            await self.gate.wait()
        return await super().read(data, name, suspect=suspect)


@dataclass
class IngestFolder:
    desk: Desk
    folder: Path
    clock: Clock = field(default_factory=Still)
    reader: Reader = field(default_factory=Plain)
    background: Background = field(default_factory=Background)
    settings: ResearchSettings = field(default_factory=settings)
    job_limits: JobLimits = field(default_factory=lambda: JobLimits(first_look=0.0))

    def __post_init__(self) -> None:
        root = self.folder.parent
        allowed_paths = AllowedPaths.of([root], [], kho_home=root / "home", cwd=root, home=root)
        self.service = Ingest(
            db=self.desk.db,
            store=self.desk.store,
            reader=self.reader,
            allowed_paths=allowed_paths,
            background=self.background,
            leases=SqlLeases(self.clock),
            clock=self.clock,
            settings=self.settings,
            job_limits=self.job_limits,
        )
        self.reports = Reports(db=self.desk.db, jobs=self.service.jobs, clock=self.desk.clock, settings=self.settings)

    def write(self, name: str, text: str | bytes, *, mtime: int = 1_700_000_000) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        age(path, mtime)
        return path

    def many(self, count: int) -> None:
        for n in range(count):
            self.write(f"part{n % 3}/note{n:03}.md", f"# Note {n}\n\nThe word number{n} stands here.\n")

    async def ingest(
        self, path: str = "", collection: str = "papers", call: Call | None = None, **more: Any
    ) -> JobReport:
        return (await self.answer(path, collection, call, **more)).job

    async def answer(
        self, path: str = "", collection: str = "papers", call: Call | None = None, **more: Any
    ) -> IngestAnswer:
        wanted = {"path": str(self.folder / path), "collection": collection, "recursive": True, **more}
        return await self.service.ingest(model.IngestDocuments.model_validate(wanted), call or self.desk.call())

    async def docs(self, collection: str = "papers") -> dict[str, Doc]:
        """By path below the folder."""
        row = (await self.desk.collection("info", collection)).collection
        assert row is not None
        found = await self.desk.db.read(lambda tx: files_of(tx, self.desk.tenant, row.id))
        return {str(Path(path).relative_to(self.folder)): doc for path, doc in found.items()}

    async def seqs(self, doc: Doc) -> dict[str, int]:
        """The numbers of a document's passages, by digest."""
        filed = await self.desk.db.read(
            lambda tx: passages.of_keys(tx, "research", self.desk.tenant, doc.collection_id, [doc.id])
        )
        return {digest: one.seq for one, _, digest in filed[doc.id]}

    async def row(self, id: str) -> job_store.Job:
        return await self.desk.db.read(lambda tx: job_store.need(tx, self.desk.tenant, id))

    async def until(self, id: str, reached: Callable[[job_store.Job], bool]) -> job_store.Job:
        async with asyncio.timeout(PATIENCE):
            row = await self.row(id)
            while not reached(row):
                row = await self.row(id)
        return row


def age(path: Path, mtime: int) -> None:
    os.utime(path, (mtime, mtime))
