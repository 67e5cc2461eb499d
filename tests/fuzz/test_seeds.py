"""Every hand-made seed, one by one."""

import pytest
from tests.fuzz.seeds import POSTGRES_SEEDS, SEEDS, Seed
from tests.fuzz.target import Target


def test_seeds_on_sqlite(target: Target) -> None:
    _send_all(target, SEEDS)


def test_seeds_on_postgres(on_postgres: Target) -> None:
    _send_all(on_postgres, POSTGRES_SEEDS)
    on_postgres.alive()


def _send_all(target: Target, seeds: dict[str, Seed]) -> None:
    """All of them, so that one that breaks the hub does not hide the others."""
    broken: list[str] = []
    for label, seed in seeds.items():
        try:
            target.send(seed(target))
        except Exception as problem:  # noqa: BLE001
            broken.append(f"{label}: {type(problem).__name__}: {str(problem)[:1500]}")
    if broken:
        pytest.fail(f"{len(broken)} of {len(seeds)} broke it:\n" + "\n\n".join(broken), pytrace=False)
