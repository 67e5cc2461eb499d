"""Authentication of callers. Only the credential counts, never the request body."""

import ipaddress
import time
from collections import OrderedDict

from starlette.types import Scope

from kho.doors.http.asgi import header
from kho.doors.logs import log_refusal
from kho.kernel import Call, Forbidden, Hub, KhoError, Principal, Unauthorized, api_keys

FRESH = 2.0
"""Seconds that a result from the key table is cached, so the longest that a revoked key is still accepted."""
REMEMBERED = 1024


class Auth:
    def __init__(self, hub: Hub, fresh: float = FRESH) -> None:
        self._hub = hub
        self._fresh = fresh
        self._shared = False
        self._asked = -fresh
        self._known: OrderedDict[str, tuple[float, Principal]] = OrderedDict()

    async def shared(self) -> bool:
        """True if callers need keys. Once they do, this never becomes false again."""
        if not self._shared and time.monotonic() - self._asked >= self._fresh:
            self._shared = await self._hub.keys.in_use()
            self._asked = time.monotonic()
        return self._shared

    async def admit(self, scope: Scope) -> bool:
        """True if the credential must be checked. Without keys, callers on this machine act as its user and all others
        are refused, even at open pages."""
        if await self.shared():
            return True
        if not _loopback(scope):
            raise Unauthorized("Without API keys the hub answers this machine only. See 'kho keys create'.")
        return False

    async def principal(self, scope: Scope) -> Principal:
        if not await self.admit(scope):
            return self._hub.local
        credential = header(scope, b"authorization")
        if credential is None:
            if self._hub.public is None:
                raise Unauthorized
            return self._hub.public
        scheme, _, text = credential.partition(" ")
        if scheme.lower() != "bearer":
            raise Unauthorized
        return await self._by_key(text.strip())

    def refused(self, scope: Scope, error: KhoError) -> None:
        """Log and count a caller refused at the door."""
        address = peer(scope)
        log_refusal(scope["path"], address, error.code)
        if isinstance(error, Unauthorized):
            self._hub.refusals.unauthorized(address)

    def forbidden(self, call: Call, error: Forbidden) -> None:
        """Record that a known caller asked this door for something it may not access."""
        self._hub.refusals.forbidden(call, error)

    async def _by_key(self, text: str) -> Principal:
        now = time.monotonic()
        digest = api_keys.digest(text)
        found = self._known.get(digest)
        if found is not None and now - found[0] < self._fresh:
            return found[1]
        id = api_keys.public_id(text)
        key = await self._hub.keys.find(id) if id else None
        if key is None or not api_keys.matches(text, key) or not key.valid(self._hub.clock()):
            raise Unauthorized
        principal = Principal(key.sub, key.tenant, frozenset(key.scopes), "key")
        self._known[digest] = (now, principal)
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return principal


def peer(scope: Scope) -> str:
    """Address of the other side, as the server sees it."""
    return (scope.get("client") or ("",))[0]


def _loopback(scope: Scope) -> bool:
    client = scope.get("client")
    if client is None:
        return False
    host: str = client[0]
    return host == "127.0.0.1" or is_loopback(host)


def is_loopback(host: str) -> bool:
    """True if an address (or the name 'localhost') stays on this machine."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
