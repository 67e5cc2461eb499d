"""`kill -9` under write load: what was acknowledged is there, and nothing is half there.

`KHO_KILLS` says how often; `python -m bench.crash` does it fifty times.
"""

import os
import random
from pathlib import Path

import pytest
from tests.acceptance.kills import kill_and_count
from tests.acceptance.processes import Place

KILLS = int(os.environ.get("KHO_KILLS", "3"))


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_nothing_acknowledged_is_lost(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    url: str | None = request.getfixturevalue("postgres_schema_url") if engine == "postgres" else None
    seed = random.SystemRandom().randrange(2**32)
    tally = kill_and_count(Place(tmp_path / "home", url), KILLS, seed)
    assert (tally.lost, tally.half) == ([], []), f"seed {seed}"
    assert tally.kills == KILLS
    assert tally.acknowledged > 0
