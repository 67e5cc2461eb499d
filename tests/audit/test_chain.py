"""The chain over the trail: whatever somebody with the database does to rows or links is found, and nothing else is."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.audit.conftest import TENANT, Office

from kho.audit import chain
from kho.audit.chain import Head, TrailRow
from kho.audit.verification import Verification
from kho.kernel.errors import DatabaseError
from kho.kernel.ports import Database, Tx
from kho.storage.migrate import OWN, migrate

# -- the form that is digested -----------------------------------------------------------------------------------------

PARTS = st.lists(st.one_of(st.text(), st.binary(), st.integers()), max_size=6)


@given(PARTS, PARTS)
def test_two_lists_of_fields_never_have_one_form(first: list[Any], second: list[Any]) -> None:
    assert (chain.packed(*first) == chain.packed(*second)) == (
        [(type(part), part) for part in first] == [(type(part), part) for part in second]
    )


TEXTS = st.lists(st.text(max_size=8), min_size=5, max_size=5)
FURTHER = st.lists(st.tuples(st.text(max_size=4), st.text(max_size=4)), max_size=3, unique=True)


@given(TEXTS, FURTHER, TEXTS, FURTHER)
def test_personal_text_cannot_be_shifted_between_fields_and_subjects(
    texts: list[str], further: list[tuple[str, str]], others: list[str], more: list[tuple[str, str]]
) -> None:
    rows = [row_of(texts, further), row_of(others, more)]
    salt = b"s" * chain.SALT_BYTES
    same = (texts, sorted(further)) == (others, sorted(more))
    assert (chain.personal_digest(rows[0], salt) == chain.personal_digest(rows[1], salt)) == same


@given(st.text(max_size=6), st.text(min_size=1, max_size=6))
def test_the_end_of_one_field_cannot_become_the_beginning_of_the_next(kept: str, moved: str) -> None:
    salt = b"s" * chain.SALT_BYTES
    one, other = row_of([kept + moved, kept, "", "", "{}"]), row_of([kept, moved + kept, "", "", "{}"])
    assert chain.personal_digest(one, salt) != chain.personal_digest(other, salt)


def row_of(texts: list[str], further: list[tuple[str, str]] = []) -> TrailRow:  # noqa: B006 (only read)
    subject, actor, reason, request_id, details = texts
    row = TrailRow(1, TENANT, 5, "documents", "update_document", "done", subject, actor, reason, request_id, details)
    return replace(row, further=tuple(further))


def test_the_digests_stay_what_they_are() -> None:
    """A change of the form would break every chain that exists."""
    row = row_of(["d1", "minh", "cũ", "r1", '{"a":1}'], [("d2", "{}"), ("d0", '{"b":2}')])
    link = chain.made(row, Head(), bytes(range(16)), 7)
    assert (link.personal.hex(), link.content.hex(), link.digest.hex()) == (PERSONAL, CONTENT, DIGEST)
    assert chain.made(replace(row, further=row.further[::-1]), Head(), bytes(range(16)), 7) == link


PERSONAL = "5f43be4c0912c8792dc7a3156d96e50f51707a1a89b39b0331b9ade98648cace"
CONTENT = "88c1138a1eb9147d9967cc64db0e50bf20fe29719de25346c6d770e048f3067c"
DIGEST = "eefd52447821a034161e0a2a1ca269f7ec152afaaf755683248a56d8902b868d"


# -- what is sealed ----------------------------------------------------------------------------------------------------


async def test_an_untouched_trail_is_whole_and_its_tail_waits(office: Office) -> None:
    assert (await office.verify()).broken == 0
    await office.sealed(450, also=[("below", {"deleted_with": "d"})])
    await office.write(3)
    trail = await office.verify()
    assert (trail.broken, trail.sealed, trail.unsealed, trail.erased) == (0, 450, 3, 0)
    assert trail.head == await office.head()
    await office.sealer.step()
    trail = await office.verify()
    assert (trail.broken, trail.sealed, trail.unsealed, trail.head.place) == (0, 453, 0, 453)


async def test_each_tenant_has_a_chain_of_its_own(office: Office) -> None:
    for tenant in ("acme", "globex", "acme"):
        await office.write(2, tenant)
    await office.sealer.step()
    places = await office.all("SELECT tenant, place FROM audit_links ORDER BY tenant, place")
    assert places == [("acme", 1), ("acme", 2), ("acme", 3), ("acme", 4), ("globex", 1), ("globex", 2)]
    assert [await office.broken(tenant) for tenant in ("acme", "globex", "nobody")] == [[], [], []]


async def test_a_trail_from_before_the_chain_is_sealed(blank: Database, tmp_path: Path) -> None:
    name, folder = OWN
    for file in folder.iterdir():
        if file.name < "012":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    await migrate(blank, [(name, tmp_path)])
    office = Office(blank)
    numbers = await office.write(3, also=[("below", {"a": 1})])
    await migrate(blank, [OWN])
    assert (await office.verify()).unsealed == 3
    await office.sealer.step()
    trail = await office.verify()
    assert (trail.broken, trail.sealed, trail.unsealed) == (0, 3, 0)
    await office.tamper(f"UPDATE audit SET reason = 'another' WHERE number = {numbers[0]}")
    assert await office.broken() == [("altered", numbers[0])]


async def test_a_row_that_is_added_by_hand_is_sealed_like_any_other(office: Office) -> None:
    [number] = await office.sealed()
    columns = "tenant, at, capability, operation, subject, actor, reason, outcome, request_id, details"
    await office.run(f"INSERT INTO audit ({columns}) SELECT {columns} FROM audit WHERE number = {number}")
    assert (await office.verify()).unsealed == 1
    await office.sealer.step()
    trail = await office.verify()
    assert (trail.broken, trail.sealed) == (0, 2)


# -- what the database refuses -----------------------------------------------------------------------------------------

REFUSED = [
    "UPDATE audit SET actor = 'nobody'",
    "UPDATE audit SET at = at + 1",
    "UPDATE audit SET subject = '', actor = '', reason = '', request_id = '', details = '{}', erased_at = 1",
    "DELETE FROM audit",
    "UPDATE audit_subjects SET details = ''",
    "DELETE FROM audit_subjects",
    "UPDATE audit_links SET place = place + 100",
    "UPDATE audit_links SET salt = NULL, personal = digest",
    "DELETE FROM audit_links",
    "INSERT INTO audit_checkpoints (tenant, place, digest, number, at) SELECT tenant, place, personal, 1, 1 FROM audit_links",
    "DELETE FROM audit_unsealed",
    "UPDATE audit_unsealed SET number = 99",
]


@pytest.mark.parametrize("statement", REFUSED)
async def test_the_database_refuses_what_is_neither_adding_nor_erasing(office: Office, statement: str) -> None:
    await office.sealed(also=[("below", {})])
    await office.write()
    with pytest.raises(DatabaseError):
        await office.run(statement)
    assert await office.broken() == []


async def test_a_checkpoint_stays(office: Office) -> None:
    await office.sealed(3)
    office.clock.now += 10
    await office.retention.remove(TENANT, office.clock())
    for statement in ("DELETE FROM audit_checkpoints", "UPDATE audit_checkpoints SET place = 1"):
        with pytest.raises(DatabaseError):
            await office.run(statement)


async def test_replacing_a_row_is_refused_too(office: Office) -> None:
    if office.db.engine == "postgres":
        pytest.skip("PostgreSQL has no INSERT OR REPLACE")
    await office.sealed()
    for table in ("audit", "audit_links"):
        with pytest.raises(DatabaseError):
            await office.run(f"INSERT OR REPLACE INTO {table} SELECT * FROM {table}")
    assert await office.broken() == []


# -- what is found when the triggers are gone --------------------------------------------------------------------------

COLUMNS = ("at", "capability", "operation", "subject", "actor", "reason", "outcome", "request_id", "details")


@pytest.mark.parametrize("column", COLUMNS)
async def test_a_changed_field_is_found(office: Office, column: str) -> None:
    numbers = await office.sealed(5)
    value = "at + 1" if column == "at" else "'another'"
    await office.tamper(f"UPDATE audit SET {column} = {value} WHERE number = {numbers[2]}")
    assert await office.broken() == [("altered", numbers[2])]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit_subjects SET subject = 'e' WHERE number = {0}",
        "UPDATE audit_subjects SET details = '[]' WHERE number = {0}",
        "DELETE FROM audit_subjects WHERE number = {0}",
        "INSERT INTO audit_subjects (tenant, subject, number, details) VALUES ('acme', 'f', {0}, '{{}}')",
        "UPDATE audit SET erased_at = 5 WHERE number = {0}",
        "UPDATE audit SET tenant = 'globex' WHERE number = {0}",
        "UPDATE audit_links SET salt = NULL WHERE number = {0}",
        "UPDATE audit_links SET personal = digest WHERE number = {0}",
        "UPDATE audit_links SET content = digest WHERE number = {0}",
        "UPDATE audit_links SET sealed_at = 5 WHERE number = {0}",
        "UPDATE audit_links SET digest = content WHERE number = {0}",
    ],
)
async def test_a_change_of_what_belongs_to_a_row_is_found(office: Office, statement: str) -> None:
    numbers = await office.sealed(5, also=[("below", {"a": 1})])
    await office.tamper(statement.format(numbers[2]))
    assert numbers[2] in [number for _, number in await office.broken()]


async def test_a_deleted_row_is_found_with_its_link_and_without(office: Office) -> None:
    numbers = await office.sealed(9)
    await office.tamper(f"DELETE FROM audit WHERE number = {numbers[2]}")
    assert await office.broken() == [("missing", numbers[2])]
    await office.tamper(
        f"DELETE FROM audit WHERE number = {numbers[5]}", f"DELETE FROM audit_links WHERE number = {numbers[5]}"
    )
    assert await office.broken() == [("missing", numbers[2]), ("missing", 0)]
    assert [one.place for one in (await office.verify()).breaks] == [3, 6]


async def test_rows_deleted_at_the_beginning_or_before_they_were_sealed_are_found(office: Office) -> None:
    numbers = await office.sealed(4)
    [late] = await office.write()
    await office.tamper(
        f"DELETE FROM audit WHERE number <= {numbers[1]}", f"DELETE FROM audit_links WHERE number <= {numbers[1]}"
    )
    assert await office.broken() == [("missing", 0)]
    await office.tamper(f"DELETE FROM audit WHERE number = {late}")
    await office.sealer.step()
    assert await office.broken() == [("missing", 0), ("missing", late)]


async def test_a_made_up_checkpoint_does_not_hide_what_was_deleted(office: Office) -> None:
    numbers = await office.sealed(4)
    await office.tamper(
        "INSERT INTO audit_checkpoints (tenant, place, digest, number, at) "
        "SELECT tenant, place, digest, number, 5 FROM audit_links WHERE place = 2",
        f"DELETE FROM audit WHERE number <= {numbers[1]}",
        f"DELETE FROM audit_links WHERE number <= {numbers[1]}",
    )
    assert await office.broken() == [("missing", numbers[1])]


async def test_an_inserted_row_is_found(office: Office) -> None:
    numbers = await office.sealed(4)
    columns = "tenant, at, capability, operation, subject, actor, reason, outcome, request_id, details"
    await office.tamper(
        f"INSERT INTO audit (number, {columns}) SELECT 1000, {columns} FROM audit WHERE number = {numbers[1]}"
    )
    assert await office.broken() == [("inserted", 1000)]


async def test_exchanged_rows_are_found(office: Office) -> None:
    numbers = await office.sealed(6)
    first, second = numbers[1], numbers[4]
    await office.tamper(
        f"UPDATE audit SET number = 1000 WHERE number = {first}",
        f"UPDATE audit SET number = {first} WHERE number = {second}",
        f"UPDATE audit SET number = {second} WHERE number = 1000",
    )
    assert await office.broken() == [("reordered", first), ("reordered", second)]


async def test_exchanged_links_are_found(office: Office) -> None:
    numbers = await office.sealed(9)
    await office.tamper(
        "UPDATE audit_links SET place = 1000 WHERE place = 3",
        "UPDATE audit_links SET place = 3 WHERE place = 7",
        "UPDATE audit_links SET place = 7 WHERE place = 1000",
    )
    found = {number: kind for kind, number in await office.broken()}
    assert found[numbers[2]] == found[numbers[6]] == "reordered"


async def test_a_link_made_anew_does_not_fit_the_next(office: Office) -> None:
    """What somebody does who has read how links are made: only the whole rest made anew would fit."""
    numbers = await office.sealed(5)
    await office.tamper(f"UPDATE audit SET actor = 'somebody else' WHERE number = {numbers[2]}")

    def forge(tx: Tx) -> None:
        [link] = chain.links_after(tx, TENANT, 2, 1)
        [before] = chain.links_after(tx, TENANT, 1, 1)
        row = chain.rows_of(tx, TENANT, [link.number])[link.number]
        forged = chain.made(row, Head(before.place, before.digest), link.salt or b"", link.sealed_at)
        tx.run(
            "UPDATE audit_links SET personal = $1, content = $2, digest = $3 WHERE number = $4",
            forged.personal,
            forged.content,
            forged.digest,
            link.number,
        )

    await office.db.write(forge)
    assert await office.broken() == [("unlinked", numbers[3])]


async def test_many_breaks_are_all_counted(office: Office) -> None:
    await office.sealed(250)
    await office.tamper("UPDATE audit SET actor = 'nobody'")
    assert [kind for kind, _ in await office.broken()] == ["altered"] * 250


async def test_rows_that_leave_meanwhile_are_no_break(office: Office) -> None:
    await office.sealed(1_200)
    await office.sealed(3)
    office.clock.now += 10

    class Leaving:
        """The same database; the rows leave after the first batch was read."""

        engine = office.db.engine
        reads = 0

        async def read(self, work: Any, **more: Any) -> Any:
            self.reads += 1
            if self.reads == 3:
                await office.retention.remove(TENANT, office.clock())
            return await office.db.read(work, **more)

    trail = await chain_verification(Leaving())
    assert (trail.broken, trail.beginning.place, trail.sealed) == (0, 1_203, 0)
    assert trail.unsealed == 1  # the row that says so


async def chain_verification(db: Any) -> Any:
    async def progress(done: int, total: int) -> None:
        return None

    return await Verification(db, TENANT).run(progress)
