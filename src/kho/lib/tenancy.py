"""Whose rows the work in hand may reach: one tenant's, those of all tenants, or nobody's.

Every statement names its tenant. This is the second wall, for the day when one forgets: on PostgreSQL the database
itself shows a transaction only the rows of the tenant that stands here (storage/postgres/tenant_wall.py), and none when
nothing was said. `Registry.call` and the checkpoint say it for whatever a caller asks for. Work of Kho's own that
concerns all tenants (queues, deletions that are due, figures, upkeep) says so with `in_all_tenants`, beside the work.
"""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar, Token
from enum import Enum
from typing import Final


class Everyone(Enum):
    ALL = "all"


ALL: Final = Everyone.ALL
Reach = str | Everyone | None
"""A tenant, `ALL`, or None: nobody."""

_reach: ContextVar[Reach] = ContextVar("kho_reach", default=None)


def reach() -> Reach:
    """Return what was said last in this task."""
    return _reach.get()


class _In:
    __slots__ = ("_reach", "_token")

    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        self._token: Token[Reach] | None = None

    def __enter__(self) -> None:
        self._token = _reach.set(self._reach)

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            _reach.reset(self._token)


def in_tenant(tenant: str) -> _In:
    """For a `with` block that reaches the rows of one tenant."""
    return _In(tenant)


def in_all_tenants() -> _In:
    """For a `with` block of Kho's own work that reaches the rows of all tenants."""
    return _In(ALL)


def in_no_tenant() -> _In:
    """For a `with` block that forgets whose work started it, such as a task that goes on for others."""
    return _In(None)


def for_tenant(tenant: str, work: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
    """Return background work that reaches the rows of one tenant."""
    return _bound(tenant, work)


def for_all_tenants(work: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
    """Return background work that reaches the rows of all tenants."""
    return _bound(ALL, work)


def _bound(reach: Reach, work: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
    async def run() -> None:
        with _In(reach):
            await work()

    return run
