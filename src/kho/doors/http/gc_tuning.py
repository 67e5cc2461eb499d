"""Sockets that are open stay, and need not be looked through for garbage.

Now and then Python's collector looks through everything that lives, and nobody is served meanwhile: for half a second
with the sockets of 2,000 boards. So what is there when the hub has started, and again whenever some sockets have come,
is set aside (`gc.freeze`), and only what comes later is looked through. Of a socket that goes, some 10 KB that were set
aside may need a search to be freed: after many have gone, everything is looked through once.
"""

import gc

SOME = 32
MANY = 2_000


class Lasting:
    def __init__(self, some: int = SOME, many: int = MANY) -> None:
        self._some = some
        self._many = many
        self._came = 0
        self._went = 0
        self._aside = False

    def start(self) -> None:
        """The program itself lasts, too."""
        self._aside = True
        gc.freeze()

    def came(self) -> None:
        self._came += 1
        if self._came >= self._some:
            self._came = 0
            gc.collect()  # what came since the last time is soon looked through, and garbage is not to be kept
            self.start()

    def went(self) -> None:
        self._went += 1
        if self._went >= self._many:
            self._went = 0
            self.close()

    def close(self) -> None:
        if self._aside:
            self._aside = False
            gc.unfreeze()
