"""The operations of administration. All need the scope admin, which must be given to a key by name.

The admins of the hub's own tenant, among them the command line on its machine, run the hub: they see every tenant, and
the settings. Admins of another tenant make and end keys of that tenant alone, and a key of another one answers them as
if it did not exist.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from kho.administration import markdown, model
from kho.administration.contract import ADMINISTRATION
from kho.administration.errors import FirstKey, LastKey, Replaced
from kho.kernel import (
    Call,
    Command,
    Database,
    Forbidden,
    InvalidParams,
    NotFound,
    Registry,
    Tx,
    api_keys,
    audit,
)
from kho.kernel.access import METRICS
from kho.kernel.api_keys import ApiKey
from kho.kernel.checkpoint import beyond
from kho.kernel.vocabulary import synonym
from kho.lib.clock import DAY, SECOND, Clock
from kho.lib.dataclass import dataclass
from kho.lib.tenancy import in_all_tenants

T = TypeVar("T")
HOUR = 3_600 * SECOND
KEYS = "API keys. Once there is one, every caller over HTTP needs one."
_ID = {"id": "1f9d3c07"}


@dataclass(slots=True, kw_only=True)
class Service:
    db: Database
    clock: Clock
    home_tenant: str
    """The hub's own tenant, whose admins run the hub."""
    registry: Callable[[], Registry]
    """Every operation there is, also where only some slices are open."""
    settings: Callable[[], Sequence[dict[str, Any]]]

    @ADMINISTRATION.write(
        "create_key",
        cli=Command(
            "keys create", ("name",), names={"scopes": "scope"}, confirms=True, unattended=True, reads=True, group=KEYS
        ),
        example={"name": "chatbot", "tenant": "acme", "scopes": ["exp:read", "exp:write"], "days": 90},
        text=markdown.key_alone,
        remarks=markdown.about_new,
    )
    async def create_key(self, params: model.CreateKey, call: Call) -> model.CreatedKey:
        """Make an API key. It is shown once.

        It can be limited by scopes, to tools, to reading and in time. A key cannot be given more than its maker has,
        and ends with it at the latest.
        """
        scopes, tools = self._scopes(params.scopes), self._tools(params.tools)
        tenant = params.tenant or call.tenant
        self._check_maker(call, tenant, scopes)
        now = self.clock()
        id, text, digest = api_keys.mint()
        expires_at = _at_most(call, now + params.days * DAY if params.days else None)
        key = ApiKey(
            id,
            params.name.strip() or f"key-{id}",
            tenant,
            scopes,
            digest,
            now,
            expires_at,
            tools=tools,
            read_only=params.read_only,
        )

        def work(tx: Tx) -> model.CreatedKey:
            first = not api_keys.state(tx).in_use
            if first and not params.confirm:
                raise FirstKey
            api_keys.insert(tx, key)
            _record(tx, call, key, now)
            return model.CreatedKey.of(_shown(key), first=first)

        made = await self._commit(call, work)  # the stored answer to a repeated request has no key
        return made.model_copy(update={"key": text})

    @ADMINISTRATION.read("list_keys", cli=Command("keys list"), text=markdown.keys)
    async def list_keys(self, params: model.NoParams, call: Call) -> model.KeyList:
        """List the keys, without their secrets."""
        found = await self._read(lambda tx: self._visible(tx, call))
        return model.KeyList(keys=[_shown(key) for key in found])

    @ADMINISTRATION.destroy(
        "revoke_key",
        cli=Command("keys revoke", ("id",), reads=True),
        example=_ID,
        text=markdown.revoked,
        remarks=markdown.none_left,
    )
    async def revoke_key(self, params: model.RevokeKey, call: Call) -> model.RevokedKey:
        """End a key: within a second nothing is answered to it, and its calls and streams end."""
        now = self.clock()

        def work(tx: Tx) -> model.RevokedKey:
            key = self._find(tx, params.id, call)
            if not api_keys.revoke(tx, key.id, now):
                raise _no_such_key()
            _record(tx, call, key, now, reason=params.reason)
            return model.RevokedKey(id=key.id, valid_left=sum(key.valid(now) for key in self._visible(tx, call)))

        return await self._commit(call, work)

    @ADMINISTRATION.write(
        "rotate_key",
        cli=Command("keys rotate", ("id",), reads=True),
        example=_ID,
        text=markdown.key_alone,
        remarks=markdown.about_rotated,
    )
    async def rotate_key(self, params: model.RotateKey, call: Call) -> model.RotatedKey:
        """Replace a key by a new one with the same rights; for a while both are valid, to change it where it is used.

        A key that expires gets as long again as it was made for, but no longer than the key that replaces it.
        """
        now = self.clock()
        id, text, digest = api_keys.mint()

        def work(tx: Tx) -> model.RotatedKey:
            old = self._find(tx, params.id, call)
            self._check_maker(call, old.tenant, old.scopes)
            until = min(now + params.hours * HOUR, old.expires_at or now + params.hours * HOUR)
            if old.successor and old.valid(now):
                raise Replaced(f"Key {old.id} has been replaced by {old.successor} already: rotate that one.")
            if not api_keys.replace(tx, old.id, id, now, until):
                raise _no_such_key()
            expires_at = _at_most(call, None if old.expires_at is None else now + (old.expires_at - old.created_at))
            key = replace(old, id=id, digest=digest, created_at=now, expires_at=expires_at, last_used_at=None)
            api_keys.insert(tx, key)
            _record(tx, call, old, now, successor=id)
            return model.RotatedKey.of(_shown(key), replaces=old.id, old_valid_until=until)

        made = await self._commit(call, work)
        return made.model_copy(update={"key": text})

    @ADMINISTRATION.destroy(
        "delete_key",
        cli=Command("keys delete", ("id",), reads=True, asks="The key is deleted: it ends, and its row is gone."),
        example=_ID,
        text=markdown.deleted,
    )
    async def delete_key(self, params: model.DeleteKey, call: Call) -> model.DeletedKey:
        """Delete a key with its row. The audit trail goes on naming it.

        The last key cannot be deleted: without one the hub would answer everybody on its machine.
        """

        def work(tx: Tx) -> model.DeletedKey:
            key = self._find(tx, params.id, call)
            if len(api_keys.every(tx)) == 1:
                raise LastKey
            if not api_keys.delete(tx, key.id):
                raise _no_such_key()
            _record(tx, call, key, self.clock(), reason=params.reason)
            return model.DeletedKey(id=key.id)

        return await self._commit(call, work)

    @ADMINISTRATION.destroy(
        "turn_off_keys",
        cli=Command(
            "keys off",
            reads=True,
            asks="This deletes all keys: callers that use one are refused, and every program on this machine is "
            "answered without one.",
        ),
        text=markdown.off,
        remarks=markdown.about_off,
    )
    async def turn_off_keys(self, params: model.TurnOffKeys, call: Call) -> model.KeysOff:
        """Delete all keys, so that the hub answers everybody on its machine without one again, and nobody else.

        Only the command line on the hub's machine can do it.
        """
        if call.shared:
            raise Forbidden("Only the command line on the hub's machine can turn keys off.")

        def work(tx: Tx) -> model.KeysOff:
            ended = [key for key in api_keys.every(tx) if api_keys.delete(tx, key.id)]
            if ended:
                subjects = [(key.id, {"name": key.sub, "tenant": key.tenant}) for key in ended]
                call.audit(tx, "", at=self.clock(), reason=params.reason, also=subjects)
            return model.KeysOff(deleted=len(ended))

        return await self._commit(call, work)

    @ADMINISTRATION.read("list_tenants", cli=Command("tenants"), text=markdown.tenants)
    async def list_tenants(self, params: model.NoParams, call: Call) -> model.TenantList:
        """List the tenants: how many keys each has, and when it last changed something."""
        now = self.clock()
        keys, known = await self._read(lambda tx: (self._visible(tx, call), api_keys.tenants(tx)))
        valid = Counter(key.tenant for key in keys if key.valid(now))
        names = {*known, self.home_tenant} if self._runs_hub(call) else {call.tenant}
        rows = [{"tenant": name, "keys": valid[name], "changed_at": known.get(name)} for name in sorted(names)]
        return model.TenantList.model_validate({"tenants": rows})

    @ADMINISTRATION.read("list_settings", cli=Command("settings"), text=markdown.settings)
    async def list_settings(self, params: model.NoParams, call: Call) -> model.SettingList:
        """List the settings in force and where each comes from. Secrets are masked."""
        if not self._runs_hub(call):
            raise Forbidden(f"Only admins of the hub's own tenant ('{self.home_tenant}') see its settings.")
        return model.SettingList(settings=[model.Setting.model_validate(one) for one in self.settings()])

    async def _read(self, work: Callable[[Tx], T]) -> T:
        with in_all_tenants():  # what a caller may see of them, `_visible` and `_find` decide
            return await self.db.read(work)

    async def _commit(self, call: Call, work: Callable[[Tx], T]) -> T:
        with in_all_tenants():
            return await call.commit(self.db, work)

    def _runs_hub(self, call: Call) -> bool:
        return call.tenant == self.home_tenant

    def _visible(self, tx: Tx, call: Call) -> list[ApiKey]:
        return [key for key in api_keys.every(tx) if self._runs_hub(call) or key.tenant == call.tenant]

    def _find(self, tx: Tx, id: str, call: Call) -> ApiKey:
        key = api_keys.find(tx, id)
        if key is None or not (self._runs_hub(call) or key.tenant == call.tenant):
            raise _no_such_key()
        return key

    def _check_maker(self, call: Call, tenant: str, scopes: Sequence[str]) -> None:
        """Refuse a key with more rights than its maker has."""
        if tenant != call.tenant and not self._runs_hub(call):
            raise Forbidden(f"This credential makes keys of its own tenant only ('{call.tenant}').")
        if call.principal.tools is not None:
            raise Forbidden("A key that is limited to tools cannot make other keys.")
        if lacking := beyond(call.principal, scopes):
            raise Forbidden(f"This credential cannot give scopes that it does not have: {', '.join(lacking)}.")

    def _scopes(self, given: Sequence[str] | None) -> tuple[str, ...]:
        if given is None:
            return ("*",)
        known = sorted({*self.registry().scopes, METRICS})
        scopes = tuple(dict.fromkeys(synonym(one, known, ":") for one in given))
        if unknown := sorted({*scopes} - {*known, "*"}):
            raise InvalidParams(
                f"There is no such scope: {', '.join(unknown)}. There are: {', '.join(known)}.", field="scopes"
            )
        return scopes

    def _tools(self, given: Sequence[str] | None) -> tuple[str, ...]:
        return tuple(self.registry().select(given).names) if given else ()


def _at_most(call: Call, expires_at: int | None) -> int | None:
    """Return when a key expires that the caller makes: at the latest with the caller's own."""
    ends = [at for at in (expires_at, call.principal.expires_at) if at is not None]
    return min(ends) if ends else None


def _record(tx: Tx, call: Call, key: ApiKey, now: int, *, reason: str = "", **details: str) -> None:
    """Write the audit row, in the trail of the key's tenant, whose admins it concerns."""
    limits = {"tools": [*key.tools]} if key.tools else {}
    mode = {"read_only": True} if key.read_only else {}
    known: dict[str, Any] = {"name": key.sub, "scopes": [*key.scopes], **limits, **mode, **details}
    audit.record(tx, replace(call.audit_event(key.id, at=now, reason=reason, **known), tenant=key.tenant))


def _shown(key: ApiKey) -> model.Key:
    return model.Key.of(
        key, name=key.sub, scopes=list(key.scopes), tools=list(key.tools), successor=key.successor or None
    )


def _no_such_key() -> NotFound:
    return NotFound("There is no valid key with that id.", guidance="'kho keys list' shows the keys.")
