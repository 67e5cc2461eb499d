"""A backup that is made while sixteen write is one moment of the store, and comes back as that on either database."""

import asyncio
from pathlib import Path

import pytest
from tests.backup.stores import (
    Content,
    backups,
    content,
    content_of,
    differing,
    found,
    quiet,
    remember,
    restored,
    snapshot,
    written_to,
)
from tests.stores.kept import Kept, all_kept, replay, settings_of
from tests.timeouts import PATIENCE

from kho import __version__
from kho.app import open_hub, opened
from kho.doctor import examine
from kho.lib.clock import system_clock
from kho.settings import Settings
from kho.storage.backup import dump
from kho.storage.backup.format import Source, VectorBatch

ENGINES = ["sqlite", "postgres"]


def store(engine: str, home: Path, request: pytest.FixtureRequest, fixture: str = "postgres_schema_url") -> Settings:
    return settings_of(home, None if engine == "sqlite" else request.getfixturevalue(fixture))


async def more_than(done: list[str], count: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while len(done) <= count:  # noqa: ASYNC110  # what the writers did is looked at, not told
            await asyncio.sleep(0.01)


def backed_up(settings: Settings, file: Path) -> Content:
    """Back up, and return every row of the same moment."""
    with snapshot(settings) as view, file.open("wb") as out:
        before = content(view)
        dump.write(dump.Dump(view, __version__, system_clock), out, quiet)
        assert content(view) == before
    return before


@pytest.mark.parametrize("target", ENGINES)
@pytest.mark.parametrize("source", ENGINES)
async def test_what_is_written_to_comes_back_as_it_was_at_one_moment(
    source: str, target: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    # A store with rows in every table.
    kept = [one for one in all_kept() if one.database == source][-1]
    url = None if source == "sqlite" else request.getfixturevalue("postgres_schema_url")
    settings = kept.unpack(tmp_path / "from", url)
    file = tmp_path / "kho.backup"
    async with written_to(settings) as done:
        await more_than(done, 40)
        before = await asyncio.to_thread(backed_up, settings, file)
        await more_than(done, len(done) + 40)
    assert differing(before, content_of(settings)), "nobody wrote meanwhile"
    other = store(target, tmp_path / "to", request, "another_schema_url")
    answer = await restored(other, file)
    assert answer["vectors_wait"] is False
    assert differing(before, content_of(other)) == []
    assert before["facts"].total() > 40
    checked = await examine(other, repair=False, progress=quiet)
    assert (checked["wrong"], checked["problem"], checked["current"]) == ([], None, True)
    # Facts that were written a moment before may still have waited for their vectors.
    assert checked["pending"] <= before["facts"].total()
    async with open_hub(other) as hub:
        assert await found(hub, other, "writers") != []
        # Numbers go on, and the audit trail takes the next row.
        await remember(hub, other, "Something new after the restore")
        assert "Something new after the restore" in await found(hub, other, "something new restore")


OTHER = {"sqlite": "postgres", "postgres": "sqlite"}
OLDER = [
    *((kept, OTHER[kept.database]) for kept in all_kept()),
    *((kept, kept.database) for kept in all_kept() if kept.name == all_kept()[0].name),
]


@pytest.mark.parametrize(("kept", "target"), OLDER, ids=lambda one: str(one))
async def test_a_backup_of_an_older_store_is_brought_up_to_date(
    kept: Kept, target: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = None if kept.database == "sqlite" else request.getfixturevalue("postgres_schema_url")
    settings = kept.unpack(tmp_path / "from", url)
    file = tmp_path / "kho.backup"
    backups(settings).save(file, quiet)  # opens nothing, so it is as old as it was
    other = store(target, tmp_path / "to", request, "another_schema_url")
    await restored(other, file)
    restored_rows = content_of(other)
    async with opened(settings):
        pass  # brings the original up to date
    # The restored one is also indexed as this version does it, which the original will be when a hub starts.
    assert {*differing(content_of(settings), restored_rows)} <= {"passages", "search_state", "search_versions"}
    assert await replay(other, kept.recorded(), "exchanges") == []
    checked = await examine(other, repair=False, progress=quiet)
    assert (checked["wrong"], checked["problem"]) == ([], None)


async def test_vectors_come_along(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    kept = [one for one in all_kept() if one.database == "sqlite"][-1]
    settings = kept.unpack(tmp_path / "from")
    file = tmp_path / "kho.backup"
    made = backups(settings).save(file, quiet)
    assert made["vectors"] == made["tables"]["passages"]["rows"] > 0
    for engine in ENGINES:
        other = store(engine, tmp_path / engine, request)
        await restored(other, file)
        checked = await examine(other, repair=False, progress=quiet)
        assert checked["pending"] == 0
        with snapshot(other) as view:
            again = dump.Dump(view, __version__, system_clock)
            copies = halves(again)
        with snapshot(settings) as view:
            first = dump.Dump(view, __version__, system_clock)
            assert copies == halves(first) != {}


def halves(source: Source) -> dict[int, bytes]:
    size = 2 * source.start.dimension
    batches = [batch for batch in source.batches() if isinstance(batch, VectorBatch)]
    return {
        seq: batch.halves[place * size : (place + 1) * size]
        for batch in batches
        for place, seq in enumerate(batch.seqs)
    }
