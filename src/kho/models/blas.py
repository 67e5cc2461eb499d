"""Limits the threads of numpy's matrix multiplication. numpy has no setting for it once it is loaded."""

import ctypes
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

log = logging.getLogger("kho.models")

SETTERS = (
    "scipy_openblas_set_num_threads64_",
    "scipy_openblas_set_num_threads",
    "openblas_set_num_threads64_",
    "openblas_set_num_threads",
)


def limit_threads(threads: int) -> bool:
    """Set the thread count of the OpenBLAS that numpy has loaded, for the whole process. False if numpy uses another
    library."""
    for path in _libraries():
        try:
            library = ctypes.CDLL(str(path))
        except OSError:
            continue
        for name in SETTERS:
            setter = getattr(library, name, None)
            if setter is not None:
                setter(ctypes.c_int(threads))
                return True
    log.info("numpy does not use OpenBLAS here: embedding may take more than %d threads", threads)
    return False


def _libraries() -> Iterator[Path]:
    import numpy as np

    package = Path(np.__file__).parent
    for folder in (package.parent / "numpy.libs", package / ".dylibs", package / ".libs"):
        if folder.is_dir():
            yield from (path for path in sorted(folder.iterdir()) if "openblas" in path.name)
    if sys.platform == "linux":  # a distribution's numpy uses the system's library
        for line in Path("/proc/self/maps").read_text().splitlines():
            path = line.rpartition(" ")[2]
            if "openblas" in path:
                yield Path(path)
