"""Damaged stores: a store with rows of every slice, and ways to damage it. Each way takes the same turn of chance every
time, so that a failure can be looked at again."""

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import apsw
from tests.stores.kept import Kept, settings_of

from kho.app import open_hub
from kho.kernel.call import Call
from kho.settings import Settings
from kho.storage.sqlite import vacuum
from kho.storage.sqlite.connection import Connection, connect

PAGE = 4096
TEXTS = {"messages", "document_bodies", "facts", "experiences", "research_texts", "document_revisions"}
AUDIT = {"audit", "audit_links"}
PEOPLES = (
    "api_keys audit audit_links audit_subjects conversations messages device_calls devices document_bodies "
    "document_revisions documents experiences experience_revisions fact_revisions facts receipts "
    "research_collections research_documents research_texts"
).split()
"""Tables whose rows are counted."""


@dataclass(frozen=True)
class Store:
    """A whole store: the file, and the same with a log that is not in the file yet."""

    folder: Path
    rows: dict[str, set[tuple[object, ...]]]
    owners: dict[int, str]
    """The table or index of each page."""

    def copy(self, home: Path, *, with_log: bool) -> Path:
        home.mkdir(parents=True)
        shutil.copy(self.folder / ("logged.db" if with_log else "kho.db"), home / "kho.db")
        if with_log:
            shutil.copy(self.folder / "logged.db-wal", home / "kho.db-wal")
        return home / "kho.db"


async def make(folder: Path) -> Store:
    """A store of the newest form with checksums, and long texts, whose rows need more than one page."""
    settings = Kept("2026-12-chain", "sqlite").unpack(folder)
    async with open_hub(settings) as hub:
        for number in range(40):
            text = " ".join(f"{word} {number}" for word in ("kettle", "trà xanh", "消防", "lathe") for _ in range(60))
            params = {
                "conversation_id": f"talk-{number % 3}",
                "role": "user",
                "content": text * (1 + 5 * (number % 7 == 0)),
            }
            operation = hub.registry.tool("memory_add_message")
            assert operation is not None
            outcome = await hub.registry.call(operation, params, Call(hub.local))
            assert outcome.error is None, outcome.error
    assert vacuum.add_checksums(folder / "kho.db")
    _log(folder)
    connection = connect(str(folder / "kho.db"))
    try:
        return Store(folder, rows(connection), dict(connection.execute("SELECT pageno, name FROM dbstat").fetchall()))
    finally:
        connection.close()


def _log(folder: Path) -> None:
    """Leave a log behind, as a killed hub does: every message is written again in it."""
    shutil.copy(folder / "kho.db", folder / "live.db")
    connection = connect(str(folder / "live.db"))
    connection.execute("PRAGMA wal_autocheckpoint = 0").fetchall()
    for number in range(30):
        connection.execute("UPDATE messages SET content = content || ? WHERE place % 30 = ?", (".", number))
    for name in ("", "-wal"):
        shutil.copy(folder / f"live.db{name}", folder / f"logged.db{name}")
    connection.close()


def rows(connection: Connection) -> dict[str, set[tuple[object, ...]]]:
    """The keys of all rows that people have: what is read again must have them."""
    found: dict[str, set[tuple[object, ...]]] = {}
    for table in PEOPLES:
        told = connection.execute("SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk", (table,)).fetchall()
        key = ", ".join(f"CAST({name} AS BLOB)" for (name,) in told)
        try:
            found[table] = set(connection.execute(f"SELECT {key} FROM {table}").fetchall())
        except apsw.Error:  # not there, in what another program has read out
            found[table] = set()
    return found


Damage = Callable[[Path, Store, random.Random], None]


def _flip(path: Path, pages: list[int], chance: random.Random, count: int = 1) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(count):
        at = (chance.choice(pages) - 1) * PAGE + chance.randrange(PAGE)
        content[at] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


def _of(store: Store, names: set[str]) -> list[int]:
    return [page for page, name in store.owners.items() if name in names and page > 1]


def body(path: Path, store: Store, chance: random.Random) -> None:
    """A bit of a row is another one."""
    _flip(path, _of(store, TEXTS), chance)


def bits(path: Path, store: Store, chance: random.Random) -> None:
    """Bits all over the file."""
    _flip(path, [*store.owners], chance, count=chance.randint(2, 20))


def audit(path: Path, store: Store, chance: random.Random) -> None:
    """A bit of the audit trail, or of its chain."""
    _flip(path, _of(store, AUDIT), chance)


def index(path: Path, store: Store, chance: random.Random) -> None:
    """A bit of an index."""
    named = {name for name in store.owners.values() if name.startswith("sqlite_autoindex") or "_by_" in name}
    _flip(path, _of(store, named), chance)


def page(path: Path, store: Store, chance: random.Random) -> None:
    """Pages are overwritten with something else."""
    content = bytearray(path.read_bytes())
    for number in chance.sample(sorted(store.owners), chance.randint(1, 6)):
        length = chance.choice((16, 512, PAGE))
        content[(number - 1) * PAGE : (number - 1) * PAGE + length] = chance.randbytes(length)
    path.write_bytes(content)


def zeros(path: Path, store: Store, chance: random.Random) -> None:
    """Pages are empty, as a disk leaves them that was not asked to write."""
    content = bytearray(path.read_bytes())
    for number in chance.sample(sorted(store.owners), chance.randint(1, 4)):
        content[(number - 1) * PAGE : number * PAGE] = bytes(PAGE)
    path.write_bytes(content)


def cut(path: Path, store: Store, chance: random.Random) -> None:
    """The file ends too early."""
    with path.open("r+b") as file:
        file.truncate(chance.randrange(3 * PAGE, path.stat().st_size))


def header(path: Path, store: Store, chance: random.Random) -> None:
    """The first page is gone, and with it what says where tables begin."""
    content = bytearray(path.read_bytes())
    length = chance.choice((16, 100, PAGE))
    content[:length] = chance.randbytes(length)
    path.write_bytes(content)


def log(path: Path, store: Store, chance: random.Random) -> None:
    """A bit of the log is another one."""
    wal = path.with_name(f"{path.name}-wal")
    content = bytearray(wal.read_bytes())
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    wal.write_bytes(content)


def no_log(path: Path, store: Store, chance: random.Random) -> None:
    """The log is gone; what says that there was one is still there."""
    path.with_name(f"{path.name}-wal").unlink()
    path.with_name(f"{path.name}-shm").write_bytes(bytes(32_768))


def only_log(path: Path, store: Store, chance: random.Random) -> None:
    """The file is gone, and its log is there."""
    path.unlink()


WITH_LOG: tuple[Damage, ...] = (log, no_log, only_log)
KINDS: tuple[Damage, ...] = (body, bits, audit, index, page, zeros, cut, header, *WITH_LOG)


def settings(home: Path) -> Settings:
    return settings_of(home, None)
