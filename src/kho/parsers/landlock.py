"""Landlock: a Linux process gives up, for good, what it will not need. Here: all files but those of Python, which it
may read, and every connection over TCP.

There is no wrapper in Python or in libc; the three system calls have the same numbers on almost all architectures. Each
version of the kernel's interface (ABI) knows more rights; those that a kernel does not know are left out, so an older
one confines less.
"""

import ctypes
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_VERSION = 1
_BENEATH = 1
_NO_NEW_PRIVS = 38
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
_FILES = {1: (1 << 13) - 1, 2: 1 << 13, 3: 1 << 14, 5: 1 << 15}
"""Rights over files, by the ABI that brought them: executing, reading, writing, making, removing; linking and moving;
truncating; asking devices."""
_TCP = {4: (1 << 0) | (1 << 1)}
"""Listening and connecting."""
_SCOPES = {6: (1 << 0) | (1 << 1)}
"""Abstract unix sockets, and signals, of processes outside."""
_PACKAGES = ("kho", "pypdf", "docx", "lxml", "selectolax", "charset_normalizer", "yaml", "orjson")
"""What parsers import when the first file of their kind is read."""
_SYSTEM = (
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/etc/ld.so.cache",
    "/dev/null",
    "/dev/urandom",
)


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("tcp", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("rights", ctypes.c_uint64), ("folder", ctypes.c_int32))


def abi() -> int:
    """Return the version of the interface; 0 if this system has none, or has switched it off."""
    if sys.platform != "linux":
        return 0
    try:
        return max(0, _call(_CREATE, None, 0, _VERSION))
    except OSError:
        return 0


def confine() -> int:
    """Confine this process, which must have one thread only; return the ABI, 0 if there is none."""
    known = abi()
    if known == 0:
        return 0
    rules = _Ruleset(*(_rights(table, known) for table in (_FILES, _TCP, _SCOPES)))
    size = 8 if known < 4 else 16 if known < 6 else 24
    ruleset = _call(_CREATE, ctypes.byref(rules), size, 0)
    try:
        for path in dict.fromkeys(_needed()):
            _allow(ruleset, path)
        libc().prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)
        _call(_RESTRICT, ruleset, 0)
    finally:
        os.close(ruleset)
    return known


def _rights(table: dict[int, int], known: int) -> int:
    return sum(rights for since, rights in table.items() if since <= known)


def _allow(ruleset: int, path: str) -> None:
    """Allow reading a file, or all below a folder."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # not on this system
        return
    try:
        rights = _READ_FILE | _READ_DIR if Path(path).is_dir() else _READ_FILE
        rule = _Beneath(rights, descriptor)
        _call(_ADD, ruleset, _BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(descriptor)


def _needed() -> Iterator[str]:
    """Yield where code is loaded from: Python's own folders, the entries of its path that hold what parsers import
    (others, such as the working directory, hold anything), and the folders of the libraries that are loaded."""
    yield from _SYSTEM
    yield from (path for name, path in sysconfig.get_paths().items() if name.endswith(("lib", "stdlib")))
    yield from _entries(_PACKAGES)
    try:
        loaded = Path("/proc/self/maps").read_text(errors="replace").splitlines()
    except OSError:
        return
    yield from {str(Path(line.split(maxsplit=5)[-1]).parent) for line in loaded if ".so" in line and "/" in line}


def _entries(packages: Iterable[str]) -> Iterator[str]:
    for name in packages:
        spec = find_spec(name)
        if spec is None or not spec.origin:
            continue
        folder = Path(spec.origin).parent
        yield str(folder.parent if spec.submodule_search_locations else folder)


def libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _call(number: int, *arguments: object) -> int:
    wide = [ctypes.c_size_t(one) if isinstance(one, int) else one for one in arguments]
    answer = libc().syscall(ctypes.c_long(number), *wide)
    if answer < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return answer
