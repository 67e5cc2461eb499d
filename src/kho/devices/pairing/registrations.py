"""Registration and approval of boards, used by the doors of boards."""

import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import field, replace
from typing import Any

from kho.devices import store
from kho.devices.pairing import rate_limits
from kho.devices.pairing.rate_limits import RateLimit, SourceRate, TooManyBoards
from kho.devices.pairing.tokens import SigningKey
from kho.devices.settings import Approval
from kho.devices.store import Device
from kho.kernel import Database, InvalidParams, KhoError, Tx
from kho.lib.clock import SECOND, Clock
from kho.lib.dataclass import dataclass
from kho.lib.tenancy import in_all_tenants, in_tenant

MIN_CLIENT = 16
"""Characters of a client id. Firmware sends a UUID, which it makes at its first start."""
SEEN_EVERY = 60 * SECOND
"""How often it is written down that a board was seen, if nothing else has changed."""
NEED_CLIENT = (
    f"Boards must be approved here, so this one must state a Client-Id of at least {MIN_CLIENT} characters that nobody "
    "can guess, such as the UUID that firmware makes at its first start. Device-Id alone is no secret."
)

Approving = Callable[[], Awaitable[Approval]]


@dataclass(slots=True, kw_only=True)
class Registrations:
    """Registers boards. With `approval` "auto" a new board belongs to `tenant` at once; with "code" it shows six digits
    and belongs to the tenant that approves them."""

    db: Database
    clock: Clock
    approval: Approving
    tenant: str
    newcomers: RateLimit = field(default_factory=RateLimit)
    sources: SourceRate = field(default_factory=SourceRate)
    most_pending: int = store.MAX_PENDING

    async def find(self, device: str, client: str | None = None) -> Device | None:
        """Return a board's registration, preferring an approved one. With `client` only that of this client id."""
        with in_all_tenants():  # a board does not know its tenant: its registration tells it
            found = await self.db.read(lambda tx: store.by_id(tx, device))
        return _best([one for one in found if client is None or one.client == client])

    async def of(self, tenant: str, device: str) -> Device | None:
        with in_tenant(tenant):
            return await self.db.read(lambda tx: store.get(tx, tenant, device))

    async def admit_anybody(self, address: str) -> None:
        """Apply the rate limit to requests without a credential from this address, unless approval is automatic. Raises
        TooManyRequests."""
        if await self.approval() == "code":
            self.sources.admit(address, self.clock())

    async def admit_unknown(self, address: str) -> None:
        """Apply the rate limit to an unknown board from this address, unless approval is automatic. Raises
        TooManyBoards."""
        if await self.approval() == "code":
            self.newcomers.admit(address, self.clock())

    async def need_client(self, client: str) -> None:
        """Raise InvalidParams for a board that states no client id, or a short one, unless approval is automatic: the
        board's own id is no secret, and whoever states both gets its token."""
        if len(client) < MIN_CLIENT and await self.approval() == "code":
            raise InvalidParams(NEED_CLIENT, field="Client-Id")

    async def register(self, device: str, client: str, info: dict[str, Any]) -> Device:
        """Register a board or update it. It is approved if it was before under the same client id, or if approval is
        automatic; otherwise it gets a code, a new one once the old one expired. A revoked board stays revoked until it
        is approved again."""
        code, approval = f"{secrets.randbelow(1_000_000):06}", await self.approval()
        with in_all_tenants():
            settled = await self.db.read(lambda tx: self._settled(tx, approval, device, client, info))
            if settled is not None:
                return settled
            return await self.db.write(lambda tx: self._register(tx, approval, device, client, info, code))

    async def signing_keys(self, first: SigningKey) -> Sequence[SigningKey]:
        """Return the signing keys of board tokens, the newest first. Stores `first` if there is none yet."""

        def work(tx: Tx) -> list[SigningKey]:
            if not store.signing_keys(tx):
                store.add_signing_key(tx, first.id, first.secret.hex(), self.clock())
            return [SigningKey(id, bytes.fromhex(secret)) for id, secret in store.signing_keys(tx)]

        return await self.db.write(work)

    def _register(
        self, tx: Tx, approval: Approval, device: str, client: str, info: dict[str, Any], code: str
    ) -> Device:
        now = self.clock()
        known = _known(tx, device)
        mine = self._mine(known, approval, client)
        if approval == "auto":
            if mine is None:
                store.add(tx, self.tenant, device, client, info, now)
                store.approve(tx, self.tenant, device, "auto", now)
            else:
                store.seen(tx, self.tenant, device, client, {**mine.info, **info}, now)
            return _need(store.get(tx, self.tenant, device))
        if mine is not None:
            info = {**mine.info, **info}
            store.seen(tx, mine.tenant, device, client, info, now)
            return replace(mine, info=info, last_seen=now)
        return self._pending(tx, device, client, _with_owners(info, known), code, now)

    def _settled(self, tx: Tx, approval: Approval, device: str, client: str, info: dict[str, Any]) -> Device | None:
        """Return the board if its row says all this already, and since when is not long ago: boards ask often, anybody
        may, and there is one writer."""
        now, known = self.clock(), _known(tx, device)
        mine = self._mine(known, approval, client)
        if mine is not None:
            same = mine.client == client and {**mine.info, **info} == mine.info
        else:
            mine = store.waiting(tx, device, client) if approval == "code" else None
            same = mine is not None and (mine.code_until or 0) > now and _with_owners(info, known) == mine.info
        return mine if mine is not None and same and abs(now - mine.last_seen) < SEEN_EVERY else None

    def _mine(self, known: list[Device], approval: Approval, client: str) -> Device | None:
        """Return the registration that the board goes on with."""
        if approval == "auto":
            return next((one for one in known if one.tenant == self.tenant), None)
        return next((one for one in known if one.approved and one.client == client), None)

    def _pending(self, tx: Tx, device: str, client: str, info: dict[str, Any], code: str, now: int) -> Device:
        waiting = store.waiting(tx, device, client)
        if waiting is None:
            if not store.has_room(tx, now, self.most_pending):
                raise TooManyBoards(f"{self.most_pending} boards wait to be approved, and no more may.")
            store.add(tx, store.PENDING, device, client, info, now)
        else:
            store.still_waiting(tx, device, client, info, now)
        if waiting is None or waiting.code is None or (waiting.code_until or 0) <= now:
            while store.by_code(tx, code, now) is not None:
                code = f"{secrets.randbelow(1_000_000):06}"
            store.set_code(tx, device, client, code, now + rate_limits.LASTS)
        return _need(store.waiting(tx, device, client))


def approve_code(tx: Tx, tenant: str, code: str, by: str, now: int) -> Device | None:
    """Assign the board with this code to the tenant. None if no board has it."""
    found = store.by_code(tx, code, now)
    if found is None:
        return None
    info = {name: value for name, value in found.info.items() if name != store.KNOWN_TO}
    if store.get(tx, tenant, found.id) is None:
        store.add(tx, tenant, found.id, found.client, info, now)
    else:
        store.seen(tx, tenant, found.id, found.client, info, now)
    store.forget_pending(tx, found.id, found.client)
    store.approve(tx, tenant, found.id, by, now)
    return store.get(tx, tenant, found.id)


def _known(tx: Tx, device: str) -> list[Device]:
    return [one for one in store.by_id(tx, device) if one.tenant != store.PENDING]


def _with_owners(info: dict[str, Any], known: list[Device]) -> dict[str, Any]:
    owners = sorted({one.tenant for one in known})
    return {**info, store.KNOWN_TO: owners} if owners else info


def _best(found: list[Device]) -> Device | None:
    return next((one for one in found if one.approved), found[0] if found else None)


def _need(device: Device | None) -> Device:
    if device is None:  # cannot be: it was written in this transaction
        raise KhoError
    return device
