"""Plans an ingest: which files are new or may have changed, which need not be read, and which are gone.

A file whose size and modification time match its document is not read. One with another time or size is read and later
compared by hash, so a false alarm costs one read.
"""

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, field, fields
from pathlib import PurePath
from typing import Any

from kho.kernel.ports import Tx
from kho.lib.dataclass import dataclass
from kho.lib.sql import Table, number
from kho.parsers import is_readable
from kho.research.errors import PathRefused
from kho.research.ingest.allowed_paths import Located, Roots
from kho.research.ingest.globs import Patterns
from kho.research.ingest.job_store import Job
from kho.research.ingest.walk import File, SkippedFile, walk
from kho.search.indexing.index import storable

MAX_ENDING = 20
"""Characters of a name ending that are kept of files that are not read."""


@dataclass(frozen=True, slots=True)
class Known:
    """The columns of a known file that tell whether it changed."""

    id: str
    path: str
    hash: str
    size: int
    mtime: int | None
    """None if the file was read so soon after it was written that a later change might not alter its modification
    time."""
    job_id: str | None
    created_at: int


KNOWN = Table("research_documents", Known)


def known(tx: Tx, tenant: str, collection_id: str) -> dict[str, Known]:
    """Return all files of a collection, by path."""
    files = KNOWN.all(tx, "tenant = $1 AND collection_id = $2 AND path IS NOT NULL", tenant, collection_id)
    return {one.path: one for one in files}


def looked_at(tx: Tx, tenant: str, times: Sequence[tuple[str, int | None]]) -> None:
    """Store new modification times of documents (by id) whose files have the same bytes as before."""
    tx.many(
        "UPDATE research_documents SET mtime = $1 WHERE tenant = $2 AND id = $3",
        [(mtime, tenant, id) for id, mtime in times],
    )


def chunks_of_job(tx: Tx, tenant: str, collection_id: str, job_id: str) -> int:
    """Return the number of chunks of the documents that a job stored."""
    own = "tenant = $1 AND collection_id = $2 AND job_id = $3"
    statement = f"SELECT coalesce(sum(chunks), 0) FROM research_documents WHERE {own}"
    return number(tx, statement, tenant, collection_id, job_id)


@dataclass(frozen=True, slots=True)
class Request:
    """The ingest request as stored with the job: whichever process finishes the job needs nothing else."""

    path: str
    """Absolute and resolved (no links)."""
    folder: bool
    host: str
    """Host name of the machine that has the files."""
    shared: bool
    """True if the caller has a remote credential; other folders are allowed then."""
    stated: list[str] | None = None
    """MCP roots that the caller's client stated; None if it stated none."""
    recursive: bool = False
    patterns: list[str] = field(default_factory=list[str])
    exclude: list[str] = field(default_factory=list[str])
    prune: bool = False
    force: bool = False

    @classmethod
    def of(cls, job: Job) -> "Request":
        """Read the request of a job. Unknown fields are ignored: a later version may have stored it."""
        known = {one.name for one in fields(cls)}
        return cls(**{name: value for name, value in job.request.items() if name in known})

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def matching(self) -> Patterns:
        # Joined again, because the params were split at every comma, also at those within braces.
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
    """The path as stored with its document."""
    known: Known | None


@dataclass(slots=True)
class Plan:
    wanted: list[Wanted] = field(default_factory=list[Wanted])
    added: int = 0
    changed: int = 0
    """`added` and `changed` count what the same job stored before it was interrupted."""
    unchanged: int = 0
    gone: list[Known] = field(default_factory=list[Known])
    failures: list[Failure] = field(default_factory=list[Failure])
    skipped: Counter[str] = field(default_factory=Counter[str])
    """Files of unknown kinds, by name ending."""


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
    """Plan the ingest of a folder. Checks every file: do not run it in the event loop. `stopped` ends it early."""
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
        else:
            plan.skipped[found.path.suffix.lower()[:MAX_ENDING]] += 1
    if request.prune and not stopped():
        plan.gone = [
            one for path, one in known.items() if path not in seen and _is_gone(one, folder, request, patterns)
        ]
    return plan


def has_vanished(path: str) -> bool:
    """True if the file certainly does not exist. A disk that does not respond proves nothing."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def is_new(known: Known, job: Job) -> bool:
    """True if this job created the document."""
    return known.created_at >= job.created_at


def _consider(plan: Plan, file: File, known: Mapping[str, Known], request: Request, job: Job) -> None:
    path = storable(str(file.path))
    before = known.get(path)
    if before is None or (before.size, before.mtime) != (file.size, file.modified):
        plan.wanted.append(Wanted(file, path, before))
    elif before.job_id == job.id:  # stored before the job was interrupted
        if is_new(before, job):
            plan.added += 1
        else:
            plan.changed += 1
    elif request.force:
        plan.wanted.append(Wanted(file, path, before))
    else:
        plan.unchanged += 1


def _is_gone(known: Known, folder: Located, request: Request, patterns: Patterns) -> bool:
    """True if the document's file was in reach of the walk and does not exist any more. Being missed by the walk is not
    enough: the file may be in a folder that could not be read, or beyond the walk's limit."""
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
