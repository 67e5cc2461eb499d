"""Personal text that is erased, and rows that leave: the rest still verifies, and what is gone is gone."""

import orjson
import pytest
from tests.audit.conftest import TENANT, Office

from kho.audit import retention
from kho.audit.settings import AuditSettings
from kho.kernel.errors import DatabaseError
from kho.kernel.ports import Tx
from kho.lib.clock import DAY

TEXTS = "subject, actor, reason, request_id, details"


def erased(tx: Tx, numbers: list[int], now: int = 9) -> None:
    retention.erase(tx, TENANT, numbers, now)


async def test_erased_text_is_gone_and_the_chain_verifies(office: Office) -> None:
    numbers = await office.sealed(5, actor="Nguyễn Văn Minh", also=[("below", {"note": "private"})])
    before = await office.head()
    await office.db.write(lambda tx: erased(tx, numbers[1:3]))
    trail = await office.verify()
    assert (trail.broken, trail.sealed, trail.erased, trail.head) == (0, 5, 2, before)
    rows = await office.all(f"SELECT number, at, operation, {TEXTS} FROM audit ORDER BY number")
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
    await office.sealer.step()
    await office.sealer.step()
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
    await office.sealer.step()
    await office.sealer.seal_all(TENANT)
    trail = await office.verify()
    assert (trail.broken, trail.beginning, trail.sealed, trail.unsealed) == (0, before, 3, 0)
    assert trail.removed_at is not None
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
        await office.sealer.step()
        await office.sealer.seal_all(TENANT)
        trail = await office.verify()
        assert (trail.broken, trail.sealed) == (0, 1)
    for _ in range(3):  # nothing happens any more: what was said last stays, and nothing is said about it
        office.clock.now += 3 * DAY
        await office.sealer.step()
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
    await office.sealer.step()
    trail = await office.verify()
    assert (trail.broken, trail.sealed, trail.erased, trail.beginning.place) == (0, 3, 0, 0)
