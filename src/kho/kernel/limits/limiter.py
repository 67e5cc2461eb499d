"""Keeps the limits of callers and tenants in this process. This machine's user has none."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from typing import TypeVar

from kho.kernel.call import Principal, within
from kho.kernel.errors import TooManyRequests
from kho.kernel.limits.allowance import CURRENT, Allowance, Ticks, too_many
from kho.kernel.limits.bodies import Bodies, Count
from kho.kernel.limits.settings import LimitSettings
from kho.lib.dataclass import dataclass

KNOWN = 10_000
"""Callers whose buckets are kept. Who has been silent for longest is forgotten, and begins with full ones."""
SOON = 1
"""Seconds after which to try again what waits for others to end."""


T = TypeVar("T")
Observer = Callable[[Principal, TooManyRequests], None]


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
        self.bodies = Bodies(settings)
        self.observers: list[Observer] = []
        """Told of what was refused and is no call of an operation; of those the registry tells."""
        self._allowances: OrderedDict[tuple[str, str], Allowance] = OrderedDict()
        self._lanes: dict[str, _Lane] = {}

    def of(self, principal: Principal) -> Allowance | None:
        """Return the caller's allowance; None for this machine's user, who has no limits."""
        return None if principal.kind == "local" else self.allowance(principal.tenant, principal.key or principal.kind)

    def request(self, principal: Principal) -> None:
        """Count a request. Raises TooManyRequests."""
        if (allowance := self.of(principal)) is not None:
            try:
                allowance.take("requests")
            except TooManyRequests as error:
                self._observe(principal, error)
                raise

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

    async def run(self, principal: Principal, work: Callable[[], Awaitable[T]], *, writes: bool) -> T:
        """Do the work of a call within the limits of its caller and its tenant, and within the time of a call. Raises
        TooManyRequests or Timeout."""
        if self.of(principal) is None:
            return await work()
        async with self.call(principal, writes=writes):
            return await within(self.settings.call_seconds or None, work())

    async def serve(self, principal: Principal, work: Callable[[], Awaitable[T]]) -> T:
        """Same, for what is no operation, such as reading a resource: nobody else tells of a refusal."""
        try:
            return await self.run(principal, work, writes=False)
        except TooManyRequests as error:
            self._observe(principal, error)
            raise

    def hold(self, name: str, principal: Principal) -> AbstractContextManager[None]:
        """Count something that lasts, such as a stream, until what is returned is left. Raises TooManyRequests."""
        allowance, most = self.of(principal), getattr(self.settings, name)
        if allowance is None:
            return nullcontext()
        held = allowance.open.get(name, 0)
        if most and held >= most:
            error = too_many(name, most, SOON)
            self._observe(principal, error)
            raise error
        allowance.open[name] = held + 1
        return _let_go(allowance, name)

    @contextmanager
    def body(self, principal: Principal) -> Generator[Count, None, None]:
        """Count a body that the caller sends until the block is left. What counts raises TooManyRequests."""
        with self.bodies.held(None if principal.kind == "local" else principal.tenant) as count:

            def counted(size: int) -> None:
                try:
                    count(size)
                except TooManyRequests as error:
                    self._observe(principal, error)
                    raise

            yield counted

    def _observe(self, principal: Principal, error: TooManyRequests) -> None:
        for observer in self.observers:
            observer(principal, error)

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
