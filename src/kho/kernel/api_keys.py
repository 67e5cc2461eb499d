"""API keys: their format and the stored record, which holds a digest and never the key itself."""

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from typing import Protocol

from kho.lib.dataclass import dataclass

PREFIX = "kho"


@dataclass(frozen=True, slots=True)
class ApiKey:
    id: str
    sub: str
    tenant: str
    scopes: tuple[str, ...]
    digest: str
    created_at: int
    expires_at: int | None = None
    revoked_at: int | None = None

    def valid(self, now: int) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


class Keys(Protocol):
    """The stored keys. `actor` is who changes them, for the audit trail."""

    async def add(self, key: ApiKey, actor: str = "") -> None: ...

    async def find(self, id: str) -> ApiKey | None: ...

    async def all(self) -> Sequence[ApiKey]: ...

    async def revoke(self, id: str, now: int, actor: str = "") -> bool: ...

    async def reset(self, now: int, actor: str = "") -> int:
        """Delete all keys, so that none is in use; return how many there were."""
        ...

    async def in_use(self) -> bool:
        """True if any key was ever configured. Revoking the last one must not open the hub again."""
        ...


def mint() -> tuple[str, str, str]:
    """Create a key; return its public id, the text to show once, and the digest to store. With 256 random bits a slow
    hash is not needed."""
    id = secrets.token_hex(4)
    text = f"{PREFIX}_{id}_{secrets.token_urlsafe(32)}"
    return id, text, digest(text)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def public_id(text: str) -> str | None:
    parts = text.split("_", 2)
    return parts[1] if len(parts) == 3 and parts[0] == PREFIX and len(parts[1]) == 8 else None


def matches(text: str, key: ApiKey) -> bool:
    return hmac.compare_digest(digest(text), key.digest)
