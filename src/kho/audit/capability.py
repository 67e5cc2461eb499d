"""Wiring of the audit trail into the hub: after the other slices, whose rows it shows."""

from collections.abc import Sequence
from dataclasses import replace

from kho.audit import chain
from kho.audit.integrity import AuditUpkeep
from kho.audit.retention import Retention
from kho.audit.sealer import Sealer
from kho.audit.service import AUDIT, Service
from kho.audit.settings import AuditSettings
from kho.kernel.capability import Capability, Gauge, Transfer
from kho.kernel.checkpoint import ADMIN, trail_scopes
from kho.search.core import Core


def described(service: Service | type[Service] = Service, slices: Sequence[Capability] = ()) -> Capability:
    """Return the capability's description and operations; with the class instead of an instance it serves help texts.
    Any slice's read scope is enough to read the log, of which a caller sees the slices that it may read."""
    scope = frozenset({ADMIN}).union(*trail_scopes(slices).values())
    return Capability(
        AUDIT.capability,
        "audit-server",
        tuple(
            replace(operation, scope=scope) if operation.action == "audit_log" else operation
            for operation in AUDIT.bind(service)
        ),
        "Who did what, when and why: the audit trail of everything.",
        transfers=[Transfer("audit", "export_audit", what="a tenant's audit trail, as JSON Lines or CEF,")],
    )


def capability(
    core: Core,
    settings: AuditSettings,
    slices: Sequence[Capability],
    names: Sequence[str],
    *,
    home_tenant: str,
    version: str,
) -> Capability:
    """Wire the slice. `slices` are the enabled ones, read at each call; `names` are all whose rows a store may hold.
    Admins of `home_tenant` see every tenant's trail. Sealer and retention are its works in the background."""
    db, background, clock, leases = core.db, core.background, core.clock, core.leases
    retention = Retention(db=db, background=background, clock=clock, leases=leases, settings=settings)
    sealer = Sealer(db=db, background=background, clock=clock, leases=leases)
    service = Service(db=db, slices=slices, names=names, sealer=sealer, home_tenant=home_tenant, version=version)
    gauge = Gauge("kho_audit_unsealed", "Rows of the audit trail that wait for their link.", chain.unsealed)
    return replace(
        described(service, slices),
        start=[sealer.run],
        follow=(retention.run,),
        gauges=[gauge],
        upkeep=AuditUpkeep(),
    )
