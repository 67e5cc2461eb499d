"""Stores that are damaged at random: `kho verify` finds it, `kho doctor --salvage` reads out what is left, and neither
ever fails with anything but a sentence.

KHO_DAMAGED_STORES=500 makes as many; then a table is printed, in which `sqlite3 .recover` stands beside the salvage if
the program is there."""

import asyncio
import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.damage import wrecks
from tests.damage.wrecks import Damage, Store
from tests.doors.command_line import program_of, run_in_process

from kho.storage.sqlite.connection import connect

COUNT = int(os.environ.get("KHO_DAMAGED_STORES", "22"))
SHELL = os.environ.get("KHO_SQLITE3", "sqlite3")
PER_KIND = -(-COUNT // len(wrecks.KINDS))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return asyncio.run(wrecks.make(tmp_path_factory.mktemp("whole") / "home"))


@pytest.fixture(scope="module")
def table() -> "Counter[tuple[str, str]]":
    return Counter()


def test_the_store_is_whole_before(store: Store) -> None:
    verified = run_in_process(program_of(wrecks.settings(store.folder)), "verify", "--json")
    found = json.loads(verified.out)
    assert (verified.status, found["findings"], found["notes"]) == (0, [], [])


@pytest.mark.parametrize("number", range(PER_KIND))
@pytest.mark.parametrize("damage", wrecks.KINDS, ids=lambda one: one.__name__)
def test_damage(damage: Damage, number: int, store: Store, table: "Counter[tuple[str, str]]", tmp_path: Path) -> None:
    home, kind = tmp_path / "home", damage.__name__
    path = store.copy(home, with_log=damage in wrecks.WITH_LOG)
    before = path.read_bytes()
    damage(path, store, random.Random(f"{kind} {number}"))
    files = {one.name: one.read_bytes() for one in home.iterdir()}
    table[kind, "stores"] += 1
    recovered = _recovered(home, tmp_path / "recovered") if COUNT > 100 else None
    harmless = _is_harmless(damage, before, path, store)

    verified = run_in_process(program_of(wrecks.settings(home)), "verify")
    assert verified.status == (0 if harmless else 1), (kind, number, verified)
    table[kind, "found"] += not harmless
    if harmless:
        table[kind, "harmless"] += 1
        return
    assert {one.name: one.read_bytes() for one in home.iterdir() if one.name in files} == files
    if "'kho doctor --salvage NEW_FOLDER'" not in verified.out:
        assert "kho verify --repair" in verified.out
        assert run_in_process(program_of(wrecks.settings(home)), "verify", "--repair").status == 0
        return

    doctor = run_in_process(program_of(wrecks.settings(home)), "doctor", "--salvage", str(tmp_path / "new"))
    assert doctor.status == 0, (kind, number, doctor)
    assert {one.name: one.read_bytes() for one in home.iterdir() if one.name in files} == files, "it is left alone"
    assert f"What could be read of {path} is in {tmp_path / 'new'}." in doctor.out
    again = run_in_process(program_of(wrecks.settings(tmp_path / "new")), "verify")
    assert "salvage" not in again.out, (kind, number, again)
    rescued = _rows(tmp_path / "new" / "kho.db")
    kept = sum(len(rescued[name] & store.rows[name]) for name in wrecks.PEOPLES)
    table[kind, "rows"] += sum(map(len, store.rows.values()))
    table[kind, "salvaged"] += kept
    if recovered is not None:
        by_sqlite = sum(len(recovered[name] & store.rows[name]) for name in wrecks.PEOPLES)
        table[kind, "recovered"] += by_sqlite
        table[kind, "less"] += kept < by_sqlite
    if damage in (wrecks.body, wrecks.audit, wrecks.index, wrecks.log):
        lost = sum(len(store.rows[name] - rescued[name]) for name in wrecks.PEOPLES)
        assert lost <= 40, "of one page at most"
    shutil.rmtree(tmp_path)


def _is_harmless(damage: Damage, before: bytes, path: Path, store: Store) -> bool:
    """True if nothing that is in use was changed: only pages that no table has."""
    if damage in wrecks.WITH_LOG:
        return damage is wrecks.log and _in_old_frames(path, store)
    after = path.read_bytes()
    if len(after) < len(before):
        return False
    changed = {
        at // wrecks.PAGE + 1
        for at in range(0, len(before), wrecks.PAGE)
        if before[at : at + wrecks.PAGE] != after[at : at + wrecks.PAGE]
    }
    return not changed & store.owners.keys()


def _in_old_frames(path: Path, store: Store) -> bool:
    """True if the bit is one that says nothing, such as the number of checkpoints in the log's header."""
    whole, now = (store.folder / "logged.db-wal").read_bytes(), path.with_name("kho.db-wal").read_bytes()
    return whole == now


def _rows(path: Path) -> dict[str, set[tuple[object, ...]]]:
    connection = connect(str(path))
    try:
        return wrecks.rows(connection)
    finally:
        connection.close()


def _recovered(home: Path, folder: Path) -> dict[str, set[tuple[object, ...]]] | None:
    """What SQLite's own program reads out of a copy."""
    if shutil.which(SHELL) is None:
        return None
    shutil.copytree(home, folder)
    said = subprocess.run([SHELL, "kho.db", ".recover"], cwd=folder, capture_output=True, check=False).stdout
    subprocess.run([SHELL, "new.db"], cwd=folder, input=said, capture_output=True, check=False)
    return _rows(folder / "new.db") if (folder / "new.db").exists() else None


def test_what_came_of_it(table: "Counter[tuple[str, str]]", capsys: pytest.CaptureFixture[str]) -> None:
    kinds = [damage.__name__ for damage in wrecks.KINDS]
    columns = ("stores", "harmless", "found", "rows", "salvaged", "recovered", "less")
    lines = ["kind        " + "".join(f"{column:>11}" for column in columns)]
    lines += [f"{kind:12}" + "".join(f"{table[kind, column]:>11}" for column in columns) for kind in kinds]
    with capsys.disabled():
        if COUNT > 100:
            sys.stdout.write("\n" + "\n".join(lines) + "\n")
    assert all(table[kind, "found"] + table[kind, "harmless"] == table[kind, "stores"] for kind in kinds)
    assert sum(table[kind, "less"] for kind in kinds) == 0
