"""Rate limits of pairing: wrong guesses of codes (six digits) per tenant, and per source address unapproved boards and
requests without a credential. Without the first two somebody with the right to approve could try all codes and take a
board that another tenant is about to approve; and with thousands of codes in use, a random guess would hit one."""

import math
from collections import deque
from dataclasses import field
from ipaddress import ip_address, ip_network

from cachetools import LRUCache

from kho.kernel import TooManyRequests, Tx
from kho.lib.clock import SECOND, iso
from kho.lib.dataclass import dataclass
from kho.lib.lazy_regex import pattern
from kho.lib.token_bucket import TokenBucket

MINUTES = 15
LASTS = MINUTES * 60 * SECOND
MAX_GUESSES = 10
"""Maximum wrong guesses within LASTS."""
MAX_BOARDS = 60
"""Maximum unapproved boards per source address within WITHIN (microseconds)."""
WITHIN = 600 * SECOND
MAX_ASKED = 1_200
"""Maximum requests of boards without a credential in a minute per source address. A board asks when it starts, and
every 30 seconds while it waits to be approved; many may be behind one router."""
MAX_ADDRESSES = 4096
_CODE = pattern(r"[0-9]{6}")


class TooManyGuesses(TooManyRequests):
    """Too many codes were wrong."""

    code = "TOO_MANY_GUESSES"
    guidance = "Wait, and read the six digits from the board again: it shows new ones by then."


def is_code(text: str) -> bool:
    return _CODE.fullmatch(text) is not None


def count(tx: Tx, tenant: str, now: int) -> None:
    """Count a guess before it is checked, so that parallel guesses cannot bypass the limit. Raises TooManyGuesses."""
    sql = (
        "INSERT INTO device_guesses (tenant, since, wrong) VALUES ($1, $2, 1) ON CONFLICT (tenant) DO UPDATE SET "
        "wrong = CASE WHEN device_guesses.since <= $3 THEN 1 ELSE device_guesses.wrong + 1 END, "
        "since = CASE WHEN device_guesses.since <= $3 THEN excluded.since ELSE device_guesses.since END "
        "RETURNING wrong, since"
    )
    row = tx.one(sql, tenant, now, now - LASTS)
    if row is not None and row[0] > MAX_GUESSES:
        until = iso(row[1] + LASTS)
        message = f"{MAX_GUESSES} codes were wrong. No more are accepted before {until}."
        raise TooManyGuesses(message, until=until, retry_after=(row[1] + LASTS - now) // SECOND + 1)


def was_right(tx: Tx, tenant: str) -> None:
    """Take back the last count, as the guess was right. No more than that: approving one's own boards must not buy
    further guesses."""
    tx.run("UPDATE device_guesses SET wrong = wrong - 1 WHERE tenant = $1 AND wrong > 0", tenant)


class TooManyBoards(TooManyRequests):
    """Too many boards that nobody has approved came from this address."""

    code = "TOO_MANY_BOARDS"
    guidance = "Approve or switch off those that are waiting, and try again in ten minutes."


@dataclass(slots=True)
class RateLimit:
    """Rate limit: unapproved boards per source address."""

    most: int = MAX_BOARDS
    within: int = WITHIN
    came: LRUCache[str, deque[int]] = field(default_factory=lambda: LRUCache(MAX_ADDRESSES))

    def admit(self, address: str, now: int) -> None:
        """Count a board. Raises TooManyBoards."""
        came = self.came.setdefault(_source(address), deque())
        while came and came[0] <= now - self.within:
            came.popleft()
        if len(came) >= self.most:
            raise TooManyBoards(retry_after=((came[0] if came else now) + self.within - now) // SECOND + 1)
        came.append(now)


@dataclass(slots=True)
class SourceRate:
    """Rate limit: requests of boards that show no credential, per source address."""

    most: int = MAX_ASKED
    buckets: LRUCache[str, TokenBucket] = field(default_factory=lambda: LRUCache(MAX_ADDRESSES))

    def admit(self, address: str, now: int) -> None:
        """Count a request. Raises TooManyRequests."""
        source, seconds = _source(address), now / SECOND
        bucket = self.buckets.get(source)
        if bucket is None:
            bucket = self.buckets[source] = TokenBucket.full(self.most, self.most / 60, seconds)
        wait = bucket.take(1, seconds)
        if wait > 0:
            raise TooManyRequests(
                f"More than {self.most:,} requests of boards came from this address in a minute.",
                guidance="Wait: a board asks again by itself.",
                retry_after=math.ceil(wait),
            )


def _source(address: str) -> str:
    """Return what one source has: of IPv6 the network, as everybody has 2^64 addresses in it."""
    try:
        parsed = ip_address(address)
    except ValueError:  # a broker's name
        return address
    if parsed.version == 4 or parsed.ipv4_mapped is not None:
        return address
    return str(ip_network((int(parsed) >> 64 << 64, 64)))
