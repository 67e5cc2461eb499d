"""Rows described once: what is written comes back, on both databases."""

from dataclasses import dataclass, replace

from kho.kernel.ports import Database
from kho.lib import sql
from kho.lib.sql import Table


@dataclass(frozen=True)
class Book:
    id: str
    title: str
    tags: list[str]
    lent: bool
    note: str | None = None


BOOKS = Table("sql_books", Book, json=("tags", "note"), flags=("lent",), names={"title": "heading"})
TEA = Book("b1", "Trà", ["uống", "茶"], True)
SALT = Book("b2", "Salt", [], False, "n")


async def make(db: Database) -> None:
    columns = "tenant TEXT, id TEXT, heading TEXT, tags TEXT, lent INTEGER, note TEXT, PRIMARY KEY (tenant, id)"
    await db.write(lambda tx: tx.script(f"DROP TABLE IF EXISTS sql_books; CREATE TABLE sql_books ({columns})"))
    await db.write(lambda tx: BOOKS.insert_many(tx, [TEA, SALT], tenant="t"))


async def kept(db: Database) -> list[Book]:
    return BOOKS.read_all(await db.read(lambda tx: tx.all(f"SELECT {BOOKS.columns} FROM sql_books ORDER BY id")))


async def test_rows_come_back_as_they_were_written(blank: Database) -> None:
    await make(blank)
    assert await kept(blank) == [TEA, SALT]


async def test_a_row_that_is_there_is_replaced_or_left_alone(blank: Database) -> None:
    await make(blank)
    lent = replace(SALT, lent=True, tags=["white"])

    assert await blank.write(lambda tx: BOOKS.insert(tx, lent, conflict=sql.NOTHING, tenant="t")) == 0
    assert await kept(blank) == [TEA, SALT]

    conflict = sql.replacing("tenant, id", "lent", "tags")
    assert await blank.write(lambda tx: BOOKS.insert(tx, lent, conflict=conflict, tenant="t")) == 1
    assert await kept(blank) == [TEA, lent]


async def test_update_and_delete_touch_only_the_key(blank: Database) -> None:
    await make(blank)
    changes = BOOKS.write(replace(TEA, title="Chè"), only=("title", "tags"))
    assert await blank.write(lambda tx: sql.update(tx, "sql_books", changes, tenant="t", id="b1")) == 1
    assert await blank.write(lambda tx: sql.update(tx, "sql_books", changes, tenant="other", id="b1")) == 0
    assert await kept(blank) == [replace(TEA, title="Chè"), SALT]
    assert await blank.write(lambda tx: sql.delete(tx, "sql_books", tenant="t", id="b2")) == 1
    assert [book.id for book in await kept(blank)] == ["b1"]


async def test_more_values_than_one_list_takes_are_asked_for_in_several(blank: Database) -> None:
    await make(blank)
    ids = [f"x{number}" for number in range(sql.BATCH)] + ["b2"]
    rows = await blank.read(lambda tx: sql.among(tx, "SELECT id FROM sql_books WHERE tenant = $1 AND id", ids, "t"))
    assert rows == [("b2",)]
    assert await blank.read(lambda tx: sql.among(tx, "SELECT id FROM sql_books WHERE id", [])) == []


def test_conditions_without_a_value_are_left_out() -> None:
    assert sql.where({"at >=": 5, "actor =": None, "at <": 9}, first=2) == ("at >= $2 AND at < $3", [5, 9])


def test_a_digest_tells_parts_apart() -> None:
    assert sql.digest("ab", "c") != sql.digest("a", "bc")
    assert sql.digest("a", "b") == sql.digest("a", "b")
