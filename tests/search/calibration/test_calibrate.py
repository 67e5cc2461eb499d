"""What a model's cosines mean."""

from dataclasses import replace

import numpy as np
import orjson
import pytest

from kho.models.hash_embedder import HashEmbedder
from kho.search.calibration import calibrate
from kho.search.calibration.calibrate import Calibration, Scale, is_current, measure, unit
from kho.search.calibration.probes import PROBES


async def test_a_measure_comes_back_as_it_was_kept() -> None:
    measured = await measure(HashEmbedder(32))
    kept = measured.dump()
    back = Calibration.load(kept)
    assert back is not None
    assert back.dump() == kept
    assert (back.raw, back.centred, back.hollow) == (measured.raw, measured.centred, measured.hollow)
    assert np.array_equal(back.nonsense, measured.nonsense)
    assert set(back.questions) == set(back.passages) == {"", *PROBES}
    for name in ("", *PROBES):
        assert np.array_equal(back.questions[name], measured.questions[name])
        assert np.array_equal(back.passages[name], measured.passages[name])


async def test_another_version_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = (await measure(HashEmbedder(32))).dump()
    assert is_current(kept)
    assert not is_current(None)
    monkeypatch.setattr(calibrate, "VERSION", calibrate.VERSION + 1)
    assert not is_current(kept)
    assert Calibration.load(kept) is None
    assert orjson.loads((await measure(HashEmbedder(32))).dump())["version"] == calibrate.VERSION


def test_a_scale_has_the_unrelated_at_0_and_the_related_at_1() -> None:
    scale = Scale(0.7, 0.9)
    placed = scale.place(np.array([0.7, 0.8, 0.9, 1.0], np.float32))
    assert placed.tolist() == pytest.approx([0, 0.5, 1, 1.5], abs=1e-4)
    assert np.isfinite(Scale(0.5, 0.5).place(np.array([0.6], np.float32))).all()


async def test_related_texts_are_placed_above_unrelated_ones() -> None:
    embedder = HashEmbedder()
    calibration = await measure(embedder)
    rows = await embedder.passages(["The router is reset with a button.", "Bees dance in the hive."])
    found = calibration.likeness(
        await embedder.query("resetting the router with the button"), "en", rows, ["en", "a language unheard of"]
    )
    assert found.raw[0] > max(found.raw[1], 1)
    assert found.between[0] > max(found.between[1], 1)


async def test_nonsense_stays_below_its_level() -> None:
    embedder = HashEmbedder()
    measured = await measure(embedder)
    assert measured.hollow is None  # this model cannot tell
    anything = replace(measured, hollow=Scale(0.0, 0.01))  # is like nonsense
    rows = await embedder.passages(["ok", "The router is reset with a button.", "xin chào", "你好"])
    for text in ("zxqv blorp", "qworp", "khụych ngoẵm", "甴曱嚿"):
        for calibration in (measured, anything):
            found = calibration.likeness(await embedder.query(text), "en", rows, ["", "en", "vi", "zh"])
            assert found.hollowness is None or found.hollowness > 1, text
            assert (found.between < found.noise).all(), text


async def test_the_more_a_question_is_like_nonsense_the_closer_it_has_to_be() -> None:
    embedder = HashEmbedder()
    calibration = await measure(embedder)
    rows = await embedder.passages(["ok", "The router is reset with a button."])
    question = await embedder.query("gsonack kfnfwr")  # one of the probes
    found = [
        replace(calibration, hollow=hollow).likeness(question, "en", rows, ["en", "en"])
        for hollow in (Scale(2.0, 3.0), Scale(0.0, 1.0), Scale(0.0, 0.5))
    ]
    assert found[0].hollowness == 0
    assert (found[0].noise < found[1].noise).all()
    assert (found[1].noise < found[2].noise).all()


def test_unit_survives_nothing() -> None:
    assert unit(np.zeros((2, 3), np.float32)).tolist() == [[0, 0, 0], [0, 0, 0]]


def test_the_probes_are_alike_in_every_language() -> None:
    assert len({len(pairs) for pairs in PROBES.values()}) == 1
    texts = [text for pairs in PROBES.values() for pair in pairs for text in pair]
    assert len(set(texts)) == len(texts)
