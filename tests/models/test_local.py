"""The hash embedder, and what is said when a package or a model of a hub cannot be had."""

import sys
from pathlib import Path

import numpy as np
import pytest

from kho.kernel.errors import KhoError, Unavailable
from kho.models.factory import embedder
from kho.models.hash_embedder import HashEmbedder
from kho.models.settings import Embedding, Package


@pytest.mark.parametrize("package", ["fastembed", "sentence-transformers"])
async def test_a_missing_package_is_named(package: Package) -> None:
    model = embedder(Embedding(provider=package, model="intfloat/multilingual-e5-base", dimension=768))
    assert model is not None
    assert model.model == f"{package}/intfloat/multilingual-e5-base"
    assert await model.dimension() == 768
    for work in (model.query("x"), model.passages(["x"])):
        with pytest.raises(Unavailable, match=f"intfloat/multilingual-e5-base needs a package: pip install {package}"):
            await work
    await model.aclose()


PACKAGE = """
class TextEmbedding:
    def __init__(self, model_name, threads):
        if model_name == "far-away":
            raise ValueError("Could not load model far-away from any source.")
        assert threads == 1

    def embed(self, texts):
        import numpy as np
        yield from (np.array([len(text), 1.0, 0.0]) for text in texts)
"""


async def test_a_package_that_is_there_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package stands in for one that cannot be installed without its hub; it has the same shape."""
    (tmp_path / "fastembed.py").write_text(PACKAGE)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    try:
        model = embedder(Embedding(provider="fastembed", model="near", passage_prefix="p: "))
        assert model is not None
        rows = await model.passages(["", "\ud800", "x" * 30_000])
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-6)
        np.testing.assert_allclose(rows[:, 0] / rows[:, 1], [3, 4, 24_003], rtol=1e-3)
        assert (await model.query("abc"))[0] == pytest.approx(3 / np.sqrt(10))
        assert await model.dimension() == 3
        assert (await model.passages([])).shape == (0, 3)
        await model.aclose()
        far = embedder(Embedding(provider="fastembed", model="far-away"))
        assert far is not None
        with pytest.raises(Unavailable, match="fastembed cannot load the model far-away: Could not load"):
            await far.query("x")
        await far.aclose()
    finally:
        sys.modules.pop("fastembed", None)


async def test_hashed_texts_that_share_words_are_near() -> None:
    model = HashEmbedder(64)
    texts = ["mạng bị rớt khi gọi video", "gọi video thì mạng rớt", "无线网络", "", "\ud800", "🎉"]
    rows = await model.passages(texts)
    assert rows.shape == (6, await model.dimension()) == (6, 64)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-6)
    assert rows[0] @ rows[1] > 0.5 > rows[0] @ rows[2]
    np.testing.assert_array_equal(await HashEmbedder(64).query(texts[0]), rows[0])
    assert model.model != HashEmbedder(65).model
    await model.aclose()


def test_none_means_words_alone() -> None:
    assert embedder(Embedding(provider="none")) is None
    with pytest.raises(KhoError, match="name of a model"):
        embedder(Embedding(provider="fastembed"))
