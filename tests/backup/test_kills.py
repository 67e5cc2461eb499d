"""`kill -9` while a backup is made or restored: a file is whole or not there, a store is what it was or what it becomes.

`KHO_KILLS` says how often.
"""

import asyncio
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
from tests.acceptance.processes import KHO, Place
from tests.backup.stores import Content, backups, content_of, found, quiet, remember
from tests.timeouts import PATIENCE

from kho.app import open_hub
from kho.kernel.errors import KhoError
from kho.kernel.hub import Hub
from kho.settings import Search, Settings

KILLS = int(os.environ.get("KHO_KILLS", "10"))
FACTS = 300
COMPARED = ("facts", "passages", "audit", "audit_unsealed", "api_keys")


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    url = None if request.param == "sqlite" else request.getfixturevalue("postgres_schema_url")
    return Place(tmp_path / "home", url)


def settings_of(place: Place) -> Settings:
    return Settings(home=place.home, database_url=place.database_url, search=Search.model_validate(NO_MODEL))


NO_MODEL = {"embedder": {"provider": "none"}}


async def filled(settings: Settings, word: str) -> None:
    async with open_hub(settings) as hub:
        for start in range(0, FACTS, 50):
            texts = [
                f"{word} {number}: " + f"a sentence of {word} and {number}. " * 30
                for number in range(start, start + 50)
            ]
            await asyncio.gather(*(remember(hub, settings, text) for text in texts))


def begun(place: Place, *arguments: str) -> "subprocess.Popen[bytes]":
    nothing, pipe = subprocess.DEVNULL, subprocess.PIPE
    return subprocess.Popen([*KHO, *arguments], stdin=nothing, stdout=nothing, stderr=pipe, env=place.environment())


def killed(place: Place, longest: float, chance: random.Random, *arguments: str) -> bool:
    """Kill a command at any moment of its work. False if it was over already."""
    process = begun(place, *arguments)
    time.sleep(chance.uniform(0.3, 1.05) * longest)  # waits for nothing: the kill shall come at any moment
    process.kill()
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode in (0, -signal.SIGKILL), said
    return process.returncode != 0


def took(place: Place, *arguments: str) -> float:
    started = time.monotonic()
    done = place.run(*arguments)
    assert done.returncode == 0, done.stderr
    return time.monotonic() - started


def left(folder: Path, pattern: str) -> list[Path]:
    return [*folder.glob(pattern)]


def is_whole(settings: Settings, file: Path) -> bool:
    try:
        with backups(settings).checked(file, quiet):
            return True
    except KhoError:
        return False


async def test_a_killed_backup_leaves_no_file_that_looks_whole(place: Place, tmp_path: Path) -> None:
    settings, chance = settings_of(place), random.Random(5)
    await filled(settings, "first")
    before = content_of(settings)
    old, new = tmp_path / "old.backup", tmp_path / "new.backup"
    longest = took(place, "backup", str(old))
    earlier = old.read_bytes()
    kills = 0
    while kills < KILLS:
        kills += killed(place, longest, chance, "backup", str(new))
        assert not new.exists() or is_whole(settings, new)
        new.unlink(missing_ok=True)
        kills += killed(place, longest, chance, "backup", str(old), "--force")
        assert old.read_bytes() == earlier or is_whole(settings, old)
        earlier = old.read_bytes()
    assert content_of(settings) == before
    took(place, "backup", str(new))
    took(place, "backup", str(old), "--force")
    assert left(tmp_path, "*.part") == [], "what killed ones left is removed by the next"


async def test_a_store_is_whole_before_or_after_a_killed_restore(
    place: Place, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    settings, chance = settings_of(place), random.Random(6)
    states: list[dict[str, Content]] = []
    files = [tmp_path / "one.backup", tmp_path / "two.backup"]
    other = Settings(home=tmp_path / "other", database_url=None, search=Search.model_validate(NO_MODEL))
    for source, word, file in ((other, "first", files[0]), (settings, "second", files[1])):
        await filled(source, word)
        backups(source).save(file, quiet)
        states.append(compared(source))
    now, kills, changes = 1, 0, 0
    longest = took(place, "restore", str(files[0]), "--replace", "--yes")
    assert compared(settings) == states[0]
    now = 0
    while kills < KILLS:
        kills += killed(place, longest, chance, "restore", str(files[1 - now]), "--replace", "--yes")
        state = await quiet_store(settings)
        assert state in states, "neither the store before nor the one after"
        changes += state != states[now]
        now = states.index(state)
    async with open_hub(settings) as hub:
        await asyncio.wait_for(until_found(hub, settings, ("first", "second")[now]), PATIENCE)
    took(place, "restore", str(files[now]), "--replace", "--yes")
    assert left(place.home, "restoring-*") == [], "what killed ones left is removed by the next"


def compared(settings: Settings) -> dict[str, Content]:
    rows = content_of(settings)
    return {name: rows[name] for name in COMPARED}


async def quiet_store(settings: Settings) -> dict[str, Content]:
    """On PostgreSQL, wait until the server has noticed that the killed process is gone."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await backups(settings).target(None).held()
            except KhoError:
                await asyncio.sleep(0.05)
            else:
                return compared(settings)


async def until_found(hub: Hub, settings: Settings, word: str) -> None:
    while not await found(hub, settings, word):  # noqa: ASYNC110  # the index is looked at, it does not tell
        await asyncio.sleep(0.05)
