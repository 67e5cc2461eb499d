"""What a caller needs before something of a slice is shown to it: declared beside every thing that is served."""

from dataclasses import dataclass

Scope = str | frozenset[str]
"""The scope that a credential must have; of several, any one is enough."""


@dataclass(frozen=True, slots=True)
class Open:
    """No scope is asked for, and somebody decided so. Never the default: what is forgotten stays closed."""

    reason: str


OPEN = Open("Everybody may have it.")
OWN_CREDENTIALS = Open("It checks a credential of its own, such as a board's token.")

Access = Scope | Open


def names(scope: Scope) -> list[str]:
    return [scope] if isinstance(scope, str) else sorted(scope)
