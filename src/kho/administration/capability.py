"""Wiring of administration into the hub."""

from dataclasses import replace

from kho.administration.contract import ADMINISTRATION
from kho.administration.purge.purges import Purges
from kho.administration.purge.retention import LEASE, Retention
from kho.administration.purge.service import PurgeService
from kho.administration.service import Service
from kho.kernel.capability import Capability
from kho.kernel.upkeep.daily import Daily
from kho.search.core import Core


def described(
    service: Service | type[Service] = Service, purge: PurgeService | type[PurgeService] = PurgeService
) -> Capability:
    """Return the capability's description and operations; classes instead of instances are enough for help texts."""
    return Capability(
        ADMINISTRATION.capability,
        "administration-server",
        ADMINISTRATION.bind(service, purge),
        "Keys, tenants and settings of the hub.",
    )


def capability(core: Core, service: Service, purges: Purges) -> Capability:
    retention = Retention(
        db=core.db,
        background=core.background,
        clock=core.clock,
        daily=Daily(core.db, core.clock, core.leases, LEASE),
        erasures=purges.erasures,
    )
    purge = PurgeService(purges=purges, home_tenant=service.home_tenant)
    return replace(described(service, purge), serve=(purges.resume, retention.run))
