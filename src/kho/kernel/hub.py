"""What a door is given: the operations, and who may call them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from kho.kernel.api_keys import Keys
from kho.kernel.call import Principal, Receipts
from kho.kernel.registry import Registry
from kho.lib.clock import Clock


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of the passages that waited for vectors."""

    done: int
    left: int
    elsewhere: bool = False
    """Another process is at it, and goes on."""
    problem: str | None = None


class Backlog(Protocol):
    """Passages that wait for their vectors."""

    async def pending(self) -> int: ...

    async def settle(self, progress: Callable[[int, int], None]) -> Settled:
        """Works until nothing waits, for a command that is about to end. Tells (done, total) as it goes."""
        ...


@dataclass(frozen=True, slots=True)
class Hub:
    version: str
    registry: Registry
    ping: Callable[[], Awaitable[None]]
    """Comes back if the database answers, raises KhoError if not."""
    keys: Keys
    receipts: Receipts
    clock: Clock
    local: Principal
    public: Principal | None = None
    """Who a caller without a credential is on a shared hub; nobody when None."""
    backlog: Backlog | None = None
    """None for keyword search only."""
