"""Tokens of boards, sent when a board connects or uploads a photo.

A token contains tenant, device, the firmware's client id and its purpose, signed with an HMAC. It is checked without
the database; whether the board was revoked since is for the caller to check, because only the database knows. The key
is created on first use and stored in the database, so that every process has the same one.
"""

import asyncio
import base64
import binascii
import hashlib
import hmac
import json
import secrets
from collections.abc import Sequence
from dataclasses import field
from typing import Literal, Protocol, get_args

from kho.lib.clock import DAY, SECOND
from kho.lib.dataclass import dataclass

Purpose = Literal["socket", "vision", "mqtt"]
PURPOSES: tuple[Purpose, ...] = get_args(Purpose)
LIFETIME: dict[Purpose, int] = {"socket": 30 * DAY, "vision": 3600 * SECOND, "mqtt": 30 * DAY}
EARLY = 300 * SECOND
"""How far another process's clock may be ahead."""
FORM = "kd1"
LONGEST = 2048


@dataclass(frozen=True, slots=True)
class SigningKey:
    id: str
    secret: bytes = field(repr=False)


class SigningKeys(Protocol):
    """Storage of the signing keys."""

    async def signing_keys(self, first: SigningKey) -> Sequence[SigningKey]:
        """Return the keys, the newest first. If there is none, store and return `first`, in one transaction, since
        several processes may ask at once."""
        ...


@dataclass(frozen=True, slots=True)
class Claims:
    tenant: str
    device: str
    client: str
    purpose: Purpose
    issued: int
    key_id: str

    def fits(self, device: str, client: str) -> bool:
        """True if the token is this board's: another board that got hold of it is refused."""
        return self.device == device and self.client == client

    def holds(self, approved_at: int | None, revoked_at: int | None) -> bool:
        """True if the board is approved and the token was issued since. Tokens from before a revocation stay invalid
        after a new approval."""
        return approved_at is not None and revoked_at is None and self.issued >= approved_at


class Tokens:
    def __init__(self, kept: SigningKeys) -> None:
        self._kept = kept
        self._keys: dict[str, bytes] = {}
        self._newest = ""
        self._loading = asyncio.Lock()

    async def ready(self) -> None:
        """Load the keys. Must be awaited before the first token is issued or checked."""
        async with self._loading:
            if not self._keys:
                keys = await self._kept.signing_keys(SigningKey(secrets.token_hex(4), secrets.token_bytes(32)))
                self._newest = keys[0].id
                self._keys = {key.id: key.secret for key in keys}

    def issue(self, tenant: str, device: str, client: str, purpose: Purpose, now: int) -> str:
        said = json.dumps([purpose, tenant, device, client, now], ensure_ascii=False, separators=(",", ":"))
        signed = f"{FORM}.{self._newest}.{_encode(said.encode())}"
        return f"{signed}.{self._signature(self._newest, signed)}"

    def challenge(self, device: str, client: str) -> str:
        """Return the challenge that a board sends back when it asks whether it is approved."""
        return self._signature(self._newest, f"challenge.{device}.{client}")

    def check(self, token: str, purpose: Purpose, now: int, *, lifetime: int | None = None) -> Claims | None:
        """Return the claims; None if the token is forged, for another purpose, expired, or of another hub."""
        parts = token.split(".")
        if len(token) > LONGEST or not token.isascii() or len(parts) != 4 or parts[0] != FORM:
            return None
        _, key_id, said, signature = parts
        if key_id not in self._keys:
            return None
        if not hmac.compare_digest(self._signature(key_id, f"{FORM}.{key_id}.{said}"), signature):
            return None
        claims = _claims(said, key_id)
        if claims is None or claims.purpose != purpose:
            return None
        return claims if -EARLY <= now - claims.issued < (lifetime or LIFETIME[purpose]) else None

    def _signature(self, key_id: str, signed: str) -> str:
        return _encode(hmac.digest(self._keys[key_id], signed.encode(), hashlib.sha256))


def _claims(said: str, key_id: str) -> Claims | None:
    try:
        parsed = json.loads(base64.urlsafe_b64decode(said + "=" * (-len(said) % 4)))
    except (binascii.Error, ValueError):
        return None
    match parsed:
        case ["socket" | "vision" | "mqtt" as purpose, str(tenant), str(device), str(client), int(issued)]:
            return Claims(tenant, device, client, purpose, issued, key_id)
        case _:
            return None


def _encode(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")
