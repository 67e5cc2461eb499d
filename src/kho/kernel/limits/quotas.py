"""Quotas: how much a tenant may keep. Checked in the transaction that adds something, when it has added it."""

from collections.abc import Callable

from kho.kernel.errors import TooManyRequests
from kho.kernel.limits.allowance import described, setting
from kho.kernel.limits.settings import LimitSettings
from kho.kernel.ports import Tx
from kho.lib.dataclass import dataclass

NEAR = 0.9
"""Share of a quota from which the writers of a tenant wait for each other, so that together they do not exceed it."""
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
    """Tenant of this machine's user, which has none."""

    def most(self, name: str, tenant: str) -> int:
        """Return the quota of a tenant; 0 for none."""
        return 0 if tenant == self.exempt else getattr(self.settings, name)

    def need(self, tx: Tx, name: str, tenant: str, used: Callable[[], int], retry_after: int = LATER) -> None:
        """Raise QuotaReached if the tenant has more than its quota. `used` counts, with what was added just now."""
        most = self.most(name, tenant)
        if not most or used() <= NEAR * most:
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
