"""Limits the threads of numpy's matrix multiplication. numpy has no setting for it once it is loaded."""

import logging
from typing import Any, cast

log = logging.getLogger("kho.models")


def limit_threads(threads: int) -> bool:
    """Set the thread count of the BLAS library that numpy has loaded, for the whole process. False if it has none whose
    threads can be counted."""
    import numpy  # noqa: F401  # pyright: ignore[reportUnusedImport]  # only libraries that are loaded are found
    import threadpoolctl  # pyright: ignore[reportMissingTypeStubs]  # it has no types

    blas: Any = cast(Any, threadpoolctl).ThreadpoolController().select(user_api="blas")
    if not blas.lib_controllers:
        log.info("numpy's library is not known here: embedding may take more than %d threads", threads)
        return False
    blas.limit(limits=threads)
    return True
