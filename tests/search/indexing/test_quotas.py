"""What a tenant may keep: counted exactly, whatever is written, moved and deleted, also by many at once."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.search.conftest import Core, doc

from kho import storage
from kho.kernel.limits.allowance import UNMETERED
from kho.kernel.limits.quotas import QuotaReached, Quotas
from kho.kernel.limits.settings import LimitSettings
from kho.kernel.ports import Tx
from kho.search.indexing import passages
from kho.search.indexing.index import Document, prepare

MIGRATION = next(Path(storage.__path__[0]).glob("migrations/*_usage.sql"))


def counted(tx: Tx, tenant: str) -> tuple[int, int]:
    """What there is, read from the passages themselves."""
    keys = tx.all("SELECT DISTINCT space, collection, key FROM passages WHERE tenant = $1", tenant)
    texts = tx.all("SELECT text FROM passages WHERE tenant = $1", tenant)
    return len(keys), sum(len(row[0].encode()) for row in texts)


async def usage(core: Core, tenant: str = "t") -> tuple[int, int]:
    kept, there = await core.db.read(lambda tx: (passages.usage(tx, tenant), counted(tx, tenant)))
    assert kept == there
    return kept


def limited(core: Core, **quotas: int) -> None:
    core.index.quotas = Quotas(LimitSettings(**quotas), exempt="mine")


async def test_documents_and_bytes_are_counted_whatever_happens_to_them(core: Core) -> None:
    rng = random.Random(7)
    assert await usage(core) == (0, 0)
    for _ in range(60):
        key, collection = rng.choice("abcdef"), rng.choice(["", "c"])
        key, space = f"{key}{collection}", rng.choice(["s", "r"])
        texts = [f"đoạn {rng.randrange(9)}" for _ in range(rng.randrange(4))]
        one = doc(key, *texts, collection=collection, space=space, tenant=rng.choice("tu"))
        if rng.random() < 0.3:
            await core.drop(key, tenant=one.tenant, collection=collection)
        else:
            await core.put(one, anew=rng.random() < 0.3)
        await usage(core)
        await usage(core, "u")


async def test_a_move_to_another_collection_counts_nothing(core: Core) -> None:
    await core.put(doc("a", "one", "two", collection="from"))
    before = await usage(core)
    await core.put(doc("a", "one", "two", collection="to"), moved_from="from")
    assert await usage(core) == before == (1, 6)


async def test_what_was_there_before_is_counted_by_the_migration(core: Core) -> None:
    await core.put(doc("a", "một", "hai"), doc("b", "ba", tenant="u"), doc("c", "bốn", collection="x"))
    [insert] = [part for part in MIGRATION.read_text("utf-8").split(";") if "INSERT" in part]

    def again(tx: Tx) -> None:
        tx.run("DELETE FROM search_versions WHERE shard > 0")
        tx.run("UPDATE search_versions SET items = 0, bytes = 0")
        tx.script(insert)

    await core.db.write(again)
    assert await usage(core) == (2, 13)
    assert await usage(core, "u") == (1, 2)


async def refused(core: Core, *documents: Document) -> QuotaReached:
    before = await core.all("SELECT seq, key, text FROM passages ORDER BY seq")
    with pytest.raises(QuotaReached) as caught:
        await core.put(*documents)
    assert await core.all("SELECT seq, key, text FROM passages ORDER BY seq") == before
    return caught.value


async def test_over_the_quota_of_items_nothing_is_stored(core: Core) -> None:
    limited(core, items=2)
    await core.put(doc("a", "one"), doc("b", "two"))
    error = await refused(core, doc("c", "three"))
    assert (error.code, error.status, error.retry_after) == ("QUOTA_REACHED", 429, 3600)
    assert error.message == (
        "The quota of 2 documents, facts, messages and records of one tenant is reached. Nothing was stored."
    )
    assert "KHO_LIMITS__ITEMS" in error.guidance
    await core.put(doc("a", "longer than before", "and more"))
    await core.put(doc("x", "1", tenant="u"))
    await core.put(*(doc(str(number), "text", tenant="mine") for number in range(5)))
    await core.drop("b")
    await core.put(doc("c", "three"))
    assert (await usage(core))[0] == 2


async def test_over_the_quota_of_bytes_nothing_is_stored(core: Core) -> None:
    limited(core, bytes=20)
    await core.put(doc("a", "x" * 15))
    error = await refused(core, doc("b", "đ" * 3))
    assert error.details["setting"] == "KHO_LIMITS__BYTES"
    await core.put(doc("b", "x" * 5))
    await refused(core, doc("a", "x" * 16))
    await core.put(doc("a", "x" * 2))
    await core.put(doc("b", "x" * 18))


async def test_a_key_has_quotas_in_the_tenant_of_this_machine_s_user_too(core: Core) -> None:
    limited(core, items=1)
    mine = [prepare(doc(str(number), "text", tenant="mine")) for number in range(3)]
    for one in mine[:2]:
        await core.db.write(lambda tx, one=one: core.index.put(tx, [one]))
    with pytest.raises(QuotaReached):
        await core.db.write(lambda tx: core.index.put(tx, [replace(mine[2], allowance=UNMETERED)]))


async def test_what_is_kept_beside_the_index_counts_until_it_is_gone(core: Core) -> None:
    limited(core, bytes=20)
    await core.put(doc("a", "x" * 10))
    await core.db.write(lambda tx: core.index.count(tx, "s/revisions", "t", 10))
    with pytest.raises(QuotaReached):
        await core.db.write(lambda tx: core.index.count(tx, "s/revisions", "t", 1))
    await refused(core, doc("b", "x"))
    await core.db.write(lambda tx: core.index.count(tx, "s/revisions", "t", -10))
    await core.put(doc("b", "x"))
    assert await usage(core) == (2, 11)


async def test_a_lowered_quota_lets_things_become_less(core: Core) -> None:
    await core.put(doc("a", "x" * 50), doc("b", "y" * 50))
    limited(core, items=1, bytes=10)
    await refused(core, doc("c", "z"))
    await core.put(doc("a", "x" * 20))
    await core.drop("b")
    assert await usage(core) == (1, 20)


async def test_what_is_indexed_again_is_not_refused(core: Core) -> None:
    await core.put(doc("a", "x" * 50))
    limited(core, items=1, bytes=10)
    await core.put(doc("a", "x" * 60), anew=True)
    assert await usage(core) == (1, 60)
    await refused(core, doc("a", "x" * 61))


async def test_many_at_once_do_not_exceed_it_together(core: Core) -> None:
    limited(core, items=10)

    async def put(number: int) -> bool:
        document = prepare(replace(doc(str(number), "text"), space=f"s{number % 3}"))
        try:
            await core.db.write(lambda tx: core.index.put(tx, [document]))
        except QuotaReached:
            return False
        return True

    stored: Sequence[bool] = await asyncio.gather(*map(put, range(40)))
    assert sum(stored) == 10
    assert (await usage(core))[0] == 10
