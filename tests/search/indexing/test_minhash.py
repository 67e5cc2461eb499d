"""Near-duplicates by bands."""

import asyncio
import random
import shutil
from pathlib import Path

import pytest

from kho.experiences import capability as experiences
from kho.kernel.ports import Database, Tx
from kho.research import capability as research
from kho.search.indexing import minhash
from kho.search.indexing.minhash import BANDS, bands, likeness
from kho.storage.migrate import OWN, migrate


def words(seed: int, count: int) -> set[str]:
    chance = random.Random(seed)
    return {f"w{chance.randrange(100_000)}" for _ in range(count)}


def test_equal_words_share_every_band_and_strangers_none() -> None:
    assert bands(words(1, 80)) == bands(words(1, 80))
    assert len(bands(words(1, 80))) == BANDS
    assert not {*bands(words(1, 80))} & {*bands(words(2, 80))}
    assert bands(set()) == []


def test_nine_of_ten_common_words_nearly_always_share_a_band() -> None:
    found = 0
    for seed in range(100):
        one = words(seed, 100)
        other = {*sorted(one)[5:], *words(seed + 1000, 5)}
        assert likeness(one, other) > 0.88
        found += bool({*bands(one)} & {*bands(other)})
    assert found >= 97


def test_likeness_is_the_share_of_common_words() -> None:
    assert likeness({"a", "b"}, {"b", "c"}) == 1 / 3
    assert likeness(set(), set()) == 0


@pytest.mark.parametrize(
    ("slice", "source", "insert", "collection"),
    [
        (
            "experiences",
            experiences.MIGRATIONS,
            "INSERT INTO experience_bands (tenant, band, id) VALUES ('t', $1, 'a')",
            "",
        ),
        (
            "research",
            research.MIGRATIONS,
            "INSERT INTO research_bands (tenant, collection_id, band, document_id) VALUES ('t', 'c', $1, 'a')",
            "c",
        ),
    ],
)
async def test_bands_that_slices_kept_by_themselves_stay(
    blank: Database, tmp_path: Path, slice: str, source: Path, insert: str, collection: str
) -> None:
    first = shutil.ignore_patterns("00[!1]_*")
    await asyncio.to_thread(shutil.copytree, source, tmp_path / "first", ignore=first)
    await migrate(blank, [OWN, (slice, tmp_path / "first")])
    text = bands(words(1, 80))

    def fill(tx: Tx) -> None:
        tx.many(insert, [(band,) for band in text])

    await blank.write(fill)
    await migrate(blank, [OWN, (slice, source)])
    assert await blank.read(lambda tx: minhash.find(tx, slice, "t", collection, text, 10)) == ["a"]
    assert await blank.read(lambda tx: minhash.find(tx, slice, "u", collection, text, 10)) == []
    assert await blank.read(lambda tx: minhash.find(tx, slice, "t", "other", text, 10)) == []
