"""What does not come out of a backup by itself: numbers that go on, purges that came later, a table nobody knows."""

from collections.abc import Iterator
from typing import Any

import pytest

from kho.kernel.ports import Database, Tx
from kho.lib.tenancy import in_all_tenants
from kho.storage.backup import load
from kho.storage.backup.format import Batch, Start, TableStart, VectorBatch
from kho.storage.backup.load import NotLoadable


class Nothing:
    """A backup without a row."""

    def __init__(self, *tables: TableStart) -> None:
        self.start = Start("1", "sqlite", 5, [], tables, 0)

    def batches(self) -> Iterator[Batch | VectorBatch]:
        return iter(())


async def filled(db: Database, source: Nothing) -> None:
    with in_all_tenants():
        await db.write(lambda tx: load.fill(tx, source))


async def test_purges_that_came_later_are_carried_over_as_not_finished(db: Database) -> None:
    def work(tx: Tx) -> tuple[list[dict[str, Any]], list[Any]]:
        tx.many(
            "INSERT INTO purges (tenant, id, what, requested_by, at, finished_at, counts) "
            "VALUES ($1, $2, '{}', 'admin', $3, $4, '{}')",
            [("a", "before", 10, 11), ("a", "at the moment", 20, 21), ("b", "after", 21, 22), ("a", "later", 30, None)],
        )
        later = load.purges_since(tx, 20)
        tx.run("DELETE FROM purges WHERE tenant > ''")
        load.carry_over(tx, later)
        return later, tx.all("SELECT id, at, finished_at FROM purges WHERE tenant > '' ORDER BY at")

    with in_all_tenants():
        later, there = await db.write(work)
    assert [purge["id"] for purge in later] == ["after", "later"]
    assert there == [("after", 21, None), ("later", 30, None)]


async def test_numbers_of_rows_that_are_gone_are_not_given_again(db: Database) -> None:
    columns = (
        "capability", "details", "outcome", "actor", "at", "erased_at", "number", "operation", "reason", "request_id",
        "subject", "tenant",
    )  # fmt: skip
    await filled(db, Nothing(TableStart("audit", tuple(sorted(columns)), 41)))

    def next_number(tx: Tx) -> int:
        sql = (
            "INSERT INTO audit (tenant, at, capability, operation, subject, actor, reason, outcome, request_id, details) "
            "VALUES ('a', 1, '', '', '', '', '', '', '', '') RETURNING number"
        )
        row = tx.one(sql)
        assert row is not None
        return row[0]

    assert await db.write(next_number) == 42


async def test_a_table_that_this_program_does_not_know_is_refused(db: Database) -> None:
    with pytest.raises(NotLoadable, match="songs"):
        await filled(db, Nothing(TableStart("songs", ("name",), None)))
    with pytest.raises(NotLoadable, match="receipts"):
        await filled(db, Nothing(TableStart("receipts", ("tenant", "colour"), None)))
