"""A process that takes in a folder, to be killed: ingest_child.py ENGINE PLACE FOLDER MODE SECONDS

MODE is resume (whatever was left), begin (a new job beside that), force (one that reads everything again) or finish
(whatever was left, then a new job). SECONDS is how far its
clock is ahead: a lease that a killed process left has then run out, and nobody needs to wait for that. It says "begun"
and, when no job is left, "over" with the counts of the last job as JSON."""

import asyncio
import json
import sys
from dataclasses import asdict
from pathlib import Path

from kho.kernel.background import Background
from kho.kernel.call import Call, Principal
from kho.kernel.ports import Database, Tx, Words
from kho.lib.clock import SECOND, system_clock
from kho.parsers import Worker
from kho.research import model
from kho.research.capability import MIGRATIONS
from kho.research.ingest import job_store
from kho.research.ingest.allowed_paths import AllowedPaths
from kho.research.ingest.jobs import JobLimits
from kho.research.ingest.service import Ingest
from kho.research.library import collection_store
from kho.research.library.collection_store import Collection
from kho.research.library.document_store import DocumentStore
from kho.research.settings import ResearchSettings
from kho.search.indexing.index import Index
from kho.storage.leases import SqlLeases
from kho.storage.migrate import OWN, migrate
from kho.storage.postgres.database import Postgres
from kho.storage.sqlite.database import Sqlite
from kho.storage.word_index.postgres import PostgresWords
from kho.storage.word_index.sqlite import SqliteWords

COLLECTION = Collection("c", "papers", "fundamental", "", "somebody", 0, 0)


def say(*words: str) -> None:
    sys.stdout.write(" ".join(words) + "\n")
    sys.stdout.flush()


async def all_over(db: Database, background: Background) -> None:
    while await db.read(lambda tx: tx.one("SELECT 1 FROM research_jobs WHERE finished_at IS NULL LIMIT 1")):
        await background.pause(0.02)


async def main(engine: str, place: str, folder: str, mode: str, ahead: str) -> None:
    db: Database = Sqlite.open(Path(place)) if engine == "sqlite" else Postgres.open(place)
    words: Words = SqliteWords() if engine == "sqlite" else PostgresWords()

    def clock() -> int:
        return system_clock() + int(ahead) * SECOND

    await migrate(db, [OWN, ("research", MIGRATIONS)])
    await db.write(lambda tx: collection_store.create(tx, "t", COLLECTION))
    background, reader = Background(), Worker(cut=True)
    allowed_paths = AllowedPaths.of([folder], [], kho_home=Path("/nowhere"))
    store = DocumentStore(Index(words, None, "", clock))
    ingest = Ingest(
        db=db,
        store=store,
        reader=reader,
        allowed_paths=allowed_paths,
        background=background,
        leases=SqlLeases(clock),
        clock=clock,
        settings=ResearchSettings(),
        job_limits=JobLimits(first_look=0.0),
    )
    background.add(ingest.resume)
    say("begun")
    if mode == "finish":
        await all_over(db, background)
    if mode != "resume":
        asked = {"path": folder, "collection": "papers", "recursive": True, "force": mode == "force"}
        call = Call(Principal("somebody", "t", frozenset({"*"})), "cli")
        await ingest.ingest(model.IngestDocuments.model_validate(asked), call)
    await all_over(db, background)

    def last(tx: Tx) -> str:
        return json.dumps(asdict(job_store.newest(tx, "t", 1)[0].counts))

    say("over", await db.read(last))
    await background.drain()
    await reader.aclose()
    await db.aclose()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
