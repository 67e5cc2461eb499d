"""How many requests each test sends. What is made by hand is always sent whole; the rest is shared out."""

from tests.fuzz.corpus import HEADS, WRONG_PLACES
from tests.fuzz.seeds import POSTGRES_SEEDS, SEEDS
from tests.fuzz.target import REQUESTS

DESCRIBED = ["/health", "/servers"]
"""Places where there is nothing to vary."""

PERCENT = {
    "jsonrpc": 24,
    "actions": 24,
    "handshake": 12,
    "modern": 12,
    "raw": 8,
    "openapi": 10,
    "socket": 6,
    "postgres": 4,
}
_FIXED = [SEEDS, POSTGRES_SEEDS, HEADS, WRONG_PLACES, DESCRIBED]
_LEFT = max(REQUESTS - sum(map(len, _FIXED)), 100)


class _Account:
    """Hands out whole requests so that those of all tests together are what was asked for, whatever is rounded."""

    spent, promised = 0, 0.0

    def take(self, requests: float) -> int:
        self.promised += requests
        taken = round(self.promised) - self.spent
        self.spent += taken
        return taken


_account = _Account()


def share(name: str, percent: int = 100) -> int:
    """How many a test may send: its share, or so much of it."""
    return _account.take(_LEFT * PERCENT[name] / 100 * percent / 100)


assert sum(PERCENT.values()) == 100
