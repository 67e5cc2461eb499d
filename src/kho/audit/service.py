"""The operations of the audit trail, and who may read which rows."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from kho.audit import chain, export, markdown, model, retention
from kho.audit.model import AuditLog
from kho.audit.sealer import Sealer
from kho.audit.verification import Trail, Verification
from kho.kernel import (
    AuditLogPage,
    Call,
    Capability,
    Command,
    Contract,
    Database,
    Forbidden,
    InvalidParams,
    NotFound,
    Tx,
    audit,
    paging,
)
from kho.kernel.audit import log_page
from kho.kernel.checkpoint import ADMIN, trail_view
from kho.kernel.vocabulary import slice_name
from kho.lib.dataclass import dataclass
from kho.lib.tenancy import in_all_tenants

AUDIT = Contract("audit", read_scope=ADMIN, write_scope=ADMIN, named_by="wire")
TIMEOUT = 30.0
"""Maximum seconds for a page, and for each batch of a verification."""
ERASED_AT_ONCE = 5_000
"""Rows that one call erases at most: others cannot write meanwhile."""
FILTERS = ("slice", "subject", "actor", "action", "outcome", "since", "until", "limit", "cursor")


@dataclass(slots=True, kw_only=True)
class Service:
    """Reads and verifies the audit trail.

    A caller sees rows of its own tenant and of the slices whose read scope it has. Only admins see rows that belong to
    no slice (such as counts of refused credentials) and the details of admin operations (such as a webhook's address).
    Admins of the hub's own tenant verify and export every tenant's trail, others their own.
    """

    db: Database
    slices: Sequence[Capability]
    names: Sequence[str]
    sealer: Sealer
    home_tenant: str
    version: str

    @AUDIT.read(
        "audit_log",
        cli=Command("audit list", shows=FILTERS, group="Who did what, when and why: the audit trail of everything."),
        example={"slice": "documents", "since": "2026-01-01T00:00:00Z"},
        text=markdown.log,
    )
    async def log(self, params: AuditLog, call: Call) -> AuditLogPage:
        """Who did what, when and why, in every part of Kho; the newest first.

        Use it to answer who changed what, when and why, and what was refused. Filter by slice (a part of Kho), subject
        (an id), actor, action (an operation), outcome and time. You see the parts that your scopes let you read.
        """
        subject, wanted = params.subject, params.slice and slice_name(params.slice)
        if params.document_id is not None:
            subject, wanted = params.document_id, wanted or "documents"
        known = {*self.names, *(one.name for one in self.slices)}
        if wanted is not None and wanted not in known:
            raise InvalidParams(f"Kho has no part '{wanted}'. There are: {', '.join(sorted(known))}.", field="slice")
        view = trail_view(call, self.slices, wanted)
        page = await self.db.read(
            lambda tx: log_page(
                tx, call.tenant, params, subject=subject, capabilities=view.slices, outcome=params.outcome
            ),
            timeout=call.remaining(TIMEOUT),
        )
        for entry in page.entries:
            if f"{entry.slice}/{entry.action}" in view.without_details:
                entry.details = {}
        return page

    @AUDIT.read(
        "verify_audit",
        cli=Command("audit verify", ("tenant",), names={"expect_heads": "expect-head"}),
        text=markdown.verified,
        failed_in_part=lambda answer: not answer.whole,
    )
    async def verify(self, params: model.VerifyAudit, call: Call) -> model.VerifiedAudit:
        """Verify that nobody altered, took out, added or exchanged rows of the audit trail.

        It recomputes the chain over every row, and says which rows are broken and how. New rows that wait for their
        link are counted, not broken. Whether the newest rows were cut off shows only against a head that was kept
        elsewhere: give those of earlier answers as expect_heads.
        """
        heads = [model.Head.read(text) for text in params.expect_heads]
        for tenant in {head.tenant for head in heads}:
            self._need_own(call, tenant)
        # A trail that was cut off as a whole is broken for who has its head, and not unknown.
        known = [head.tenant for head in heads]
        named = None if params.tenant is None else await self._trail(call, params.tenant, known)
        with in_all_tenants():  # whose trail a caller may verify was decided above
            if named is not None:
                tenants = [named]
            elif call.tenant == self.home_tenant:
                tenants = await self.db.read(chain.tenants, timeout=call.remaining(TIMEOUT))
            else:
                tenants = [call.tenant]
            trails = [
                _shown(await self._verify(tenant, [head for head in heads if head.tenant == tenant], call))
                for tenant in dict.fromkeys([*tenants, *(head.tenant for head in heads)])
            ]
        return model.VerifiedAudit(whole=all(trail.whole for trail in trails), trails=trails)

    async def _verify(self, tenant: str, heads: Sequence[model.Head], call: Call) -> Trail:
        async def progress(done: int, total: int) -> None:
            await call.progress(done, max(done, total), f"Verifying {tenant}")

        wanted = frozenset(head.place for head in heads)
        verification = Verification(self.db, tenant, wanted, partial(call.remaining, TIMEOUT))
        trail = await verification.run(progress)
        for head in heads:
            head.compare(trail)
        return trail

    @AUDIT.read("export_audit", tool=False, example={"since": "2026-01-01T00:00:00Z"})
    async def export(self, params: model.ExportAudit, call: Call) -> model.ExportedAudit:
        """Export the audit trail page by page, the oldest row first: done and refused, with the place of each in the
        chain. What looks like a secret is masked."""
        tenant = await self._trail(call, params.tenant)
        after = (paging.place(params.cursor, int) or (0,))[0]

        def read(tx: Tx) -> list[export.Exported]:
            return export.rows(tx, tenant, after=after, limit=params.limit + 1, since=params.since, until=params.until)

        with in_all_tenants():  # `_trail` decided whose
            found = await self.db.read(read, timeout=call.remaining(TIMEOUT))
        page, cursor = paging.cut(found, params.limit, lambda one: [one.row.number])
        as_cef = partial(export.as_cef, version=self.version)
        lines = [*map(as_cef if params.format == "cef" else export.as_json, page)]
        return model.ExportedAudit(lines=lines, next_cursor=cursor)

    @AUDIT.destroy(
        "erase_audit",
        tool=False,
        cli=Command("audit erase", final=True, reads=True),
        example={"actor": "minh", "reason": "the person asked for it"},
        text=markdown.erased,
    )
    async def erase(self, params: model.EraseAudit, call: Call) -> model.ErasedAudit:
        """Erase the names, ids, reasons and details of audit rows, by actor, subject or time.

        What was done and when stays, and the chain still verifies. Nothing brings the text back.
        """
        tenant = await self._trail(call, params.tenant)

        def work(tx: Tx) -> model.ErasedAudit:
            numbers = retention.matching(tx, tenant, actor=params.actor, subject=params.subject, until=params.until)
            now, batch = self.sealer.clock(), numbers[:ERASED_AT_ONCE]
            if batch:
                retention.erase(tx, tenant, batch, now)
                event = call.audit_event("", at=now, reason=params.reason, rows=len(batch))
                audit.record(tx, replace(event, tenant=tenant))
            return model.ErasedAudit(tenant=tenant, erased=len(batch), left=len(numbers) - len(batch))

        with in_all_tenants():  # `_trail` decided whose
            await self.sealer.seal_all(tenant)  # only the text of linked rows can go
            return await call.commit(self.db, work)

    async def _trail(self, call: Call, tenant: str | None, known: Sequence[str] = ()) -> str:
        """Return whose trail is meant, the caller's own unless another is named. Raises Forbidden for what is not the
        caller's to see, and NotFound for a tenant without a trail: a slip of the pen would look like a whole one."""
        if tenant is None or tenant == call.tenant:
            return call.tenant
        self._need_own(call, tenant)
        with in_all_tenants():
            there = {*known, *await self.db.read(chain.tenants, timeout=call.remaining(TIMEOUT))}
        if tenant not in there:
            listed = ", ".join(sorted(there)) or "none"
            raise NotFound(f"There is no audit trail of a tenant '{tenant}'. There are: {listed}.")
        return tenant

    def _need_own(self, call: Call, tenant: str) -> None:
        if tenant != call.tenant and call.tenant != self.home_tenant:
            raise Forbidden(f"This credential sees the trail of its own tenant only ('{call.tenant}').")


def _shown(trail: Trail) -> model.VerifiedTrail:
    breaks = [
        model.AuditBreak(kind=one.kind, place=one.place or None, number=one.number or None, message=one.message)
        for one in trail.breaks[: model.MAX_BREAKS]
    ]
    return model.VerifiedTrail.of(
        trail,
        whole=not trail.broken,
        removed=trail.beginning.place,
        removals=trail.removals or None,
        head=model.Head(trail.tenant, *trail.head).text,
        breaks=breaks,
    )
