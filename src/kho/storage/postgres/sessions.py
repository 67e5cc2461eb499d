"""Which other programs of Kho are connected to a store on PostgreSQL: each connection carries a name that says so."""

import os
import platform

from kho.kernel.ports import Tx

_ME = f"{platform.node()[:24]} {os.getpid()}"
# As long as PostgreSQL keeps a name.
NAME = f"SELECT set_config('application_name', left(concat('kho ', current_schema(), ' ', '{_ME}'), 63), false)"
_OTHERS = (
    "SELECT DISTINCT split_part(application_name, ' ', 3), split_part(application_name, ' ', 4) FROM pg_stat_activity "
    "WHERE datname = current_database() AND starts_with(application_name, concat('kho ', current_schema(), ' ')) "
    "AND application_name <> current_setting('application_name') ORDER BY 1, 2"
)


def others(tx: Tx) -> list[str]:
    """Return the machine and the number of each other process of Kho that is connected to this store."""
    return [f"process {number} on {machine}" for machine, number in tx.all(_OTHERS)]
