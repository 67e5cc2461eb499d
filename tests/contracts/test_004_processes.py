"""Two stdio processes and one HTTP hub on one store, under mixed load. The long run is bench/research_processes.py."""

from pathlib import Path

import pytest
from bench.research_processes import measure

SECONDS = 60.0


@pytest.mark.requirement("004.test.concurrent")
async def test_what_one_process_takes_in_the_others_find_at_once(tmp_path: Path) -> None:
    counted = await measure(tmp_path / "home", SECONDS)
    assert counted["found at once"] > 0
    assert counted["not found"] == counted["locked"] == counted["errors"] == 0, counted
