"""The stored API keys, as doors ask for them."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from kho.kernel import api_keys
from kho.kernel.api_keys import ApiKey, KeyState
from kho.kernel.background import Background
from kho.kernel.errors import KhoError
from kho.kernel.ports import Database, Tx
from kho.lib.tenancy import in_all_tenants

T = TypeVar("T")

EVERY = 60.0
"""Seconds between two writes of when keys were last used."""


class SqlApiKeys:
    def __init__(self, db: Database) -> None:
        self._db = db
        self._uses: dict[str, int] = {}
        """When keys were last used, as far as that is not written yet."""

    async def find(self, id: str) -> ApiKey | None:
        return await self._read(lambda tx: api_keys.find(tx, id))

    async def all(self) -> Sequence[ApiKey]:
        return await self._read(api_keys.every)

    async def state(self) -> KeyState:
        return await self._read(api_keys.state)

    async def in_use(self) -> bool:
        return (await self.state()).in_use

    async def add(self, key: ApiKey) -> None:
        await self._write(lambda tx: api_keys.insert(tx, key))

    async def revoke(self, id: str, now: int) -> bool:
        return await self._write(lambda tx: api_keys.revoke(tx, id, now))

    def used(self, id: str, now: int) -> None:
        self._uses[id] = now

    async def write_uses(self, background: Background) -> None:
        """Write from time to time when keys were last used, until the hub stops. A crash loses a minute of it."""
        await background.every(EVERY, self._write_uses, name="Last uses of keys")
        with suppress(KhoError):  # which `every` has logged
            await self._write_uses()

    async def _read(self, work: Callable[[Tx], T]) -> T:
        with in_all_tenants():  # a credential tells the tenant, and is looked up before it is known
            return await self._db.read(work)

    async def _write(self, work: Callable[[Tx], T]) -> T:
        with in_all_tenants():
            return await self._db.write(work)

    async def _write_uses(self) -> None:
        if not self._uses:
            return
        uses, self._uses = self._uses, {}
        try:
            await self._write(lambda tx: api_keys.write_uses(tx, uses))
        except KhoError:
            self._uses = uses | self._uses
            raise
