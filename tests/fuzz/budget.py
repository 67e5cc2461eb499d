"""How many requests each test sends. What is made by hand is always sent whole; the rest is shared out."""

from tests.fuzz.corpus import HEADS, WRONG_PLACES
from tests.fuzz.seeds import POSTGRES_SEEDS, SEEDS
from tests.fuzz.target import REQUESTS

DESCRIBED = ["/health", "/servers"]
"""Places where there is nothing to vary."""

PERCENT = {"jsonrpc": 24, "actions": 24, "mcp": 24, "raw": 8, "openapi": 10, "socket": 6, "postgres": 4}
_FIXED = [SEEDS, POSTGRES_SEEDS, HEADS, WRONG_PLACES, DESCRIBED]
_LEFT = max(REQUESTS - sum(map(len, _FIXED)), 100)


def share(name: str, part: int = 0, parts: int = 1) -> int:
    """The requests of one test, or of one of the `parts` of a test. All of them together are REQUESTS."""
    names = list(PERCENT)
    before = sum(PERCENT[earlier] for earlier in names[: names.index(name)])
    begin, end = (_LEFT * percent // 100 for percent in (before, before + PERCENT[name]))
    return begin + (end - begin) * (part + 1) // parts - (begin + (end - begin) * part // parts)


assert sum(PERCENT.values()) == 100
