"""The operation that purges: it says what would leave, and does it once that is confirmed."""

import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kho.administration.contract import ADMINISTRATION
from kho.administration.purge import ledger, markdown
from kho.administration.purge.ledger import PURGES, Purge
from kho.administration.purge.model import ELSEWHERE, PurgedStore, PurgeStore, Taken
from kho.administration.purge.purges import Purges, Wiped
from kho.kernel import Call, Command, Forbidden, NotFound, Tx, Unconfirmed, api_keys, audit
from kho.kernel.audit import PURGE
from kho.kernel.upkeep.erasure import Whom
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
            Taken(slice=part, table=table, rows=rows) for (part, table), rows in (await self.purges.count(whom)).items()
        ]
        found = PurgedStore(tenant=whom.tenant, takes=takes, rows=sum(one.rows for one in takes), finished=False)
        if params.dry_run:
            return found.model_copy(update={"spellings": None if whom.names is None else [*whom.names]})
        if not takes:
            done = found.model_copy(update={"id": resumed, "finished": True})
            return _done(done, await self.purges.wipe()) if resumed and params.wipe else done
        if not params.confirm:
            raise NotPurgedYet(
                f"This is erased for good, in the tenant '{whom.tenant}'{_spelt(whom)}: {_listed(takes)}. "
                "Nothing was done yet.",
                takes=[one.model_dump() for one in takes],
            )
        purge = self._purge(params, whom, call)
        recorded = found.model_copy(update={"id": purge.id})

        async def record() -> None:
            await self._record(params, whom, call, purge, recorded)

        wiped = await self.purges.carry_out(
            purge, whom, record, wipe=params.wipe, progress=call.progress, total=found.rows
        )
        return recorded if wiped is None else _done(recorded, wiped)

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

    def _purge(self, params: PurgeStore, whom: Whom, call: Call) -> Purge:
        by = "" if call.principal.sub in (whom.names or ()) else call.principal.sub
        what = ledger.criteria(params.subject, params.before)
        return Purge(whom.tenant, str(uuid.uuid4()), what, by, self.purges.clock(), None, {})

    async def _record(self, params: PurgeStore, whom: Whom, call: Call, purge: Purge, recorded: PurgedStore) -> None:
        """Record the purge before it begins: from here on it ends, whatever happens to this process."""
        kind = "tenant" if whom.everything else "person" if whom.names is not None else "old"
        before = {} if params.before is None else {"before": iso(params.before)}
        details: dict[str, Any] = {"purge": purge.id, "what": kind, "rows": recorded.rows, **before}

        def work(tx: Tx) -> PurgedStore:
            PURGES.insert(tx, purge)
            event = call.audit_event("", at=purge.at, operation=PURGE, reason=params.reason, **details)
            audit.record(tx, replace(event, tenant=whom.tenant, actor=purge.requested_by))
            return recorded

        with in_all_tenants():  # `_whom` decided whose
            await call.commit(self.purges.db, work)


def _done(found: PurgedStore, wiped: Wiped) -> PurgedStore:
    left = " ".join(filter(None, (wiped.left, ELSEWHERE)))
    return found.model_copy(update={"finished": True, "wiped": wiped.done, "problem": wiped.problem, "left": left})


def _spelt(whom: Whom) -> str:
    names = ", ".join(f"'{name}'" for name in whom.names or ())
    return f", of {names}" if names else ""


def _listed(takes: Sequence[Taken]) -> str:
    return ", ".join(f"{one.rows:,} {one.table.replace('_', ' ')}" for one in takes)
