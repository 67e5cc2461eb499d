"""API keys: what they look like, and what is kept of them (never the key itself)."""

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

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
    async def add(self, key: ApiKey) -> None: ...

    async def find(self, id: str) -> ApiKey | None: ...

    async def all(self) -> Sequence[ApiKey]: ...

    async def revoke(self, id: str, now: int) -> bool: ...

    async def in_use(self) -> bool:
        """Whether any key was ever configured. Revoking the last one must not open the hub again."""
        ...


def mint() -> tuple[str, str, str]:
    """A new key: its public id, the text shown once, and the digest to keep. 256 bits of chance need no slow hash."""
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
