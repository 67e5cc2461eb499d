"""Authentication of callers. Only the credential counts, never the request body."""

import asyncio
import ipaddress
import math
import time
from collections import OrderedDict

from starlette.types import Scope

from kho.doors.logs import log_refusal
from kho.kernel import Call, Forbidden, Hub, InvalidParams, KhoError, Principal, Unauthorized, api_keys
from kho.kernel.api_keys import KeyState
from kho.kernel.toolset import Selection

FRESH = 0.5
"""Seconds between two looks at the key table. Together with the time that a look takes, the longest that a revoked key
is still accepted, and that a call or a stream of it goes on: less than a second."""
REMEMBERED = 1024


class Auth:
    def __init__(self, hub: Hub, fresh: float = FRESH) -> None:
        self._hub = hub
        self.fresh = fresh
        self._state: KeyState = KeyState(-1, in_use=False)
        self._asked = -math.inf
        self._asking = asyncio.Lock()
        self._known: OrderedDict[str, Principal] = OrderedDict()
        """Callers by the digest of their key. A change of any key empties it."""

    async def changes(self) -> int:
        """Return a number that changes with every change of a key, as known a moment ago."""
        return (await self._current()).changes

    def expired(self, principal: Principal) -> bool:
        return principal.expires_at is not None and self._hub.clock() >= principal.expires_at

    async def _current(self) -> KeyState:
        if time.monotonic() - self._asked < self.fresh:
            return self._state
        begun = time.monotonic()
        async with self._asking:
            if self._asked < begun:  # nobody else has asked meanwhile
                begun = time.monotonic()
                state = await self._hub.keys.state()
                if state != self._state:
                    self._known.clear()
                self._state, self._asked = state, begun
        return self._state

    async def admit(self, scope: Scope) -> bool:
        """True if the credential must be checked. Without keys, callers on this machine act as its user and all others
        are refused, even at open pages."""
        if (await self._current()).in_use:
            return True
        if not _loopback(scope):
            raise Unauthorized("Without API keys the hub answers this machine only. See 'kho keys create'.")
        return False

    async def principal(self, scope: Scope) -> Principal:
        if not await self.admit(scope):
            return self._hub.local
        credentials = [value for name, value in scope["headers"] if name == b"authorization"]
        if len(credentials) > 1:
            raise Unauthorized("Send one Authorization header.")
        credential = credentials[0].decode("latin-1") if credentials else None
        if credential is None:
            if self._hub.public is None:
                raise Unauthorized
            return self._hub.public
        scheme, _, text = credential.partition(" ")
        if scheme.lower() != "bearer":
            raise Unauthorized
        text = text.strip()
        if self._hub.local_token.matches(text) and _loopback(scope):
            return self._hub.local
        return await self._by_key(text)

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
        digest = api_keys.digest(text)
        principal = self._known.get(digest)
        if principal is None:
            state = self._state
            principal = await self._looked_up(text)
            if self._state == state:  # else the key may have been revoked after it was looked up
                self._known[digest] = principal
                if len(self._known) > REMEMBERED:
                    self._known.popitem(last=False)
        if self.expired(principal):
            raise Unauthorized
        self._hub.keys.used(principal.key, self._hub.clock())
        return principal

    async def _looked_up(self, text: str) -> Principal:
        id = api_keys.public_id(text)
        key = await self._hub.keys.find(id) if id else None
        if key is None or not api_keys.matches(text, key) or not key.valid(self._hub.clock()):
            raise Unauthorized
        try:
            tools = self._hub.registry.select(key.tools) if key.tools else None
        except InvalidParams:  # one of them is no longer there
            tools = Selection(None, tools=frozenset(key.tools))
        return Principal(
            key.sub,
            key.tenant,
            frozenset(key.scopes),
            "key",
            key=key.id,
            tools=tools,
            read_only=key.read_only,
            expires_at=key.expires_at,
        )


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
