"""Large requests are read off the event loop, so that everybody else is answered meanwhile."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import anyio.to_thread
from anyio import CapacityLimiter

LARGE = 100_000
"""Bytes of a body, or characters of its values, above which it is read in a thread. Less takes a millisecond or two,
which is not worth the way there and back."""
_MEMBER = 20
"""Characters that one member of a list or an object counts as, for the work that it makes."""
_AT_ONCE = CapacityLimiter(2)
"""Threads of their own: work that takes minutes must not make a request wait, nor many large ones take the machine."""

T = TypeVar("T")


async def read(size: int, work: Callable[[], T]) -> T:
    """What `work` makes of a request of that size. It is not stopped when the caller goes: it is short, and bounded."""
    return work() if size <= LARGE else await anyio.to_thread.run_sync(work, limiter=_AT_ONCE)


def size(value: Any) -> int:
    """About how large a JSON value is. Looks no further once it is known to be large."""
    stack, found = [value], 0
    while stack and found <= LARGE:
        item = stack.pop()
        if isinstance(item, str):
            found += len(item)
        elif isinstance(item, dict | list):
            members = cast("dict[str, Any] | list[Any]", item)
            found += _MEMBER * len(members)
            if found <= LARGE:
                stack.extend(members.values() if isinstance(members, dict) else members)
    return found
