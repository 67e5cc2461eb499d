"""A clock that is set by hand."""

from dataclasses import dataclass

from kho.lib.clock import SECOND, from_iso, iso


@dataclass
class Clock:
    """Moves on by a second whenever it is looked at, so that nothing happens at the same time."""

    now: int = from_iso("2026-07-28T00:00:00Z")

    def __call__(self) -> int:
        self.now += SECOND
        return self.now

    def later(self, seconds: float) -> str:
        """A time that is still to come."""
        return iso(self.now + round(seconds * SECOND))

    def pass_seconds(self, seconds: float) -> None:
        self.now += round(seconds * SECOND)
