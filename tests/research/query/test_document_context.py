"""What a long text is about, and how it moves results: past their equals, and never past what is clearly better."""

from kho.research.query.document_context import MAX_CONTEXT, gist
from kho.research.query.feedback import Tally
from kho.research.query.reordering import CONTEXT, VERDICTS, placed, verdict
from kho.search.query.scoring import RankedPassage, ScoreParts

FILLER = "Nobody knows why this was ever put down here. "


def ranked(*scores: float) -> list[RankedPassage]:
    return [RankedPassage(seq, f"d{seq}", score, ScoreParts(score)) for seq, score in enumerate(scores, 1)]


def order(*found: float, **more: dict[int, float]) -> list[int]:
    likeness, verdicts = more.get("likeness", {}), more.get("verdicts", {})
    return [one.ranked.seq for one in placed(ranked(*found), likeness, verdicts)]


def test_a_short_text_is_taken_as_it_is() -> None:
    assert gist("  Một con mèo.\n") == "Một con mèo."


def test_of_a_long_text_stays_what_it_keeps_coming_back_to() -> None:
    theme = [f"The glacier lost ice in the year {year} and the moraine moved." for year in range(1980, 2020)]
    one_off = [f"A {word} was mentioned only once in passing." for word in ("kettle", "violin", "harbour", "ledger")]
    kept = gist(FILLER * 20 + " ".join([*theme, *one_off, FILLER * 20]))
    assert len(kept) <= MAX_CONTEXT
    assert "glacier" in kept
    assert kept.count("moraine") > 5
    assert "ledger" not in kept


def test_what_stands_around_the_question_is_kept() -> None:
    theme = " ".join(
        f"The glacier lost ice in {year}, as the survey of the glacier says." for year in range(1900, 2010)
    )
    kept = gist(f"{theme} Water is boiled in a kettle at the hut. {theme}", "How is the kettle heated?")
    assert "kettle" in kept


def test_chinese_and_vietnamese_are_cut_at_sentences() -> None:
    assert "冰川" in gist("冰川正在融化。" * 400)
    assert gist("Sông băng đang tan. " * 400).startswith("Sông băng đang tan.")


def test_a_very_long_text_is_bounded() -> None:
    assert len(gist("x" * 1_000_000)) <= MAX_CONTEXT
    assert len(gist("word " * 200_000)) <= MAX_CONTEXT


def test_without_context_and_verdicts_the_order_is_the_cores() -> None:
    assert order(0.9, 0.5, 0.5, 0.1) == [1, 2, 3, 4]


def test_context_moves_equals_past_each_other_but_not_past_the_clearly_better() -> None:
    assert order(0.5, 0.45, likeness={1: 0.1, 2: 0.6}) == [2, 1]
    assert order(0.9, 0.5, likeness={1: 0.0, 2: 0.6}) == [1, 2]
    most = (1 + CONTEXT) / (1 - CONTEXT)
    assert order(0.5 * most + 0.01, 0.5, likeness={1: 0.0, 2: 1.0}) == [1, 2]


def test_a_context_that_fits_nothing_changes_nothing() -> None:
    found = placed(ranked(0.5, 0.45), {1: 0.01, 2: 0.05}, {})
    assert [(one.ranked.seq, one.score, one.context) for one in found] == [(1, 0.5, None), (2, 0.45, None)]


def test_verdicts_nudge() -> None:
    assert order(0.5, 0.49, verdicts={1: -1.0, 2: 1.0}) == [2, 1]
    assert order(0.5, 0.4, verdicts={1: -1.0, 2: 1.0}) == [1, 2]
    [one] = placed(ranked(0.5), {}, {1: 1.0})
    assert one.score == 0.5 * (1 + VERDICTS)


def test_one_reader_moves_less_than_many_and_a_document_counts_half() -> None:
    nobody = Tally()
    one, many = verdict(Tally(positive=1), nobody), verdict(Tally(positive=50), nobody)
    assert 0 < one < many < 1
    assert 0 < verdict(nobody, Tally(positive=1)) < one
    assert verdict(Tally(negative=1), nobody) == -one
    assert verdict(Tally(positive=3, negative=3), nobody) == verdict(Tally(neutral=4), nobody) == 0
