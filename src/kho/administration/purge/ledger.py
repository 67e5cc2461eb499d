"""The record of purges: what was asked for, without the name of a person, and how far it is."""

import hashlib
import hmac
import secrets
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from kho.kernel.ports import Tx
from kho.kernel.upkeep.erasure import Whom
from kho.lib.dataclass import dataclass
from kho.lib.name_key import name_key
from kho.lib.sql import Table, to_json, update, where


@dataclass(frozen=True, slots=True)
class Purge:
    tenant: str
    id: str
    what: dict[str, Any]
    """`subject`: {key, digest}; `before`: a time; neither: everything of the tenant."""
    requested_by: str
    at: int
    finished_at: int | None
    counts: dict[str, int]

    @property
    def of_person(self) -> bool:
        return "subject" in self.what

    def is_about(self, name: str) -> bool:
        subject = self.what["subject"]
        return hmac.compare_digest(_digest(bytes.fromhex(subject["key"]), name), subject["digest"])

    def whom(self, candidates: Iterable[str]) -> Whom:
        """`candidates`: the names in the store, of which those that are meant are taken."""
        names = tuple(sorted({name for name in candidates if self.is_about(name)})) if self.of_person else None
        return Whom(self.tenant, names, self.what.get("before"))


PURGES = Table("purges", Purge, json=("what", "counts"))


def criteria(subject: str | None, before: int | None) -> dict[str, Any]:
    found: dict[str, Any] = {} if before is None else {"before": before}
    if subject is not None:
        key = secrets.token_bytes(32)
        found["subject"] = {"key": key.hex(), "digest": _digest(key, subject)}
    return found


def unfinished(tx: Tx, tenant: str | None = None) -> list[Purge]:
    """Return purges that have not ended, of one tenant or of all, the oldest first."""
    mine, values = where({"tenant =": tenant})
    return PURGES.all(tx, f"finished_at IS NULL{' AND ' if mine else ''}{mine} ORDER BY at, id", *values)


def since(tx: Tx, at: int) -> list[Purge]:
    """Return purges of all tenants from after a time, the oldest first."""
    return PURGES.all(tx, "at > $1 ORDER BY at, id", at)


def add_counts(tx: Tx, purge: Purge, counts: Mapping[str, int]) -> None:
    now = PURGES.find(tx, tenant=purge.tenant, id=purge.id)
    if now is not None:
        together = Counter(now.counts) + Counter(counts)
        update(tx, PURGES.name, {"counts": to_json(together)}, tenant=purge.tenant, id=purge.id)


def finish(tx: Tx, purge: Purge, now: int) -> None:
    sql = "UPDATE purges SET finished_at = $1 WHERE tenant = $2 AND id = $3 AND finished_at IS NULL"
    tx.run(sql, now, purge.tenant, purge.id)


def _digest(key: bytes, name: str) -> str:
    return hmac.digest(key, name_key(name).encode("utf-8", "surrogatepass"), hashlib.sha256).hex()
