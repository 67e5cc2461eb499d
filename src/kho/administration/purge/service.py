"""The operation that purges: it says what would leave, and does it once that is confirmed."""

import uuid
from collections.abc import Sequence
from dataclasses import replace

from kho.administration.contract import ADMINISTRATION
from kho.administration.purge import ledger, markdown
from kho.administration.purge.ledger import PURGES, Purge
from kho.administration.purge.model import ELSEWHERE, PurgedStore, PurgeStore, Taken
from kho.administration.purge.purges import Purges
from kho.kernel import Call, Command, Forbidden, NotFound, Tx, Unconfirmed, api_keys, audit
from kho.kernel.audit import PURGE
from kho.kernel.upkeep.erasure import LEFT_IN_FILE, Whom
from kho.lib.clock import iso
from kho.lib.dataclass import dataclass
from kho.lib.tenancy import in_all_tenants


class NotPurgedYet(Unconfirmed):
    """This is erased for good. Nothing was done yet."""

    confirmable = True
    guidance = "Look at what would leave, then call again with confirm."


@dataclass(slots=True, kw_only=True)
class PurgeService:
    purges: Purges
    home_tenant: str

    @ADMINISTRATION.destroy(
        PURGE,
        cli=Command("admin purge", confirms=True, reads=True),
        example={"subject": "whatsapp:+84900000000", "reason": "asked for it", "confirm": True},
        text=markdown.purged,
    )
    async def purge(self, params: PurgeStore, call: Call) -> PurgedStore:
        """Erase for good what belongs to a tenant or a person, or is older than a date: rows, indexes, queues and the
        audit trail's text.

        Without `confirm` nothing is done, and the refusal says what would leave. Admins of the hub's own tenant purge
        any tenant, others their own.
        """
        whom = await self._whom(params, call)
        resumed = await self.purges.resume_in(whom.tenant) if params.confirm and not params.dry_run else None
        takes = [
            Taken(slice=part, table=table, rows=rows) for (part, table), rows in (await self._counts(whom)).items()
        ]
        found = PurgedStore(tenant=whom.tenant, takes=takes, rows=sum(one.rows for one in takes), finished=False)
        if params.dry_run:
            return found.model_copy(update={"spellings": None if whom.names is None else [*whom.names]})
        if not takes:
            done = found.model_copy(update={"id": resumed, "finished": True})
            return await self._wiped(params, done) if resumed else done
        if not params.confirm:
            raise NotPurgedYet(
                f"This is erased for good, in the tenant '{whom.tenant}'{_spelt(whom)}: {_listed(takes)}. "
                "Nothing was done yet.",
                takes=[one.model_dump() for one in takes],
            )
        purge, recorded = await self._record(params, whom, call, found)
        if not await self.purges.carry_out(purge, whom, call.progress, found.rows):
            return recorded
        return await self._wiped(params, recorded.model_copy(update={"finished": True}))

    async def _wiped(self, params: PurgeStore, done: PurgedStore) -> PurgedStore:
        if not params.wipe:
            return done.model_copy(update={"left": f"{LEFT_IN_FILE} {ELSEWHERE}"})
        wiped = await self.purges.wipe()
        left = " ".join(filter(None, (wiped.left, ELSEWHERE)))
        return done.model_copy(update={"wiped": wiped.done, "problem": wiped.problem, "left": left})

    async def _whom(self, params: PurgeStore, call: Call) -> Whom:
        tenant = params.tenant or call.tenant
        if tenant != call.tenant and call.tenant != self.home_tenant:
            raise Forbidden(f"This credential purges its own tenant only ('{call.tenant}').")
        if tenant != call.tenant:
            with in_all_tenants():
                known = await self.purges.db.read(api_keys.tenants)
            if tenant not in known:
                raise NotFound(f"There is no tenant '{tenant}'. There are: {', '.join(sorted(known)) or 'none'}.")
        if params.subject is None:
            return Whom(tenant, None, params.before)
        spelt = await self.purges.spellings(tenant, params.subject)
        return Whom(tenant, tuple(sorted({*spelt, params.subject})), params.before)

    async def _counts(self, whom: Whom) -> dict[tuple[str, str], int]:
        return await self.purges.count(whom)

    async def _record(
        self, params: PurgeStore, whom: Whom, call: Call, found: PurgedStore
    ) -> tuple[Purge, PurgedStore]:
        """Record the purge before it begins: from here on it ends, whatever happens to this process."""
        now = self.purges.clock()
        by = "" if call.principal.sub in (whom.names or ()) else call.principal.sub
        what = ledger.criteria(params.subject, params.before)
        purge = Purge(whom.tenant, str(uuid.uuid4()), what, by, now, None, {})
        kind = "tenant" if whom.everything else "person" if whom.names is not None else "old"
        before = {} if params.before is None else {"before": iso(params.before)}

        def work(tx: Tx) -> PurgedStore:
            PURGES.insert(tx, purge)
            event = call.audit_event(
                "", at=now, operation=PURGE, reason=params.reason, purge=purge.id, what=kind, rows=found.rows, **before
            )
            audit.record(tx, replace(event, tenant=whom.tenant, actor=by))
            return found.model_copy(update={"id": purge.id})

        with in_all_tenants():  # `_whom` decided whose
            return purge, await call.commit(self.purges.db, work)


def _spelt(whom: Whom) -> str:
    names = ", ".join(f"'{name}'" for name in whom.names or ())
    return f", of {names}" if names else ""


def _listed(takes: Sequence[Taken]) -> str:
    return ", ".join(f"{one.rows:,} {one.table.replace('_', ' ')}" for one in takes)
