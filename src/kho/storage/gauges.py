"""Figures of the store itself, for /metrics."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from kho.kernel.capability import Gauge
from kho.kernel.ports import Tx
from kho.lib.sql import number


def gauges(home: Path) -> Sequence[Gauge]:
    """`home`: the folder of the hub's files, which with SQLite include the database."""
    return (
        Gauge("kho_store_bytes", "Size of the database.", _store_bytes),
        Gauge("kho_disk_free_bytes", "Free space on the disk of KHO_HOME.", lambda tx: _free_bytes(home)),
    )


def _store_bytes(tx: Tx) -> float:
    if tx.engine == "postgres":
        return number(tx, "SELECT pg_database_size(current_database())")
    return number(tx, "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")


def _free_bytes(home: Path) -> float:
    """With PostgreSQL the folder may not be there yet: nothing was written to it."""
    return shutil.disk_usage(next(one for one in (home, *home.parents) if one.exists())).free
