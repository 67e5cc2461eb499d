"""Boards that are connected stay, and need not be looked through for garbage.

Now and then Python's collector looks through everything that lives, and nobody is served meanwhile: for half a second
with 2,000 boards. So what is there when the hub has started, and again whenever some boards have come, is set
aside (`gc.freeze`), and only what comes later is looked through. What a board leaves when it goes is freed without a search. Something else may have been set
aside with the boards and need one: after many boards have gone, everything is looked through once.
"""

import gc

SOME = 32
MANY = 10_000
_EVERYTHING = 2
"""The collector's oldest generation."""


class Lasting:
    def __init__(self, some: int = SOME, many: int = MANY) -> None:
        self._some = some
        self._many = many
        self._came = 0
        self._went = 0
        self._aside = False
        self._searches = -1
        """How many there had been when one was last due."""

    def set_aside(self) -> None:
        self._came = 0
        self._aside = True
        gc.freeze()

    def came(self) -> None:
        self._came += 1
        if self._came >= self._some and _searches() != self._searches:
            self.set_aside()

    def went(self) -> None:
        self._went += 1
        if self._went >= self._many:
            self._went = 0
            self._searches = _searches()
            self.close()

    def close(self) -> None:
        """The collector looks through everything again, when it next finds that worth while."""
        if self._aside:
            self._aside = False
            gc.unfreeze()


def _searches() -> int:
    return gc.get_stats()[_EVERYTHING]["collections"]
