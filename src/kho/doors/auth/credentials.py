"""Who is calling: the credential decides, never the body."""

import ipaddress
import time
from collections import OrderedDict

from starlette.types import Scope

from kho.doors.http.asgi import header
from kho.kernel import api_keys
from kho.kernel.call import Principal
from kho.kernel.errors import Unauthorized
from kho.kernel.hub import Hub

FRESH = 2.0
"""Seconds that an answer of the key table is believed: how long a revoked key may still be accepted."""
REMEMBERED = 1024


class Auth:
    def __init__(self, hub: Hub, fresh: float = FRESH) -> None:
        self._hub = hub
        self._fresh = fresh
        self._shared = False
        self._asked = -fresh
        self._known: OrderedDict[str, tuple[float, Principal]] = OrderedDict()

    async def shared(self) -> bool:
        """Whether keys decide. Once they do, they do for good."""
        if not self._shared and time.monotonic() - self._asked >= self._fresh:
            self._shared = await self._hub.keys.in_use()
            self._asked = time.monotonic()
        return self._shared

    async def admit(self, scope: Scope) -> bool:
        """Whether the credential decides. Without keys, whoever is on this machine is its user, and nobody else gets
        an answer, at an open page neither."""
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


def _loopback(scope: Scope) -> bool:
    client = scope.get("client")
    if client is None:
        return False
    host: str = client[0]
    return host == "127.0.0.1" or is_loopback(host)


def is_loopback(host: str) -> bool:
    """Whether an address (or the name 'localhost') stays on this machine."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
