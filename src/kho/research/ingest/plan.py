"""What an ingest has to do: which files are new or may have changed, which need not be opened, and which are gone.

A file whose size and time are those of its document is not read. One that another time or size makes suspicious is read
and compared by its hash later, so a wrong suspicion costs a read and nothing more.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import PurePath
from typing import Any

from kho.kernel.ports import Tx
from kho.lib.sql import Table
from kho.parsers import is_readable
from kho.research.errors import PathRefused
from kho.research.ingest.allowed_paths import Located, Roots
from kho.research.ingest.globs import Patterns
from kho.research.ingest.job_store import Job
from kho.research.ingest.walk import File, SkippedFile, walk
from kho.search.indexing.index import storable


@dataclass(frozen=True, slots=True)
class Known:
    """A file that is here already, as far as it takes to tell whether it changed."""

    id: str
    path: str
    hash: str
    size: int
    mtime: int | None
    """None if it was read so soon after it was written that a later change might not show in its time."""
    job_id: str | None
    created_at: int


KNOWN = Table("research_documents", Known)


def known(tx: Tx, tenant: str, collection_id: str) -> dict[str, Known]:
    """All files of a collection, by path."""
    rows = tx.all(
        f"SELECT {KNOWN.columns} FROM research_documents WHERE tenant = $1 AND collection_id = $2 AND path IS NOT NULL",
        tenant,
        collection_id,
    )
    return {one.path: one for one in KNOWN.read_all(rows)}


def looked_at(tx: Tx, tenant: str, times: Sequence[tuple[str, int | None]]) -> None:
    """The files of these documents (ids) have another time, but the same bytes: nothing else changes."""
    tx.many(
        "UPDATE research_documents SET mtime = $1 WHERE tenant = $2 AND id = $3",
        [(mtime, tenant, id) for id, mtime in times],
    )


def chunks_of_job(tx: Tx, tenant: str, collection_id: str, job_id: str) -> int:
    """The chunks of the documents that a job stored."""
    row = tx.one(
        "SELECT coalesce(sum(chunks), 0) FROM research_documents "
        "WHERE tenant = $1 AND collection_id = $2 AND job_id = $3",
        tenant,
        collection_id,
        job_id,
    )
    return int(row[0]) if row else 0


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked for, as the job keeps it: whoever finishes the job needs no more."""

    path: str
    """Absolute, without links."""
    folder: bool
    host: str
    """The machine whose files are meant."""
    shared: bool
    """Whether the caller came with a remote credential; other folders are open to them."""
    stated: list[str] | None = None
    """The folders that the caller's client stated."""
    recursive: bool = False
    patterns: list[str] = field(default_factory=list[str])
    exclude: list[str] = field(default_factory=list[str])
    prune: bool = False
    force: bool = False

    @classmethod
    def of(cls, job: Job) -> "Request":
        """A job may come from a later version, which asked for more."""
        known = {one.name for one in fields(cls)}
        return cls(**{name: value for name, value in job.request.items() if name in known})

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def matching(self) -> Patterns:
        # Put together again: a comma within braces separated nothing.
        return Patterns.of(",".join(self.patterns), ",".join(self.exclude))


@dataclass(frozen=True, slots=True)
class Failure:
    path: str
    reason: str
    code: str
    advice: str = ""

    def as_dict(self) -> dict[str, str]:
        return {"path": self.path, "reason": self.reason, "code": self.code, "advice": self.advice}


@dataclass(frozen=True, slots=True)
class Wanted:
    """A file to read."""

    file: File
    path: str
    """As its document has it."""
    known: Known | None


@dataclass(slots=True)
class Plan:
    wanted: list[Wanted] = field(default_factory=list[Wanted])
    added: int = 0
    changed: int = 0
    """Of these two, what the same job did before it was broken off."""
    unchanged: int = 0
    gone: list[Known] = field(default_factory=list[Known])
    failures: list[Failure] = field(default_factory=list[Failure])


def of_file(roots: Roots, located: Located, known: Mapping[str, Known], request: Request, job: Job) -> Plan:
    with roots.open(located) as opened:
        status = os.fstat(opened.fileno())
    file = File(located, located.path.name, status.st_size, status.st_mtime_ns // 1000)
    plan = Plan()
    _consider(plan, file, known, request, job)
    return plan


def of_folder(
    roots: Roots,
    folder: Located,
    known: Mapping[str, Known],
    request: Request,
    job: Job,
    stopped: Callable[[], bool] = lambda: False,
) -> Plan:
    """Looks at every file of the folder, which takes a while: not for the event loop. `stopped` ends it early."""
    plan, seen, patterns = Plan(), set[str](), request.matching
    for found in walk(roots, folder, recursive=request.recursive, patterns=patterns):
        if stopped():
            break
        if isinstance(found, SkippedFile):
            path = storable(str(folder.path / found.relative))
            plan.failures.append(Failure(path, found.reason, PathRefused.code))
            continue
        path = storable(str(found.path))
        if path in seen:  # two links to one file
            continue
        seen.add(path)
        if request.patterns or is_readable(found.relative):
            _consider(plan, found, known, request, job)
    if request.prune and not stopped():
        plan.gone = [
            one for path, one in known.items() if path not in seen and _is_gone(one, folder, request, patterns)
        ]
    return plan


def has_vanished(path: str) -> bool:
    """True if there is certainly no such file. A disk that does not answer proves nothing."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def is_new(known: Known, job: Job) -> bool:
    """True for a document that this job stored and that was not there before."""
    return known.created_at >= job.created_at


def _consider(plan: Plan, file: File, known: Mapping[str, Known], request: Request, job: Job) -> None:
    path = storable(str(file.path))
    before = known.get(path)
    if before is None or (before.size, before.mtime) != (file.size, file.modified):
        plan.wanted.append(Wanted(file, path, before))
    elif before.job_id == job.id:  # stored before the job was broken off
        if is_new(before, job):
            plan.added += 1
        else:
            plan.changed += 1
    elif request.force:
        plan.wanted.append(Wanted(file, path, before))
    else:
        plan.unchanged += 1


def _is_gone(known: Known, folder: Located, request: Request, patterns: Patterns) -> bool:
    """Whether a document's file would have been met, had it been there. What lies in a folder that could not be looked
    into, or behind the place where the walk gave up, may well be there: a file is only gone if the disk says so."""
    path = PurePath(known.path)
    if not path.is_relative_to(folder.path):
        return False
    relative = path.relative_to(folder.path)
    names = relative.parts
    if not names or (len(names) > 1 and not request.recursive):
        return False
    met = patterns.wants(str(relative)) and not any(
        patterns.leaves_out(name) or patterns.excludes("/".join(names[: depth + 1])) for depth, name in enumerate(names)
    )
    return met and has_vanished(known.path)
