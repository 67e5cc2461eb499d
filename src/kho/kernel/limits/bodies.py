"""How many bytes of request bodies a process holds at once: of one tenant, and of all together.

A client may take its time over a body, and a call over its answer. Until then what has arrived lies in memory.
"""

from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager

from kho.kernel.limits.allowance import too_many
from kho.kernel.limits.settings import LimitSettings

FREE = 64 * 1024
"""Bytes of each body that are not counted: the web server reads as many ahead, and small requests go on while others
hold all that may be held."""
SOON = 1
"""Seconds after which to try again: it depends on when others end."""

Count = Callable[[int], None]
"""Called with the number of bytes that were read. Raises TooManyRequests if that is more than may be held."""


class Bodies:
    def __init__(self, settings: LimitSettings) -> None:
        self._settings = settings
        self._held: Counter[str] = Counter()
        """By owner: a tenant, or the address of whoever has none."""
        self._all = 0

    @contextmanager
    def held(self, owner: str | None) -> Generator[Count, None, None]:
        """Count a body until the block is left. `owner` is None for this machine's user."""
        read = counted = 0

        def count(size: int) -> None:
            nonlocal read, counted
            read += size
            more = read - FREE - counted
            if more <= 0:
                return
            if owner is not None:
                _need("bodies", self._settings.bodies, self._held[owner] + more)
                self._held[owner] += more
            counted += more
            self._all += more
            _need("all_bodies", self._settings.all_bodies, self._all)

        try:
            yield count
        finally:
            if counted:
                self._all -= counted
                if owner is not None:
                    self._held[owner] -= counted
                    if not self._held[owner]:
                        del self._held[owner]


def _need(name: str, most: int, wanted: int) -> None:
    if most and wanted > most:
        raise too_many(name, most, SOON)
