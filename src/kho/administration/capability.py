"""Wiring of administration into the hub."""

from kho.administration.service import ADMINISTRATION, Service
from kho.kernel.capability import Capability


def described(service: Service | type[Service] = Service) -> Capability:
    """Return the capability's description and operations; the class instead of an instance is enough for help texts."""
    return Capability(
        ADMINISTRATION.capability,
        "administration-server",
        ADMINISTRATION.bind(service),
        "Keys, tenants and settings of the hub.",
    )


def capability(service: Service) -> Capability:
    return described(service)
