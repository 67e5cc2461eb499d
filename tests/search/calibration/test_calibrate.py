"""What a model's cosines mean."""

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
    calibration = await measure(embedder)
    rows = await embedder.passages(["ok", "The router is reset with a button.", "xin chào", "你好"])
    nonsense = ["zxqv blorp", "qworp", "khụych ngoẵm", "甴曱嚿"]
    for text in nonsense:
        found = calibration.likeness(await embedder.query(text), "en", rows, ["", "en", "vi", "zh"])
        assert (found.between < found.noise).all(), text


def test_unit_survives_nothing() -> None:
    assert unit(np.zeros((2, 3), np.float32)).tolist() == [[0, 0, 0], [0, 0, 0]]


def test_the_probes_are_alike_in_every_language() -> None:
    assert len({len(pairs) for pairs in PROBES.values()}) == 1
    texts = [text for pairs in PROBES.values() for pair in pairs for text in pair]
    assert len(set(texts)) == len(texts)
