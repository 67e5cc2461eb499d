"""How many boards that nobody knows one address may bring. Each shows six digits: were there thousands of them, a
guess would hit one."""

from collections import OrderedDict, deque

from kho.kernel.errors import KhoError
from kho.lib.clock import SECOND

WITHIN = 600 * SECOND
MOST = 60
MOST_ADDRESSES = 4096


class TooManyBoards(KhoError):
    """Too many boards that nobody has approved came from this address."""

    code = "TOO_MANY_BOARDS"
    status = 429
    guidance = "Approve or switch off those that are waiting, and try again in ten minutes."


class RateLimit:
    def __init__(self, most: int = MOST, within: int = WITHIN) -> None:
        self._most = most
        self._within = within
        self._came: OrderedDict[str, deque[int]] = OrderedDict()

    def admit(self, address: str, now: int) -> None:
        """Counts one more. Raises TooManyBoards."""
        came = self._came.setdefault(address, deque())
        self._came.move_to_end(address)
        while came and came[0] <= now - self._within:
            came.popleft()
        if len(came) >= self._most:
            raise TooManyBoards
        came.append(now)
        if len(self._came) > MOST_ADDRESSES:
            self._came.popitem(last=False)
