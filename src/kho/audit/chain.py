"""The chain over the audit trail: what a link says about a row, and how rows and links are read.

Each tenant has a chain of its own, in the order in which rows are sealed. A link covers its row with all further
subjects, its place, and the link before it, so that nobody can change, take out, add or exchange a row in the middle
without remaking every link that follows.

Personal and free text enters as an HMAC whose key is a random salt of that row. The salt is stored beside the text:
when both are erased the chain still verifies, and nobody can try out what the text may have been.
"""

import hashlib
import hmac
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from typing import NamedTuple

from kho.kernel import Tx
from kho.kernel.ports import Value
from kho.lib.dataclass import dataclass
from kho.lib.sql import Table, among, number

SALT_BYTES = 16
ERASED = ("", "", "", "", "{}")
"""Subject, actor, reason, request id and details of a row whose personal text was erased."""


@dataclass(frozen=True, slots=True)
class TrailRow:
    """A row of the trail as it is stored."""

    number: int
    tenant: str
    at: int
    capability: str
    operation: str
    outcome: str
    subject: str
    actor: str
    reason: str
    request_id: str
    details: str
    erased_at: int | None = None
    further: tuple[tuple[str, str], ...] = ()
    """Further subjects with their details."""

    @property
    def texts(self) -> tuple[str, ...]:
        return self.subject, self.actor, self.reason, self.request_id, self.details


@dataclass(frozen=True, slots=True)
class Link:
    place: int
    """From 1, without a gap."""
    number: int
    sealed_at: int
    salt: bytes | None = field(repr=False)
    """None once the personal text was erased."""
    personal: bytes
    """Salted digest of the personal text."""
    content: bytes
    """Digest of the whole row, in which the personal text is that digest."""
    digest: bytes
    """Digest of the link, in which the one before it is."""


class Head(NamedTuple):
    """The end of a chain, or the place before its beginning."""

    place: int = 0
    digest: bytes = bytes(32)


_ROWS = Table("audit", TrailRow)
_COLUMNS = ", ".join(_ROWS.fields[:-1])
LINKS = Table("audit_links", Link)


def packed(*parts: object) -> bytes:
    """Return a form that no other list of parts has: before each part its type and length, so that nothing can be
    shifted from one field to the next."""
    found = bytearray()
    for part in parts:
        if isinstance(part, str):
            kind, data = b"s", part.encode("utf-8", "surrogatepass")
        elif isinstance(part, bytes):
            kind, data = b"b", part
        elif isinstance(part, int):
            kind, data = b"i", str(int(part)).encode()
        else:  # no column of ours holds it: somebody changed the row
            kind, data = b"?", repr(part).encode()
        found += kind + len(data).to_bytes(8, "big") + data
    return bytes(found)


def personal_digest(row: TrailRow, salt: bytes) -> bytes:
    # Sorted here: the databases sort text differently.
    further = (text for pair in sorted(row.further) for text in pair)
    return hmac.digest(salt, packed(*row.texts, *further), "sha256")


def content_digest(row: TrailRow, personal: bytes) -> bytes:
    """The number is not in it, but in the link: so an exchanged row can be told from an altered one."""
    fixed = (row.tenant, row.at, row.capability, row.operation, row.outcome)
    return hashlib.sha256(packed("kho audit row 1", *fixed, personal)).digest()


def link_digest(tenant: str, before: Head, number: int, sealed_at: int, content: bytes) -> bytes:
    """Return the digest of the link that follows `before`."""
    parts = (tenant, before.place + 1, before.digest, number, sealed_at, content)
    return hashlib.sha256(packed("kho audit link 1", *parts)).digest()


def made(row: TrailRow, before: Head, salt: bytes, now: int) -> Link:
    personal = personal_digest(row, salt)
    content = content_digest(row, personal)
    digest = link_digest(row.tenant, before, row.number, now, content)
    return Link(before.place + 1, row.number, now, salt, personal, content, digest)


def fits(link: Link, row: TrailRow) -> bool:
    """True if this is the row that the link was made for, whole or erased."""
    if link.salt is None:
        if row.erased_at is None or row.texts != ERASED or row.further:
            return False
    elif row.erased_at is not None or personal_digest(row, link.salt) != link.personal:
        return False
    return content_digest(row, link.personal) == link.content


def beginning(tx: Tx, tenant: str) -> Head:
    """Return where the chain begins: after the last row that has left."""
    sql = "SELECT place, digest FROM audit_checkpoints WHERE tenant = $1 ORDER BY place DESC LIMIT 1"
    row = tx.one(sql, tenant)
    return Head(*row) if row else Head()


def head(tx: Tx, tenant: str) -> Head:
    row = tx.one("SELECT place, digest FROM audit_links WHERE tenant = $1 ORDER BY place DESC LIMIT 1", tenant)
    return Head(*row) if row else beginning(tx, tenant)


def tenants(tx: Tx) -> list[str]:
    """Return every tenant that has a trail, or had one."""
    found: set[str] = set()
    for table in (
        "audit",
        "audit_links",
    ):  # millions of rows of a few tenants: from one tenant to the next in the index
        rows = tx.all(
            f"WITH RECURSIVE known(name) AS (SELECT min(tenant) FROM {table} UNION ALL "
            f"SELECT (SELECT min(tenant) FROM {table} WHERE tenant > known.name) FROM known "
            "WHERE known.name IS NOT NULL) SELECT name FROM known WHERE name IS NOT NULL"
        )
        found.update(name for (name,) in rows)
    found.update(name for (name,) in tx.all("SELECT DISTINCT tenant FROM audit_checkpoints"))
    return sorted(found.union(waiting_tenants(tx)))


def waiting_tenants(tx: Tx) -> list[str]:
    """Return the tenants that have rows without a link."""
    return [tenant for (tenant,) in tx.all("SELECT DISTINCT tenant FROM audit_unsealed ORDER BY tenant")]


def unsealed(tx: Tx) -> float:
    return number(tx, "SELECT count(*) FROM audit_unsealed")


def waiting(tx: Tx, tenant: str, limit: int) -> list[TrailRow]:
    """Return the rows that have no link yet, the oldest first."""
    found = tx.all(
        "SELECT waits.number FROM audit_unsealed AS waits "
        "JOIN audit ON audit.tenant = waits.tenant AND audit.number = waits.number "
        "LEFT JOIN audit_links AS link ON link.tenant = waits.tenant AND link.number = waits.number "
        "WHERE waits.tenant = $1 AND link.number IS NULL ORDER BY waits.number LIMIT $2",
        tenant,
        limit,
    )
    rows = rows_of(tx, tenant, [one for (one,) in found])
    return [rows[one] for one in sorted(rows)]


def links_after(tx: Tx, tenant: str, place: int, limit: int) -> list[Link]:
    return LINKS.all(tx, "tenant = $1 AND place > $2 ORDER BY place LIMIT $3", tenant, place, limit)


def rows_of(tx: Tx, tenant: str, numbers: Sequence[int]) -> dict[int, TrailRow]:
    """Return the rows with these numbers, those that exist, with their further subjects."""
    further: defaultdict[int, list[tuple[str, str]]] = defaultdict(list)
    select = "SELECT number, subject, details FROM audit_subjects WHERE tenant = $1 AND number"
    for of, subject, details in among(tx, select, numbers, tenant):
        further[of].append((subject, details))
    rows = among(tx, f"SELECT {_COLUMNS} FROM audit WHERE tenant = $1 AND number", numbers, tenant)
    read = [_ROWS.read(row) for row in rows]
    return {
        row.number: replace(row, further=tuple(further[row.number])) if row.number in further else row for row in read
    }


def append(tx: Tx, tenant: str, links: Iterable[Link]) -> None:
    links = list(links)
    LINKS.insert_many(tx, links, tenant=tenant)
    gone: list[tuple[Value, ...]] = [(tenant, link.number) for link in links]
    tx.many("DELETE FROM audit_unsealed WHERE tenant = $1 AND number = $2", gone)
