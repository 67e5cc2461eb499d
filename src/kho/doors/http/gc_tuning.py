"""Freezes long-lived objects so that the garbage collector does not scan them.

A full collection scans all live objects and blocks every request: for half a second with the sockets of 2,000 boards.
So all objects that exist once the hub has started, and again after every 32 new sockets, are frozen (`gc.freeze`), and
only later ones are scanned. A closed socket may leave some 10 KB of frozen garbage that only a scan can free: after
2,000 closed sockets, everything is scanned once.
"""

import gc

from kho.lib.dataclass import dataclass


@dataclass(slots=True)
class GcFreezer:
    freeze_after: int = 32
    """Number of new sockets after which objects are frozen."""
    thaw_after: int = 2_000
    """Number of closed sockets after which everything is scanned once."""
    _came: int = 0
    _went: int = 0
    _frozen: bool = False

    def start(self) -> None:
        """Freeze all current objects, including those of the program itself."""
        self._frozen = True
        gc.freeze()

    def came(self) -> None:
        self._came += 1
        if self._came >= self.freeze_after:
            self._came = 0
            gc.collect()  # few new objects since the last freeze, and garbage must not be frozen
            self.start()

    def went(self) -> None:
        self._went += 1
        if self._went >= self.thaw_after:
            self._went = 0
            self.close()

    def close(self) -> None:
        if self._frozen:
            self._frozen = False
            gc.unfreeze()
