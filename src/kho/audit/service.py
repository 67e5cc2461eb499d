"""The operation `audit_log`, and who may read which rows."""

from collections.abc import Sequence

from kho.audit import markdown
from kho.audit.model import AuditLog
from kho.kernel import AuditLogPage, Call, Capability, Command, Contract, Database, InvalidParams
from kho.kernel.audit import log_page
from kho.kernel.checkpoint import ADMIN, trail_view
from kho.kernel.vocabulary import slice_name
from kho.lib.dataclass import dataclass

AUDIT = Contract("audit", read_scope=ADMIN, write_scope=ADMIN, named_by="wire")
TIMEOUT = 30.0
"""Maximum seconds for a page."""
FILTERS = ("slice", "subject", "actor", "action", "outcome", "since", "until", "limit", "cursor")


@dataclass(slots=True, kw_only=True)
class Service:
    """Reads the audit trail.

    A caller sees rows of its own tenant and of the slices whose read scope it has. Only admins see rows that belong to
    no slice (such as counts of refused credentials) and the details of admin operations (such as a webhook's address).
    """

    db: Database
    slices: Sequence[Capability]
    names: Sequence[str]

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
