"""Hub: what a door is given to serve the operations and to authenticate callers."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from kho.kernel.api_keys import Keys, LocalToken
from kho.kernel.call import Call, Principal, Receipts
from kho.kernel.capability import Gauge
from kho.kernel.errors import Forbidden, KhoError
from kho.kernel.limits.limiter import Limiter
from kho.kernel.registry import Registry
from kho.lib.clock import Clock
from kho.lib.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Settled:
    """Result of processing the backlog of passages without vectors."""

    done: int
    left: int
    elsewhere: bool = False
    """True if another process is working on the backlog and continues."""
    problem: str | None = None


class Backlog(Protocol):
    """Passages that have no vectors yet."""

    async def pending(self) -> int: ...

    def nudge(self) -> None:
        """Look for passages now: another process has written some."""
        ...

    async def retry(self) -> None:
        """Try again now what failed before: the model has become available."""
        ...

    async def settle(self, progress: Callable[[int, int], None]) -> Settled:
        """Work until nothing is pending, for a command that is about to exit. Reports progress as (done, total)."""
        ...


class Refusals(Protocol):
    """Records requests that a door refused before any operation ran in the audit trail. Does not block the caller."""

    def unauthorized(self, address: str) -> None:
        """A request from this address had no valid credential."""
        ...

    def turned_away(self, address: str, operation: str) -> None:
        """A request from this address was refused for the host or the page that it names. `operation` says which."""
        ...

    def forbidden(self, call: Call, error: Forbidden) -> None: ...

    def limited(self, call: Call, error: KhoError) -> None:
        """A limit refused this call before any operation ran. The registry reports those that ran."""
        ...


@dataclass(frozen=True, slots=True)
class Hub:
    version: str
    registry: Registry
    ping: Callable[[], Awaitable[None]]
    """Returns if the database answers; raises KhoError if not."""
    keys: Keys
    receipts: Receipts
    clock: Clock
    local: Principal
    local_token: LocalToken
    refusals: Refusals
    limiter: Limiter
    measure: Callable[[], Awaitable[Sequence[tuple[Gauge, float]]]]
    """Reads every gauge now."""
    public: Principal | None = None
    """Principal of callers without a credential on a shared hub; None refuses them."""
    backlog: Backlog | None = None
    """None if the hub has keyword search only."""
