"""`kho backup` and `kho restore` as an operator types them, in real processes."""

import json
from pathlib import Path

import pytest
from tests.acceptance.kills import Load, half_applied, ids_in
from tests.acceptance.processes import Hub, Place, until

from kho.storage.backup.files import kept


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    url = None if request.param == "sqlite" else request.getfixturevalue("postgres_schema_url")
    return Place(tmp_path / "home", url)


def done(place: Place, *arguments: str, stdin: bytes = b"") -> str:
    finished = place.run(*arguments, stdin=stdin)
    assert finished.returncode == 0, finished
    return finished.stdout.decode()


def refused(place: Place, *arguments: str, stdin: bytes = b"") -> str:
    finished = place.run(*arguments, stdin=stdin)
    assert finished.returncode == 1, finished
    return finished.stderr.decode() + finished.stdout.decode()


def test_a_backup_under_load_is_restored_on_the_other_database(
    place: Place, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    other = Place(tmp_path / "other", None)
    if place.database_url is None:
        other = Place(tmp_path / "other", request.getfixturevalue("another_schema_url"))
    file = tmp_path / "kho.backup"
    with Hub(place).ready() as hub:
        loads = [Load(hub.port), Load(hub.port)]  # eight clients each
        for load in loads:
            load.start()
        until(lambda: all(len(load.acknowledged) > 20 for load in loads), "some answers", hub.process)
        acknowledged = [one for load in loads for one, _ in load.acknowledged]
        made = json.loads(done(place, "backup", str(file), "--json"))
        until(lambda: sum(len(load.acknowledged) for load in loads) > 2 * len(acknowledged), "more", hub.process)
        # A hub that runs is not restored over.
        assert "Stop it, then try again" in refused(place, "restore", str(file), "--replace", "--yes")
        hub.kill()
        for load in loads:
            load.join()
    assert made["tables"]["experiences"]["rows"] >= len(acknowledged)
    assert file.stat().st_mode & 0o777 == 0o600
    done(other, "restore", str(file))
    assert half_applied(other) == []
    assert len(ids_in(other)) == made["tables"]["experiences"]["rows"] < len(ids_in(place))
    for one in acknowledged[:3]:
        assert one.word in done(other, "experiences", "query", one.word)
    assert "No passage waits" in (said := done(other, "doctor")) or "keyword search only" in said
    done(other, "audit", "verify")


def test_through_pipes_and_back(place: Place, tmp_path: Path) -> None:
    done(place, "remember", "Pipes carry it")
    through = place.run("backup", "--to", "-").stdout
    other = Place(tmp_path / "other")
    assert "Nothing was changed" in refused(other, "restore", "-", stdin=through[:-1])
    assert not (other.home / "kho.db").exists()
    assert "Restored into" in done(other, "restore", "-", stdin=through)
    assert "Pipes carry it" in done(other, "recall", "pipes")
    assert "holds something" not in (said := refused(other, "restore", "-", "--replace", stdin=through))
    assert "Add --yes" in said
    done(place, "restore", "-", "--into", str(tmp_path / "third"), stdin=through)
    assert "Pipes carry it" in done(Place(tmp_path / "third"), "recall", "pipes")


def test_what_was_purged_after_a_backup_does_not_come_back_with_it(place: Place, tmp_path: Path) -> None:
    done(place, "remember", "Zwiebelfisch sings", "--about", "Ada")
    done(place, "remember", "The kettle boils", "--about", "Ben")
    file = tmp_path / "kho.backup"
    done(place, "backup", str(file))
    done(place, "admin", "purge", "--subject", "Ada", "--yes")
    assert "Zwiebelfisch" not in done(place, "facts", "list")
    done(place, "restore", str(file), "--replace", "--yes")
    assert "The kettle boils" in (facts := done(place, "facts", "list"))
    assert "Zwiebelfisch" not in facts
    done(place, "audit", "verify")
    if place.database_url is None:
        assert b"Zwiebelfisch" not in (place.home / "kho.db").read_bytes()


def test_what_is_in_a_backup_is_told_and_nothing_is_overwritten_unasked(place: Place, tmp_path: Path) -> None:
    assert "nothing to back up" in refused(place, "backup", str(tmp_path / "none.backup"))
    assert [*tmp_path.glob("*.backup*")] == []
    done(place, "remember", "Look into it")
    file = tmp_path / "kho.backup"
    done(place, "backup", str(file))
    first = file.read_bytes()
    assert "facts: 1" in done(place, "backup", "--check", str(file))
    found = json.loads(done(place, "restore", "--check", str(file), "--json"))
    assert (found["tables"]["facts"]["rows"], found["database"]) == (1, "postgres" if place.database_url else "sqlite")
    assert "--force" in refused(place, "backup", str(file))
    assert file.read_bytes() == first
    done(place, "backup", str(file), "--force")
    assert file.read_bytes() != first
    file.write_bytes(first[:-9])
    assert "unfinished" in refused(place, "backup", "--check", str(file))
    done(place, "backup")
    [named] = kept(place.home / "backups")
    assert named.stat().st_mode & 0o777 == 0o600
    assert "cannot be written" in refused(place, "backup", str(tmp_path / "no folder" / "kho.backup"))
    assert "cannot be read" in refused(place, "restore", str(tmp_path / "no.backup"))


def test_hubs_make_backups_by_the_clock_and_keep_the_newest(place: Place) -> None:
    folder = place.home / "backups"
    folder.mkdir(parents=True)
    old = [folder / f"kho-2020-01-0{day}-000000.backup" for day in range(1, 5)]
    for file in (*old, folder / "mine.backup"):
        file.write_bytes(b"old")
    done(place, "remember", "Every day")
    chosen = {"KHO_BACKUP__EVERY": "1d", "KHO_BACKUP__KEEP": "3"}
    hubs = [Hub(place, **chosen), Hub(place, "--workers", "2", **chosen)]
    try:
        for hub in hubs:
            hub.ready()
        until(
            lambda: kept(folder)[:-1] == old[-2:], "one backup, and two that are kept", *(one.process for one in hubs)
        )
    finally:
        for hub in hubs:
            hub.kill()
    newest = kept(folder)[-1]
    assert "facts: 1" in done(place, "backup", "--check", str(newest))
    # Started again, it is not due.
    with Hub(place, **chosen).ready() as hub:
        hub.terminate()
    assert kept(folder) == [*old[-2:], newest]
    assert (folder / "mine.backup").read_bytes() == b"old"
