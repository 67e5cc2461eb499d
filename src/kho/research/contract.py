"""What all operations on research collections share: one name on all wires, the contract's errors, Markdown, and the
seconds that they may take."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from contextlib import asynccontextmanager, contextmanager
from functools import wraps
from typing import Any, Protocol, TypeVar

from kho.kernel.call import Call
from kho.kernel.contract import Contract
from kho.kernel.errors import Timeout
from kho.lib.clock import Clock
from kho.research.errors import QueryTimeout
from kho.research.settings import ResearchSettings

READ, WRITE = "research:read", "research:write"
RESEARCH = Contract("research", read_scope=READ, write_scope=WRITE, protocol_errors=True, markdown=True)
SOME_ID = "550e8400-e29b-41d4-a716-446655440000"
READ_TIMEOUT = 60.0
"""Seconds at most for what is only looked up. The deadline of the call is usually nearer."""


class Timed(Protocol):
    """A service whose settings say how long a simple operation may take."""

    settings: ResearchSettings


S = TypeVar("S", bound=Timed)
P = TypeVar("P")
R = TypeVar("R")


@asynccontextmanager
async def time_limit(call: Call, seconds: float) -> AsyncGenerator[None, None]:
    """Gives up after so many seconds, or at the caller's own deadline if that is nearer."""
    left = call.remaining(seconds)
    call.deadline = time.monotonic() + left
    try:
        async with asyncio.timeout(left):
            yield
    except TimeoutError:
        raise Timeout(guidance="Look whether a change was made after all, then try again.") from None


@contextmanager
def query_time(clock: Clock) -> Generator[None, None, None]:
    """For questions: says in the contract's words that the time was not enough."""
    started = clock()
    try:
        yield
    except Timeout:
        raise QueryTimeout(f"The question was given up after {(clock() - started) / 1e6:.1f} s.") from None


def simple(run: Callable[[S, P, Call], Awaitable[R]]) -> Callable[[S, P, Call], Coroutine[Any, Any, R]]:
    """For operations that look up or store little: they have `simple_timeout` seconds."""

    @wraps(run)
    async def bounded(self: S, params: P, call: Call) -> R:
        async with time_limit(call, self.settings.simple_timeout):
            return await run(self, params, call)

    return bounded
