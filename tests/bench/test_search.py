"""What bench/search.py makes of its measurements, and the rows it measures with. The figures themselves are measured
by `make peers`; a test on a busy machine would measure the machine."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from bench.search import parse, size
from bench.search_child import MARK
from bench.search_data import BLOCK, Corpus, load, save
from bench.search_engine import fuse
from bench.search_figures import Figures, percentile, verdict

OURS = Figures("kho-sqlite", 100_000, ingest_seconds=10.0, hybrid_ms=[20.0] * 95 + [30.0] * 5, recall=0.99)
GROWN = replace(OURS, rows=1_000_000, ingest_seconds=120.0, hybrid_ms=[200.0])
SLOW = Figures("chroma", 100_000, ingest_seconds=1000.0, hybrid_ms=[90.0], recall=1.0)
FAST = Figures("lancedb", 100_000, ingest_seconds=50.0, hybrid_ms=[20.0], recall=0.97)
UNFINISHED = Figures("qdrant", 100_000, "did not finish in 900 s", taken=5_000)


def kept(*measured: Figures) -> dict[str, bool | None]:
    return {bar.name: bar.kept for bar in verdict(measured)}


def test_each_bar_is_kept_at_its_limit() -> None:
    assert kept(OURS, GROWN, SLOW, FAST, UNFINISHED) == {
        "kho-sqlite: hybrid p95 at 100k / the fastest peer's": True,
        "kho-sqlite: ingest at 100k / the fastest peer's": True,
        "kho-sqlite: recall@10 at 100k": True,
        "kho-sqlite: hybrid p95 at 1M / at 100k": True,
        "kho-sqlite: hybrid p95 at 1M, ms": True,
    }


@pytest.mark.parametrize(
    ("measured", "broken"),
    [
        ((replace(OURS, hybrid_ms=[20.1]), GROWN), "hybrid p95 at 100k / the fastest peer's"),
        ((replace(OURS, ingest_seconds=10.1), GROWN), "ingest at 100k / the fastest peer's"),
        ((replace(OURS, recall=0.979), GROWN), "recall@10 at 100k"),
        ((OURS, replace(GROWN, hybrid_ms=[201.0])), "hybrid p95 at 1M / at 100k"),
        ((OURS, replace(GROWN, hybrid_ms=[251.0])), "hybrid p95 at 1M, ms"),
    ],
)
def test_a_bar_is_broken_just_past_its_limit(measured: tuple[Figures, ...], broken: str) -> None:
    assert kept(*measured, SLOW, FAST)[f"kho-sqlite: {broken}"] is False


def test_postgres_has_to_grow_less_than_linearly() -> None:
    ours, grown = replace(OURS, engine="kho-postgres"), replace(GROWN, engine="kho-postgres")
    name = "kho-postgres: hybrid p95 at 1M / at 100k"
    assert kept(ours, grown)[name] is False
    assert kept(ours, replace(grown, hybrid_ms=[199.0]))[name] is True


def test_what_was_not_measured_is_not_judged() -> None:
    assert verdict([SLOW, FAST]) == []
    assert kept(OURS, UNFINISHED) == {
        "kho-sqlite: hybrid p95 at 100k / the fastest peer's": None,
        "kho-sqlite: ingest at 100k / the fastest peer's": None,
        "kho-sqlite: recall@10 at 100k": True,
        "kho-sqlite: hybrid p95 at 1M / at 100k": None,
        "kho-sqlite: hybrid p95 at 1M, ms": None,
    }


def test_percentiles() -> None:
    assert percentile([], 0.95) is None
    assert [percentile([3.0, 1.0, 2.0, 4.0], share) for share in (0.25, 0.5, 0.95)] == [1.0, 2.0, 4.0]


def test_stages_of_a_run_that_was_ended_are_kept() -> None:
    lines = ["noise", MARK + json.dumps({"taken": 5, "versions": "1"}), MARK + json.dumps({"taken": 10})]
    assert parse("\n".join(lines)) == {"taken": 10, "versions": "1"}


def test_sizes() -> None:
    assert [size(text) for text in ("500", "10k", "1M")] == [500, 10_000, 1_000_000]


def test_fusion_prefers_what_both_legs_found() -> None:
    assert fuse([1, 2, 3], [4, 2]) == [2, 1, 4, 3]


def test_every_process_generates_the_same_rows() -> None:
    first, again = (list(Corpus(BLOCK + 100).blocks()) for _ in range(2))
    assert [len(block.ids) for block in first] == [BLOCK, 100]
    assert [block.texts for block in first] == [block.texts for block in again]
    assert all(np.array_equal(a.vectors, b.vectors) for a, b in zip(first, again, strict=True))


def test_vectors_look_like_those_of_a_language_model() -> None:
    vectors = next(Corpus(1_000).blocks()).vectors
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    cosines = (vectors @ vectors.T)[~np.eye(len(vectors), dtype=bool)]
    assert 0.73 < cosines.mean() < 0.77


def test_questions_know_what_exact_search_finds(tmp_path: Path) -> None:
    corpus = Corpus(BLOCK + 1_003, tenants=7)
    questions = corpus.questions(20)
    blocks = list(corpus.blocks())
    vectors = np.concatenate([block.vectors for block in blocks])
    tenants = np.array([tenant for block in blocks for tenant in block.tenants])
    texts = [text for block in blocks for text in block.texts]
    for question in questions:
        cosines = np.where(tenants == question.tenant, vectors @ question.vector, -1)
        assert question.nearest == np.argsort(-cosines)[:10].tolist()
        assert tenants[question.source] == question.tenant
        assert set(question.text.split()) <= set(texts[question.source].replace(".", " ").split()) or (
            question.text in texts[question.source].replace("，", "")
        )
    save(questions, tmp_path / "questions.npz")
    for kept_one, question in zip(load(tmp_path / "questions.npz"), questions, strict=True):
        assert (kept_one.text, kept_one.nearest) == (question.text, question.nearest)
        assert np.array_equal(kept_one.vector, question.vector)
