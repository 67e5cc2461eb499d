"""What is refused changes nothing: damaged and newer backups, stores that are not empty, stores that others have open."""

import random
from pathlib import Path

import pytest
from tests.backup.stores import backups, content_of, remember, restored
from tests.stores.kept import settings_of

from kho.app import open_hub
from kho.kernel.errors import KhoError
from kho.settings import Settings
from kho.storage.backup.format import DamagedBackup, NewerBackup
from kho.storage.sqlite.connection import connect

FLIPS = 60


@pytest.fixture(params=["sqlite", "postgres"])
async def target(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """A store that holds something."""
    url = None if request.param == "sqlite" else request.getfixturevalue("postgres_schema_url")
    settings = settings_of(tmp_path / "target", url)
    async with open_hub(settings) as hub:
        await remember(hub, settings, "What was there before")
    return settings


@pytest.fixture
async def file(tmp_path: Path) -> Path:
    settings = settings_of(tmp_path / "source", None)
    async with open_hub(settings) as hub:
        for number in range(20):
            await remember(hub, settings, f"Fact {number} of the backup")
    backups(settings).save(tmp_path / "kho.backup", lambda done, total: None)
    return tmp_path / "kho.backup"


def read(path: Path) -> bytes:
    return path.read_bytes()


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


async def test_damaged_backups_are_refused_and_nothing_is_changed(target: Settings, file: Path) -> None:
    before, whole = content_of(target), read(file)
    chance = random.Random(17)
    bad = file.with_name("bad.backup")
    for _ in range(FLIPS):
        changed = bytearray(whole)
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
        bad.write_bytes(changed)
        with pytest.raises((DamagedBackup, NewerBackup), match="Nothing was changed"):
            await restored(target, bad, replace=True)
        bad.write_bytes(whole[: chance.randrange(len(whole))])
        with pytest.raises(DamagedBackup, match="Nothing was changed"):
            await restored(target, bad, replace=True)
    assert content_of(target) == before
    assert [path.name for path in target.home.glob("*before-restore*")] == []


async def test_a_newer_backup_is_refused_in_one_sentence(
    target: Settings, file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = content_of(target)
    source = settings_of(tmp_path / "source", None)
    connection = connect(str(source.home / "kho.db"))
    connection.execute("INSERT INTO migrations VALUES ('facts', 999, 'later', 'ab', 1)")
    connection.close()
    newer = tmp_path / "newer.backup"
    backups(source).save(newer, lambda done, total: None)
    with pytest.raises(NewerBackup, match=r"made by a newer Kho .*facts/999.*Upgrade Kho"):
        await restored(target, newer, replace=True)
    assert content_of(target) == before


async def test_a_store_that_holds_something_is_only_replaced_when_that_is_said(target: Settings, file: Path) -> None:
    before = content_of(target)
    with pytest.raises(KhoError, match=r"not empty: .*facts.*--replace"):
        await restored(target, file)
    assert content_of(target) == before
    answer = await restored(target, file, replace=True)
    assert content_of(target)["facts"].total() == 20
    # The copy that was kept brings back what was there.
    copy = Path(answer["before"])
    assert mode(copy) == 0o600
    if target.database_url is None:
        (target.home / "kho.db").write_bytes(read(copy))
    else:
        await restored(target, copy, replace=True)
    assert content_of(target)["facts"] == before["facts"]


async def test_a_store_that_a_hub_has_open_is_left_alone(target: Settings, file: Path) -> None:
    async with open_hub(target) as hub:
        await remember(hub, target, "It runs")
        before = content_of(target)
        if target.database_url is None:
            with pytest.raises(KhoError, match=r"has this store open. Nothing was changed. Stop it"):
                await restored(target, file, replace=True)
        assert content_of(target) == before
        await remember(hub, target, "It still runs")


async def test_a_damaged_file_is_replaced_and_kept(tmp_path: Path, file: Path) -> None:
    settings = settings_of(tmp_path / "broken", None)
    settings.home.mkdir()
    (settings.home / "kho.db").write_bytes(b"no database at all" * 1_000)
    with pytest.raises(KhoError, match=r"damaged file.*--replace"):
        await restored(settings, file)
    answer = await restored(settings, file, replace=True)
    assert read(Path(answer["before"])) == b"no database at all" * 1_000
    assert content_of(settings)["facts"].total() == 20


async def test_another_programs_database_is_left_alone(tmp_path: Path, file: Path) -> None:
    settings = settings_of(tmp_path / "foreign", None)
    settings.home.mkdir()
    connection = connect(str(settings.home / "kho.db"))
    connection.execute("CREATE TABLE songs (name TEXT)")
    connection.close()
    before = read(settings.home / "kho.db")
    with pytest.raises(KhoError, match="another program"):
        await restored(settings, file, replace=True)
    with pytest.raises(KhoError, match="another program"):
        backups(settings).save(tmp_path / "foreign.backup", lambda done, total: None)
    assert read(settings.home / "kho.db") == before
    assert not (tmp_path / "foreign.backup").exists()
