"""Wiring of the audit trail into the hub: after the other slices, whose rows it shows."""

from collections.abc import Sequence
from dataclasses import replace

from kho.audit.service import AUDIT, Service
from kho.kernel.capability import Capability
from kho.kernel.checkpoint import ADMIN, trail_scopes
from kho.search.core import Core


def described(service: Service | type[Service] = Service, slices: Sequence[Capability] = ()) -> Capability:
    """Return the capability's description and operations; with the class instead of an instance it serves help texts.
    Any slice's read scope is enough to call it: the rows are then limited to the slices that the caller may read."""
    scope = frozenset({ADMIN}).union(*trail_scopes(slices).values())
    return Capability(
        AUDIT.capability,
        "audit-server",
        tuple(replace(operation, scope=scope) for operation in AUDIT.bind(service)),
        "Who did what, when and why: the audit trail of everything.",
    )


def capability(core: Core, slices: Sequence[Capability], names: Sequence[str]) -> Capability:
    """Wire the slice. `slices` are the enabled ones, read at each call; `names` are all whose rows a store may hold."""
    return described(Service(db=core.db, slices=slices, names=names), slices)
