"""What `make bench-check` makes of figures. They are measured by that command; a test on a busy machine would measure
the machine."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from bench.ratios import LEAST, MOST, Committed, Ratio, Verdict, against_loop, best, commit, compare

from bench import check

WAS = {"a call": Committed(12 / 7, 7 / 3)}
"""The middle is 2; the highest is a sixth above it, so half as much again is tolerated."""


def judged(measured: Mapping[str, float], committed: Mapping[str, Committed] = WAS) -> Verdict:
    (verdict,) = compare(measured, committed)
    return verdict


@pytest.mark.parametrize(
    ("now", "kept", "said"),
    [
        (2.0, True, "ok"),
        (2.999, True, "ok"),
        (3.001, False, "SLOWER"),
        (4.0, False, "SLOWER"),
        (1.34, True, "ok"),
        (1.33, True, "better"),
    ],
)
def test_a_figure_may_move_as_far_as_its_tolerance(now: float, kept: bool, said: str) -> None:
    verdict = judged({"a call": now})
    assert (verdict.name, verdict.kept) == ("a call", kept)
    assert verdict.said.startswith(said)
    assert f"{now:.3g}, committed 2" in verdict.said


def test_a_figure_that_is_no_longer_measured_fails() -> None:
    verdict = judged({})
    assert not verdict.kept
    assert verdict.said.startswith("MISSING")


def test_a_figure_that_was_never_committed_fails() -> None:
    verdict = judged({"a call": 1.0}, {})
    assert not verdict.kept
    assert verdict.said.startswith("NEW")


def test_the_best_cost_and_the_best_baseline_count_wherever_they_were_measured() -> None:
    slow_cost, slow_baseline, slow = Ratio(9.0, 1.0), Ratio(3.0, 4.0), Ratio(12.0, 4.0)
    assert best([{"a": slow_cost}, {"a": slow_baseline}, {"a": slow}]) == {"a": 3.0}
    # One run without a figure does not hide what the others found.
    assert best([{"a": slow_cost}, {"b": slow}]) == {"a": 9.0, "b": 3.0}


def rounds(*costs: float) -> list[dict[str, Ratio]]:
    return [{"a": Ratio(cost, 1.0)} for cost in costs]


def test_equal_runs_get_the_least_tolerance() -> None:
    (committed,) = commit(rounds(2, 2, 2, 2, 2)).values()
    assert (committed.ratio, committed.tolerance) == (2.0, LEAST)


def test_the_tolerance_follows_how_far_any_three_of_the_runs_differ() -> None:
    # Three of these five make 2.0 (six times), 2.2 (three times) or 2.4 (once).
    (committed,) = commit(rounds(2.0, 2.2, 2.4, 2.5, 2.6)).values()
    assert committed == Committed(2.0, 2.4)
    assert committed.ratio == pytest.approx(4.8**0.5)
    assert committed.tolerance == LEAST  # 1 + 3 * (2.4 / 2.19 - 1) is 1.29
    assert Committed(2.0, 2.88).tolerance == pytest.approx(1.6)


def test_another_sitting_widens_what_is_tolerated() -> None:
    first = commit(rounds(2, 2, 2, 2, 2))
    busy = commit(rounds(*[2.88] * 5), first)
    assert busy == {"a": Committed(2.0, 2.88)}
    assert commit(rounds(*[2.4] * 5), busy) == busy
    # Both sittings pass with what they made together; neither would with the other's alone.
    assert judged({"a": 2.88}, busy).kept
    assert not judged({"a": 2.88}, first).kept


def test_a_doubled_cost_fails_whatever_the_spread_was() -> None:
    committed = commit(rounds(1, 5, 9, 9, 9))
    assert committed["a"].tolerance == MOST
    assert not judged(best(rounds(*[2 * committed["a"].ratio] * 3)), committed).kept


def test_what_was_committed_passes_when_nothing_changed() -> None:
    found = rounds(2.0, 2.2, 2.4, 2.5, 2.6)
    committed = commit(found)
    assert all(judged(best(found[first : first + 3]), committed).kept for first in range(3))


def test_the_calibration_loop_costs_time() -> None:
    figures = against_loop({"a call": 1.0})
    assert [*figures] == ["a call: CPU / calibration loop"]
    assert figures["a call: CPU / calibration loop"].baseline > 0


def test_a_missing_package_skips_and_a_failure_does_not(tmp_path: Path) -> None:
    """In the real child process, where a module that the benchmark imports lacks a package."""
    (tmp_path / "orjson.py").write_text("import a_package_that_nobody_has\n")
    own = {**check.environment(str(tmp_path / "compiled")), "PYTHONPATH": f"{tmp_path}:{check.ROOT}"}
    with pytest.raises(check.NotHere, match="a_package_that_nobody_has"):
        check.measure("memory", own)
    with pytest.raises(check.Failed, match="invalid choice: 'nothing'"):
        check.measure("nothing", own)


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    file = tmp_path / "committed.json"
    assert check.read(file) == {}
    assert check.sittings(file) == []
    check.write(file, {"doors": WAS}, ["a quiet machine", "a busy one"])
    assert check.read(file) == {"doors": WAS}
    assert check.sittings(file) == ["a quiet machine", "a busy one"]


def test_every_benchmark_has_committed_figures() -> None:
    committed = check.read(check.FILE)
    assert committed.keys() == {*check.BENCHES}
    assert all(committed.values())
    assert check.sittings(check.FILE)
