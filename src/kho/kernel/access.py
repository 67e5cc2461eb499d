"""Scopes: what a caller's credential must allow. Declared on everything that a slice serves."""

from kho.lib.dataclass import dataclass

Scope = str | frozenset[str]
"""The scope that a credential must have; with several, any one of them is enough."""

ADMIN = "admin"
METRICS = "metrics:read"
"""The scope of /metrics, whose figures are of the whole hub: all that a monitoring system's key needs."""
BY_NAME = frozenset({ADMIN, METRICS})
"""Scopes that reach beyond what a tenant's own members do: they must be given by name, '*' does not include them."""


@dataclass(frozen=True, slots=True)
class Open:
    """Deliberately needs no scope. Never a default, so that a forgotten scope leaves a thing closed."""

    reason: str


OPEN = Open("Everybody may have it.")
OWN_CREDENTIALS = Open("It checks a credential of its own, such as a board's token.")

Access = Scope | Open


def names(scope: Scope) -> list[str]:
    return [scope] if isinstance(scope, str) else sorted(scope)
