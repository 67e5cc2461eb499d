"""Shared by all research operations: the contract (names, scopes, errors, Markdown) and time limits."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import field
from functools import wraps
from typing import Any, TypeVar

from kho.kernel import Call, Changes, Contract, Database, Timeout, Tx
from kho.lib.clock import Clock
from kho.lib.dataclass import dataclass
from kho.research.errors import QueryTimeout
from kho.research.settings import ResearchSettings

READ, WRITE = "research:read", "research:write"
RESEARCH = Contract("research", read_scope=READ, write_scope=WRITE, protocol_errors=True, markdown=True)
COLLECTIONS = "kho://research/collections"
"""URI of the resource that lists the collections."""
SOME_ID = "550e8400-e29b-41d4-a716-446655440000"
READ_TIMEOUT = 60.0
"""Maximum seconds for a plain read. The call's deadline is usually sooner."""


T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class ResearchService:
    """Base class of the research services."""

    db: Database
    clock: Clock
    settings: ResearchSettings
    changes: Changes = field(default_factory=lambda: Changes(scope=READ))
    """Told when collections come or go: they are resources."""

    def tell(self, tenant: str) -> None:
        """Say that collections came, went or have another name."""
        self.changes.tell(tenant)
        self.changes.tell(tenant, COLLECTIONS)

    async def read(self, call: Call, work: Callable[[Tx], T]) -> T:
        """Run a read-only transaction within the call's deadline."""
        return await self.db.read(work, timeout=call.remaining(READ_TIMEOUT))


S = TypeVar("S", bound=ResearchService)
P = TypeVar("P")
R = TypeVar("R")


@asynccontextmanager
async def time_limit(call: Call, seconds: float) -> AsyncGenerator[None, None]:
    """Raise Timeout after `seconds`, or at the caller's own deadline if that is sooner."""
    left = call.remaining(seconds)
    call.deadline = time.monotonic() + left
    try:
        async with asyncio.timeout(left):
            yield
    except TimeoutError:
        raise Timeout(guidance="Check whether the change was made, then try again.") from None


@contextmanager
def query_time(clock: Clock) -> Generator[None, None, None]:
    """Turn a Timeout into the contract's QueryTimeout."""
    started = clock()
    try:
        yield
    except Timeout:
        raise QueryTimeout(f"The search was stopped after {(clock() - started) / 1e6:.1f} s.") from None


def simple(run: Callable[[S, P, Call], Awaitable[R]]) -> Callable[[S, P, Call], Coroutine[Any, Any, R]]:
    """Decorator for short operations: limits them to `simple_timeout` seconds."""

    @wraps(run)
    async def bounded(self: S, params: P, call: Call) -> R:
        async with time_limit(call, self.settings.simple_timeout):
            return await run(self, params, call)

    return bounded
