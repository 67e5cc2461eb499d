"""Keeps the limits of callers and tenants in this process. This machine's user has none."""

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from contextvars import ContextVar
from threading import Lock

from kho.kernel.call import Principal
from kho.kernel.errors import TooManyRequests
from kho.kernel.limits.settings import Limit, LimitSettings
from kho.lib.dataclass import dataclass
from kho.lib.token_bucket import TokenBucket

KNOWN = 10_000
"""Callers whose buckets are kept. Who has been silent for longest is forgotten, and begins with full ones."""
SOON = 1
"""Seconds after which to try again what waits for others to end."""

Ticks = Callable[[], float]
"""Seconds on a clock that never goes back."""


def setting(name: str) -> str:
    return f"KHO_LIMITS__{name.upper()}"


def described(name: str) -> Limit:
    return next(one for one in LimitSettings.model_fields[name].metadata if isinstance(one, Limit))


def too_many(name: str, most: float, retry_after: float) -> TooManyRequests:
    """Make the refusal of what is over a limit."""
    limit, seconds = described(name), max(1, math.ceil(retry_after))
    return TooManyRequests(
        f"The limit of {most:,} {limit.counts} of one {limit.of} is reached. Nothing was done. "
        f"Try again in {seconds} second{'s' if seconds > 1 else ''}.",
        guidance=f"Wait. If it is too little, whoever runs the hub can set {setting(name)}.",
        limit=name,
        setting=setting(name),
        retry_after=seconds,
    )


class Allowance:
    """What one credential may take in this process. Used from any thread."""

    def __init__(self, settings: LimitSettings, ticks: Ticks) -> None:
        self._settings = settings
        self._ticks = ticks
        self._buckets: dict[str, TokenBucket] = {}
        self._lock = Lock()
        self.open: dict[str, int] = {}
        """How many of what lasts, such as streams, are open."""

    def take(self, name: str, amount: int = 1) -> None:
        """Take from what a limit allows in a minute. Raises TooManyRequests, and takes nothing, if it is not enough."""
        self._spend(name, TokenBucket.take, amount)

    def need(self, name: str) -> None:
        """Raise TooManyRequests if more was taken already than a limit allows."""
        self._spend(name, TokenBucket.take, 0)

    def owe(self, name: str, amount: int) -> None:
        """Take what was used already, though it may be more than the limit allows: the next one waits for it."""
        if self._most(name):
            with self._lock:
                self._bucket(name).owe(amount, self._ticks())

    def _spend(self, name: str, how: Callable[[TokenBucket, float, float], float], amount: int) -> None:
        if most := self._most(name):
            with self._lock:
                wait = how(self._bucket(name), amount, self._ticks())
            if wait > 0:
                raise too_many(name, most, wait)

    def _most(self, name: str) -> int:
        return getattr(self._settings, name)

    def _bucket(self, name: str) -> TokenBucket:
        bucket = self._buckets.get(name)
        if bucket is None:
            most = self._most(name)
            bucket = self._buckets[name] = TokenBucket.full(most, most / 60, self._ticks())
        return bucket


CURRENT: ContextVar[Allowance | None] = ContextVar("allowance", default=None)
"""The allowance of the caller that is being served; None for this machine's user and for background work."""


def model_call() -> None:
    """Count a call of a language model. Raises TooManyRequests."""
    if (allowance := CURRENT.get()) is not None:
        allowance.take("model_calls")


@dataclass(slots=True)
class _Lane:
    """A tenant's calls."""

    turns: asyncio.Semaphore
    count: int = 0
    """Calls under way and waiting."""


@contextmanager
def _let_go(allowance: Allowance, name: str) -> Generator[None, None, None]:
    try:
        yield
    finally:
        allowance.open[name] -= 1


class Limiter:
    def __init__(self, settings: LimitSettings, ticks: Ticks = time.monotonic) -> None:
        self.settings = settings
        self.ticks = ticks
        self._allowances: OrderedDict[tuple[str, str], Allowance] = OrderedDict()
        self._lanes: dict[str, _Lane] = {}

    def of(self, principal: Principal) -> Allowance | None:
        """Return the caller's allowance; None for this machine's user, who has no limits."""
        return None if principal.kind == "local" else self.allowance(principal.tenant, principal.key or principal.kind)

    def request(self, principal: Principal) -> None:
        """Count a request. Raises TooManyRequests."""
        if (allowance := self.of(principal)) is not None:
            allowance.take("requests")

    def allowance(self, tenant: str, caller: str) -> Allowance:
        """Return the allowance of a caller, by the id of its key."""
        who = tenant, caller
        known = self._allowances.get(who)
        if known is None:
            known = self._allowances[who] = Allowance(self.settings, lambda: self.ticks())
            if len(self._allowances) > KNOWN:
                self._forget_one()
        self._allowances.move_to_end(who)
        return known

    @asynccontextmanager
    async def call(self, principal: Principal, *, writes: bool) -> AsyncGenerator[None, None]:
        """Run a call within the limits of its caller and its tenant. Raises TooManyRequests."""
        allowance, tenant = self.of(principal), principal.tenant
        if allowance is None:
            yield
            return
        if writes:
            allowance.take("writes")
        await self._enter(tenant)
        mine = CURRENT.set(allowance)
        try:
            yield
        finally:
            CURRENT.reset(mine)
            self._leave(tenant)

    def hold(self, name: str, principal: Principal) -> AbstractContextManager[None]:
        """Count something that lasts, such as a stream, until what is returned is left. Raises TooManyRequests."""
        allowance, most = self.of(principal), getattr(self.settings, name)
        if allowance is None:
            return nullcontext()
        held = allowance.open.get(name, 0)
        if most and held >= most:
            raise too_many(name, most, SOON)
        allowance.open[name] = held + 1
        return _let_go(allowance, name)

    async def _enter(self, tenant: str) -> None:
        """Wait for one of the tenant's turns, first come first served."""
        most = self.settings.calls_at_once
        if not most:
            return
        lane = self._lanes.get(tenant)
        if lane is None:
            lane = self._lanes[tenant] = _Lane(asyncio.Semaphore(most))
        if lane.count >= most + self.settings.calls_waiting:
            raise too_many("calls_waiting", self.settings.calls_waiting, SOON)
        lane.count += 1
        taken = False
        try:
            if lane.turns.locked():
                async with asyncio.timeout(self.settings.calls_patience):
                    taken = await lane.turns.acquire()
            else:
                taken = await lane.turns.acquire()
        except TimeoutError:
            raise too_many("calls_at_once", most, SOON) from None
        finally:
            if not taken:
                self._end(tenant, lane)

    def _leave(self, tenant: str) -> None:
        if (lane := self._lanes.get(tenant)) is not None:
            lane.turns.release()
            self._end(tenant, lane)

    def _end(self, tenant: str, lane: _Lane) -> None:
        lane.count -= 1
        if not lane.count:
            del self._lanes[tenant]

    def _forget_one(self) -> None:
        """Forget the caller that has been silent for longest and has nothing open."""
        idle = next((who for who, one in self._allowances.items() if not any(one.open.values())), None)
        if idle is not None:
            del self._allowances[idle]
