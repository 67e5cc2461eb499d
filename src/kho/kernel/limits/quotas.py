"""Quotas: how much a tenant may keep. Checked in the transaction that adds something, when it has added it."""

from collections.abc import Callable

from kho.kernel.errors import TooManyRequests
from kho.kernel.limits.allowance import described, setting
from kho.kernel.limits.settings import LimitSettings
from kho.kernel.ports import Tx
from kho.lib.dataclass import dataclass

NEAR = 0.9
"""Share of a quota from which the writers of a tenant wait for each other, so that together they do not exceed it."""
AT_ONCE = 100
"""The same of a small quota, in items: more than write at once."""
LATER = 3600
"""Seconds after which to try again: what is kept does not become less by itself."""
SOON = 60
"""The same where it does, such as running jobs."""


class QuotaReached(TooManyRequests):
    """The tenant keeps as much as it may. Nothing was stored."""

    code = "QUOTA_REACHED"


@dataclass(frozen=True, slots=True)
class Quotas:
    settings: LimitSettings
    exempt: str = ""
    """Tenant of this machine's user, who has none."""

    def need(
        self, tx: Tx, name: str, tenant: str, used: Callable[[], int], *, by_key: bool, retry_after: int = LATER
    ) -> None:
        """Raise QuotaReached if the tenant has more than its quota. `used` counts, with what was added just now.
        `by_key`: a caller with a key added it, whose tenant may be that of this machine's user, too."""
        most = getattr(self.settings, name) if by_key or tenant != self.exempt else 0
        if not most or used() <= min(NEAR * most, most - AT_ONCE):
            return
        if tx.engine == "postgres":  # on SQLite there is one writer at a time anyway
            tx.one("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", f"kho quota {tenant}")
        if used() > most:
            raise QuotaReached(
                f"The quota of {most:,} {described(name).counts} of one tenant is reached. Nothing was stored.",
                guidance=f"Remove what is not needed. Whoever runs the hub can set {setting(name)}.",
                limit=name,
                setting=setting(name),
                retry_after=retry_after,
            )


def no_quotas() -> Quotas:
    return Quotas(LimitSettings(items=0, bytes=0, boards=0, jobs=0))
