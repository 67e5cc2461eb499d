"""What documents hold of tenants and people. Their text is everybody's: of whoever wrote it only the name leaves."""

from collections.abc import Sequence

import orjson

from kho.documents.store import REVISIONS, SPACE, size_of
from kho.kernel.ports import Row, Tx
from kho.kernel.upkeep.erasure import NAMES, Erasure, Gone, Nameless, Rows, Whom, holds, quoted
from kho.lib.dataclass import dataclass
from kho.lib.sql import to_json
from kho.search.core import Core
from kho.search.indexing.erasure import drop_each

SLICE = "documents"
DEAD = "dead = 1 AND event IN (SELECT number FROM document_events WHERE tenant = $1 AND at < {before})"
TOLD_ALL = (
    "at < {before} AND NOT EXISTS (SELECT 1 FROM document_deliveries AS d "
    "WHERE d.tenant = document_events.tenant AND d.event = document_events.number)"
)


def erasures(core: Core) -> list[Erasure]:
    def unfiled(tx: Tx, tenant: str, rows: Sequence[Row]) -> None:
        drop_each(core.index, tx, SPACE, tenant, rows)
        core.index.count(tx, REVISIONS, tenant, -size_of(tx, tenant, [row[0] for row in rows]))

    below = ("document_bodies", "document_revisions", "document_deletions", "document_files")
    return [
        Rows(
            slice=SLICE,
            table="documents",
            more=("parent",),
            aged="deleted_at < {before}",
            below=tuple((table, "id") for table in below),
            derived=unfiled,
            known=True,
        ),
        Rows(slice=SLICE, table="document_revisions", key=("id", "revision"), authors=("made_by",)),
        Rows(slice=SLICE, table="document_deletions", authors=("deleted_by", "scheduled_by")),
        Rows(slice=SLICE, table="document_trees", key=("tenant",)),
        Rows(slice=SLICE, table="document_deliveries", key=("webhook", "event"), aged=DEAD),
        Rows(slice=SLICE, table="document_events", key=("number",), aged=TOLD_ALL),
        Rows(slice=SLICE, table="document_webhooks"),
        EventNames(),
    ]


@dataclass(frozen=True, slots=True)
class EventNames(Nameless):
    """Who did it, in events that a webhook has still to be told."""

    slice: str = SLICE
    tables: Sequence[str] = ()

    def count(self, tx: Tx, whom: Whom) -> dict[str, int]:
        rows = self._named(tx, whom, None)
        return {f"document_events{NAMES}": len(rows)} if rows else {}

    def erase(self, tx: Tx, whom: Whom, limit: int) -> Gone:
        rows = self._named(tx, whom, limit)
        for number, text in rows:
            body = orjson.loads(text)
            without = {name: "" if value in (whom.names or ()) else value for name, value in body.items()}
            sql = "UPDATE document_events SET body = $1 WHERE tenant = $2 AND number = $3"
            tx.run(sql, to_json({**without, "reason": "", "request_id": ""}), whom.tenant, number)
        return Gone(len(rows))

    def _named(self, tx: Tx, whom: Whom, limit: int | None) -> list[Row]:
        if not whom.names or whom.before is not None:
            return []
        marks = [f'"{field}":{name}' for field in ("actor", "deleted_by") for name in quoted(whom.names)]
        sql = f"SELECT number, body FROM document_events WHERE tenant = $1 AND ({holds(tx, 'body', len(marks), 2)})"
        rest = "" if limit is None else f" LIMIT {limit}"
        return tx.all(f"{sql}{rest}", whom.tenant, *marks)
