"""Personal text that is erased, and rows that leave: the rest still verifies, and what is gone is gone."""

import shutil
from pathlib import Path

import orjson
import pytest
from tests.audit.conftest import TENANT, Office

from kho.audit import retention
from kho.audit.settings import AuditSettings
from kho.audit.verification import Removal
from kho.kernel.errors import DatabaseError
from kho.kernel.ports import Database, Tx
from kho.lib.clock import DAY
from kho.storage.migrate import OWN, migrate

TEXTS = "subject, actor, reason, request_id, details"


def erased(tx: Tx, numbers: list[int], now: int = 9) -> None:
    retention.erase(tx, TENANT, numbers, now)


async def test_erased_text_is_gone_and_the_chain_verifies(office: Office) -> None:
    numbers = await office.sealed(5, actor="Nguyễn Văn Minh", also=[("below", {"note": "private"})])
    before = await office.head()
    await office.db.write(lambda tx: erased(tx, numbers[1:3]))
    trail = await office.verify()
    assert (trail.broken, trail.sealed, trail.erased, trail.head) == (0, 5, 2, before)
    *rows, said = await office.all(f"SELECT number, at, operation, {TEXTS} FROM audit ORDER BY number")
    assert (said[2], orjson.loads(said[-1])) == ("erase_text", {"rows": 2, "places": [[2, 3]]})
    assert [(row[0], *row[3:]) for row in rows[1:3]] == [(number, "", "", "", "", "{}") for number in numbers[1:3]]
    assert all(row[1] and row[2] == "update_document" for row in rows)
    assert [row[0] for row in await office.all("SELECT DISTINCT number FROM audit_subjects ORDER BY number")] == [
        numbers[0],
        *numbers[3:],
    ]
    salts = await office.all("SELECT salt FROM audit_links ORDER BY place")
    assert [salt is None for (salt,) in salts] == [False, True, True, False, False]


async def test_nothing_else_of_an_erased_row_can_change(office: Office) -> None:
    [number] = await office.sealed()
    await office.db.write(lambda tx: erased(tx, [number]))
    for change in ("actor = 'somebody'", "at = 1", "erased_at = NULL", "details = '[]'", "erased_at = 10"):
        with pytest.raises(DatabaseError):
            await office.run(f"UPDATE audit SET {change}")
    with pytest.raises(DatabaseError):
        await office.run("DELETE FROM audit")
    await office.tamper("UPDATE audit SET actor = 'somebody'")
    assert await office.broken() == [("altered", number)]


async def test_a_row_without_a_link_keeps_its_text(office: Office) -> None:
    [number] = await office.write()
    with pytest.raises(DatabaseError):
        await office.db.write(lambda tx: erased(tx, [number]))
    await office.sealer.seal_all(TENANT)
    assert await office.all("SELECT actor FROM audit") == [("minh",)]


async def test_text_is_erased_by_age_and_that_is_on_record_once(office: Office) -> None:
    await office.sealed(1_203)
    office.clock.now += 3 * DAY
    young = await office.sealed(2)
    office.settings.keep_text_days = 2
    await office.keep()
    await office.keep()
    trail = await office.verify()
    assert (trail.broken, trail.erased, trail.sealed, trail.unsealed) == (0, 1_203, 1_206, 0)
    said = await office.all("SELECT capability, operation, actor, details FROM audit WHERE capability = 'audit'")
    assert [(row[:3], orjson.loads(row[3])["rows"]) for row in said] == [(("audit", "erase_old_text", ""), 1_203)]
    kept = await office.all("SELECT number FROM audit WHERE actor = 'minh' ORDER BY number")
    assert [number for (number,) in kept] == young


async def test_rows_leave_by_age_and_the_chain_says_where_it_begins(office: Office) -> None:
    await office.sealed(1_203, also=[("below", {})])
    before = await office.head()
    office.clock.now += 3 * DAY
    young = await office.sealed(2)
    office.settings.keep_rows_days = 2
    await office.keep()
    await office.sealer.seal_all(TENANT)
    trail = await office.verify()
    assert (trail.broken, trail.beginning, trail.sealed, trail.unsealed) == (0, before, 3, 0)
    [removal] = trail.removals
    assert (removal.rows, removal.days) == (1_203, 2)
    assert removal.before is not None
    assert removal.before < removal.at
    rows = await office.all("SELECT number, operation, details FROM audit ORDER BY number")
    assert [number for number, _, _ in rows[:2]] == young
    assert rows[2][1] == "remove_old_rows"
    said = orjson.loads(rows[2][2])
    assert (said["rows"], said["place"], said["digest"]) == (1_203, 1_203, before.digest.hex())
    assert await office.all("SELECT count(*) FROM audit_subjects") == [(0,)]
    assert await office.all("SELECT min(place), max(place) FROM audit_links") == [(1_204, 1_206)]
    await office.tamper(f"UPDATE audit SET actor = 'another' WHERE number = {young[0]}")
    assert await office.broken() == [("altered", young[0])]


async def test_rows_leave_again_and_again_until_only_the_last_word_is_left(office: Office) -> None:
    office.settings.keep_rows_days = 2
    for _ in range(3):
        await office.sealed(10)
        office.clock.now += 3 * DAY
        await office.keep()
        await office.sealer.seal_all(TENANT)
        trail = await office.verify()
        assert (trail.broken, trail.sealed) == (0, 1)
    for _ in range(3):  # nothing happens any more: what was said last stays, and nothing is said about it
        office.clock.now += 3 * DAY
        await office.keep()
    assert await office.all("SELECT operation FROM audit") == [("remove_old_rows",)]
    trail = await office.verify()
    assert (trail.broken, trail.beginning.place, trail.sealed) == (0, 32, 1)


async def test_a_removal_that_was_cut_off_is_no_break_and_is_finished(office: Office) -> None:
    await office.sealed(700)
    office.clock.now += 3 * DAY
    place = (await office.head()).place

    def begin(tx: Tx) -> None:
        office.retention._move_beginning(tx, TENANT, place, office.clock())  # pyright: ignore[reportPrivateUsage]

    await office.db.write(begin)  # and then the process was killed
    await office.sealer.seal_all(TENANT)
    assert ((await office.verify()).broken, (await office.verify()).sealed) == (0, 1)
    await office.retention.remove(TENANT, 0)
    assert await office.all("SELECT count(*) FROM audit") == [(1,)]
    assert await office.broken() == []


async def test_without_a_setting_everything_stays(office: Office) -> None:
    assert office.settings == AuditSettings()
    await office.sealed(3)
    office.clock.now += 36_500 * DAY
    await office.keep()
    trail = await office.verify()
    assert (trail.broken, trail.sealed, trail.erased, trail.beginning.place) == (0, 3, 0, 0)


# -- what only looks like it -------------------------------------------------------------------------------------------

FORGED = (
    "UPDATE audit_links SET salt = NULL WHERE number = {0}",
    "UPDATE audit SET subject = '', actor = '', reason = '', request_id = '', details = '{{}}', erased_at = 1 "
    "WHERE number = {0}",
)


async def test_text_that_somebody_else_erased_is_found(office: Office) -> None:
    """The database allows it, with all triggers in place: it cannot know who asks."""
    numbers = await office.sealed(9)
    await office.db.write(lambda tx: erased(tx, numbers[5:7]))
    await office.sealer.seal_all(TENANT)
    assert await office.broken() == []
    for number in (numbers[2], numbers[3], numbers[7]):
        for statement in FORGED:
            await office.run(statement.format(number))
    trail = await office.verify()
    assert trail.erased == 5
    assert [(one.kind, one.place) for one in trail.breaks] == [("altered", 3), ("altered", 8)]
    assert "places 3 to 4" in trail.breaks[0].message


async def test_the_row_that_names_what_was_erased_cannot_be_erased_unseen(office: Office) -> None:
    numbers = await office.sealed(3)
    await office.db.write(lambda tx: erased(tx, numbers[:1]))
    await office.sealer.seal_all(TENANT)
    for statement in FORGED:
        await office.run(statement.format("(SELECT number FROM audit WHERE operation = 'erase_text')"))
    assert [(one.kind, one.place) for one in (await office.verify()).breaks] == [("altered", 1), ("altered", 4)]


async def test_places_of_many_erasures_are_named(office: Office) -> None:
    numbers = await office.sealed(30)
    for some in (numbers[::3], numbers[1::3], numbers[4:9]):
        await office.db.write(lambda tx, some=some: erased(tx, some))
        assert await office.broken() == []  # named by a row that waits
    await office.sealer.seal_all(TENANT)
    trail = await office.verify()
    assert (trail.broken, trail.erased) == (0, 22)
    said = [
        orjson.loads(row[0]) for row in await office.all("SELECT details FROM audit WHERE operation = 'erase_text'")
    ]
    assert [one["rows"] for one in said] == [10, 10, 2]
    assert said[2]["places"] == [[6, 6], [9, 9]]


async def test_a_store_from_before_rows_named_places_is_whole(blank: Database, tmp_path: Path) -> None:
    name, folder = OWN
    before = tmp_path / "before"
    before.mkdir()
    for file in folder.glob("*.sql"):
        if file.name < "015":
            shutil.copy(file, before)
    await migrate(blank, [(name, before)])
    office = Office(blank)
    numbers = await office.sealed(9)
    others = await office.sealed(3, "globex")
    await office.sealed(2, "initech")
    for number in (*numbers[1:4], numbers[6], others[0]):
        for statement in FORGED:
            await office.run(statement.format(number))
    await migrate(blank, [OWN])
    assert await office.broken() == []
    await office.sealer.step()
    assert [await office.broken(tenant) for tenant in (TENANT, "globex", "initech")] == [[], [], []]
    said = await office.all("SELECT tenant, at, details FROM audit WHERE operation = 'erase_text' ORDER BY tenant")
    assert [(tenant, at, orjson.loads(details)) for tenant, at, details in said] == [
        (TENANT, 1, {"rows": 4, "places": [[2, 4], [7, 7]]}),
        ("globex", 1, {"rows": 1, "places": [[1, 1]]}),
    ]
    for statement in FORGED:
        await office.run(statement.format(numbers[7]))
    assert [one.place for one in (await office.verify()).breaks] == [8]


async def test_each_removal_is_told_of(office: Office) -> None:
    """Also one that somebody else made up: the chain cannot tell, but who runs the hub can."""
    numbers = await office.sealed(9)
    [(digest,)] = await office.all("SELECT digest FROM audit_links WHERE place = 5")
    details = orjson.dumps({"place": 5, "digest": bytes(digest).hex(), "before": "no time", "days": "x"}).decode()
    [number] = await office.write(capability="audit", operation="remove_old_rows", details=orjson.loads(details), at=7)
    await office.run(
        "INSERT INTO audit_checkpoints (tenant, place, digest, number, at) "
        f"SELECT tenant, place, digest, {number}, 7 FROM audit_links WHERE place = 5"
    )
    await office.run(f"DELETE FROM audit WHERE number <= {numbers[4]}")
    await office.run("DELETE FROM audit_links WHERE place <= 5")
    await office.sealer.seal_all(TENANT)
    trail = await office.verify()
    assert (trail.broken, trail.beginning.place) == (0, 5)
    assert trail.removals == [Removal(at=7, rows=5)]
    office.clock.now += 3 * DAY
    office.settings.keep_rows_days = 2
    await office.keep()
    newest, forged = (await office.verify()).removals
    assert (newest.rows, newest.days, forged) == (5, 2, Removal(at=7, rows=5))


# -- clocks that were wrong --------------------------------------------------------------------------------------------


async def test_a_row_from_the_future_keeps_no_other(office: Office) -> None:
    await office.sealed(3)
    await office.sealed(1, at=office.clock.now + 999 * DAY)  # a row that says so
    office.clock.now += 999 * DAY
    await office.sealed(2)  # the whole machine
    office.clock.now -= 999 * DAY
    await office.sealed(3)
    office.settings.keep_text_days = 2
    office.clock.now += 3 * DAY
    await office.sealed(2)
    await office.keep()
    trail = await office.verify()
    assert (trail.broken, trail.erased) == (0, 9)
    office.settings.keep_text_days, office.settings.keep_rows_days = None, 2
    office.clock.now += DAY
    await office.keep()
    trail = await office.verify()
    assert (trail.broken, trail.beginning.place) == (0, 9)


async def test_a_row_from_the_future_at_the_end_stays(office: Office) -> None:
    await office.sealed(3)
    office.clock.now += 999 * DAY
    await office.sealed(2)
    office.clock.now -= 996 * DAY
    office.settings.keep_rows_days = 2
    await office.keep()
    assert (await office.verify()).beginning.place == 3
