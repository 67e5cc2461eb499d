"""Checksums of the file's pages: SQLite's own cksumvfs, which ships with the apsw wheel, keeps one in the last eight
bytes of every page that it writes into the file.

A store gets them when it is made, or when nobody else has it open and it is rewritten (`vacuum.add_checksums`).
Ordinary work does not compare them: whatever other SQLite program merely looks at a file after a crash, or copies it,
leaves pages without, and a store in which nothing is lost must stay in use. `kho verify` compares them (pages.py).
"""

import sys
from functools import cache
from pathlib import Path

import apsw

VFS = "cksmvfs"
RESERVED = 8
"""Bytes at the end of each page that hold its checksum."""
EXTRAS = Path(apsw.__file__).parent / "sqlite_extra_binaries"
"""Extensions and programs of SQLite that the wheel brings. Looked up here, because apsw's own way loads a tenth of a
start."""
_ENDINGS = {"win32": (".dll", ".exe"), "darwin": (".dylib", "")}.get(sys.platform, (".so", ""))


@cache
def vfs() -> str | None:
    """Return the name of the layer that writes checksums; None if this installation of apsw does not bring it."""
    file = EXTRAS / f"cksumvfs{_ENDINGS[0]}"
    if not file.is_file():
        return None
    default = apsw.vfs_names()[0]
    connection = apsw.Connection(":memory:")
    try:
        connection.enable_load_extension(True)
        connection.load_extension(str(file))
    except (apsw.Error, AttributeError):  # a SQLite that was built without extensions
        return None
    finally:
        connection.close()
    return VFS if VFS in apsw.vfs_names() and default != VFS else None


def shell() -> Path | None:
    """Return SQLite's own program, which reads out damaged files; None if this installation does not bring it."""
    program = EXTRAS / f"sqlite3_shell{_ENDINGS[1]}"
    return program if program.is_file() else None
