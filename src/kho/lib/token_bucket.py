"""A token bucket: so much at once, and so much a second on average."""

from kho.lib.dataclass import dataclass


@dataclass(slots=True)
class TokenBucket:
    capacity: float
    """What can be taken at once."""
    rate: float
    """Tokens that come back in a second."""
    tokens: float
    at: float
    """When `tokens` was right, on the caller's clock."""

    @classmethod
    def full(cls, capacity: float, rate: float, now: float) -> "TokenBucket":
        return cls(capacity, rate, capacity, now)

    def take(self, amount: float, now: float) -> float:
        """Take the tokens and return 0, or take none and return the seconds until there are enough."""
        self._refill(now)
        if self.tokens >= amount:
            self.tokens -= amount
            return 0.0
        return (amount - self.tokens) / self.rate

    def owe(self, amount: float, now: float) -> float:
        """Take the tokens even if there are not as many. Return the seconds until the debt is paid."""
        self._refill(now)
        self.tokens -= amount
        return self.debt(now)

    def debt(self, now: float) -> float:
        """Return the seconds until no token is owed any more."""
        self._refill(now)
        return max(0.0, -self.tokens / self.rate)

    def _refill(self, now: float) -> None:
        self.tokens = min(self.capacity, self.tokens + max(0.0, now - self.at) * self.rate)
        self.at = now
