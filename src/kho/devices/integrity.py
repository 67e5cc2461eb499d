"""Checks of boards: their tools, and the numbers of their calls."""

from collections.abc import Iterator

import orjson

from kho.devices.tools import toolsets
from kho.kernel.ports import Tx
from kho.kernel.upkeep.checks import Checks, Rule, every, is_json
from kho.kernel.upkeep.defect import Finding, Progress, found
from kho.search.indexing.integrity import SliceUpkeep

_UNKNOWN = (
    "t.toolset <> '' AND NOT EXISTS "
    "(SELECT 1 FROM device_toolsets AS x WHERE x.tenant = t.tenant AND x.digest = t.toolset)"
)
_LAST = "(SELECT coalesce(max(c.number), 0) FROM device_calls AS c WHERE c.tenant = t.tenant)"

_RULES = (
    # A board tells its tools each time it connects.
    Rule(
        "devices",
        "board",
        "without its tools",
        f"FROM devices AS t WHERE {_UNKNOWN}",
        (f"UPDATE devices AS t SET toolset = '' WHERE {_UNKNOWN}",),
    ),
    Rule(
        "device_counts",
        "count of calls",
        "lower than the number of the last call",
        f"FROM device_counts AS t WHERE t.calls < {_LAST}",
        (
            "INSERT INTO device_counts (tenant, calls) SELECT tenant, max(number) FROM device_calls GROUP BY tenant "
            "ON CONFLICT (tenant) DO UPDATE SET calls = max(calls, excluded.calls)",
        ),
    ),
)


def _digests(tx: Tx, progress: Progress) -> Iterator[Finding]:
    progress("Tools of boards", 0, 0)
    rows = every(tx, "device_toolsets", ("tenant", "digest"), ("digest", "tools"))
    wrong = sum(is_json(tools) and toolsets.digest(orjson.loads(tools)) != digest for digest, tools in rows)
    yield from found(wrong, "list of tools", "not what a board told", "device_toolsets")


def _settle(tx: Tx) -> None:
    """Forget what no board told: it tells its tools when it connects."""
    for tenant, digest, tools in tx.all("SELECT tenant, digest, tools FROM device_toolsets"):
        if toolsets.digest(orjson.loads(tools)) != digest:
            tx.run("DELETE FROM device_toolsets WHERE tenant = $1 AND digest = $2", tenant, digest)


UPKEEP = SliceUpkeep(
    checks=Checks(
        rules=_RULES,
        json=(
            ("devices", ("tenant", "id", "client"), ("info", "baseline", "warnings")),
            ("device_toolsets", ("tenant", "digest"), ("tools",)),
            ("device_notifications", ("tenant", "device", "place"), ("params",)),
            ("device_calls", ("tenant", "number"), ("arguments",)),
            ("device_queue", ("tenant", "number"), ("arguments",)),
        ),
        digests=_digests,
        settles=_settle,
    )
)
