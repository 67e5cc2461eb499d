"""`kill -9` in the middle of an ingest, and two processes at one folder: in the end all is as if nothing had happened.

`KHO_KILLS` says how often; `python -m bench.ingest --kills 20` does it twenty times.
"""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.ingest_kills import Child, half_there, kill_and_compare, schema, snapshot, write_corpus
from tests.acceptance.processes import Place

KILLS = int(os.environ.get("KHO_KILLS", "3"))


@pytest.fixture(params=["sqlite", "postgres"])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Place, Place]]:
    """Two empty stores of a kind."""
    homes = tmp_path / "one", tmp_path / "two"
    if request.param == "sqlite":
        yield Place(homes[0]), Place(homes[1])
        return
    url: str = request.getfixturevalue("postgres_url")
    with schema(url, "ingest_one") as one, schema(url, "ingest_two") as two:
        yield Place(homes[0], one), Place(homes[1], two)


def test_a_killed_ingest_ends_as_an_undisturbed_one(places: tuple[Place, Place], tmp_path: Path) -> None:
    write_corpus(tmp_path / "corpus", 25 * (KILLS + 1))
    seed = random.SystemRandom().randrange(2**32)
    tally = kill_and_compare(tmp_path / "corpus", *places, KILLS, seed)
    assert (tally.half, tally.differing) == ([], []), f"seed {seed}"
    assert tally.kills == KILLS
    assert tally.chunks > tally.documents > 0


def test_two_processes_at_one_folder_double_nothing(places: tuple[Place, Place], tmp_path: Path) -> None:
    write_corpus(tmp_path / "corpus", 60)
    reference, place = places
    with Child(reference, tmp_path / "corpus", "begin").begun() as child:
        alone = child.over()
    with (
        Child(place, tmp_path / "corpus", "begin") as one,
        Child(place, tmp_path / "corpus", "begin") as two,
    ):
        one.begun()
        two.begun()
        one.over()
        two.over()
    assert snapshot(place) == snapshot(reference)
    assert half_there(place) == []
    assert alone["added"] == len(snapshot(place)["documents"])
