"""Embedders and cross-encoders that fastembed and sentence-transformers download and run in this process.

Neither package is a dependency of Kho: they are large, and the first use needs a network.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from kho.kernel.errors import Unavailable
from kho.models.in_process import ModelThreads, batches
from kho.models.rerank_http import into_unit
from kho.models.settings import Package
from kho.models.text import model_name, well_formed

if TYPE_CHECKING:
    import numpy as np

    from kho.kernel.ports import Matrix, Vector

T = TypeVar("T")
Encode = Callable[[list[str]], "Iterable[np.ndarray[Any, Any]]"]

Score = Callable[[str, list[str]], Iterable[float]]

BATCH_TOKENS = 512
"""Smaller batches than for the built-in model: here a query waits for the running batch."""
MAX_TEXT = 24_000
"""Characters that can matter. Tokenizers are slow on the rest, which the model does not read."""


MAX_RERANKED_TEXT = 8_000
"""Characters of a text that can matter: cross-encoders read about 512 tokens."""


class LocalEmbedder:
    def __init__(
        self,
        package: Package,
        name: str,
        *,
        dimension: int | None = None,
        query_prefix: str = "",
        passage_prefix: str = "",
        threads: int = 1,
    ) -> None:
        self._package: Package = package
        self._name = name
        self._dimension = dimension
        self._query_prefix, self._passage_prefix = query_prefix, passage_prefix
        # Their tokenizers are not thread-safe.
        self._worker = ModelThreads(f"kho-{package}", lambda: load_encoder(package, name, threads), alone=True)

    @property
    def model(self) -> str:
        return model_name(f"{self._package}/{self._name}", self._passage_prefix)

    async def dimension(self) -> int:
        if self._dimension is None:
            self._dimension = len(await self.query("dimension"))
        return self._dimension

    async def passages(self, texts: Sequence[str]) -> "Matrix":
        import numpy as np

        pieces = batches([self._passage_prefix + well_formed(text[:MAX_TEXT]) for text in texts], BATCH_TOKENS)
        rows = await self._worker.later_each(pieces, lambda encode, piece: _unit(encode(piece)))
        found = np.concatenate(rows) if rows else np.empty((0, await self.dimension()), np.float32)
        return self._checked(found)

    async def query(self, text: str) -> "Vector":
        rows = await self._worker.soon(
            lambda encode: _unit(encode([self._query_prefix + well_formed(text[:MAX_TEXT])]))
        )
        return self._checked(rows)[0]

    async def aclose(self) -> None:
        await self._worker.aclose()

    def _checked(self, rows: "Matrix") -> "Matrix":
        if self._dimension is not None and rows.shape[1] != self._dimension:
            raise Unavailable(f"{self._name} gave {rows.shape[1]} numbers a vector instead of {self._dimension}")
        return rows


def _unit(rows: "Iterable[np.ndarray[Any, Any]]") -> "Matrix":
    import numpy as np

    vectors = np.asarray(list(rows), np.float32)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.isfinite(lengths).all() or not lengths.all():
        raise Unavailable("the embedding model gave a vector that is all zeros or not finite")
    return vectors / lengths


def load_encoder(package: Package, name: str, threads: int) -> Encode:
    def fastembed() -> Encode:
        library: Any = __import__("fastembed")
        model = library.TextEmbedding(model_name=name, threads=threads)
        return lambda texts: model.embed(texts)

    def sentence_transformers() -> Encode:
        library: Any = __import__("sentence_transformers")
        __import__("torch").set_num_threads(threads)
        model = library.SentenceTransformer(name)
        return lambda texts: model.encode(texts, convert_to_numpy=True, show_progress_bar=False)

    return loaded(package, name, fastembed if package == "fastembed" else sentence_transformers)


class CrossEncoder:
    def __init__(self, package: Package, name: str, *, threads: int = 1) -> None:
        self._worker = ModelThreads(f"kho-rerank-{package}", lambda: load_scorer(package, name, threads), alone=True)

    async def scores(self, query: str, passages: Sequence[str]) -> list[float]:
        if not passages:
            return []
        texts = [well_formed(text[:MAX_RERANKED_TEXT]) for text in passages]
        raw = await self._worker.soon(
            lambda score: [float(number) for number in score(well_formed(query[:MAX_RERANKED_TEXT]), texts)]
        )
        return into_unit(raw, logits=True)

    async def aclose(self) -> None:
        await self._worker.aclose()


def load_scorer(package: Package, name: str, threads: int) -> Score:
    """Load a cross-encoder. Both packages return logits here."""

    def fastembed() -> Score:
        module: Any = __import__("fastembed.rerank.cross_encoder", fromlist=["TextCrossEncoder"])
        model = module.TextCrossEncoder(model_name=name, threads=threads)
        return lambda query, texts: model.rerank(query, texts)

    def sentence_transformers() -> Score:
        library: Any = __import__("sentence_transformers")
        torch: Any = __import__("torch")
        torch.set_num_threads(threads)
        # By default the library applies a sigmoid to some models and not to others.
        model = library.CrossEncoder(name, num_labels=1)
        return lambda query, texts: model.predict(
            [(query, text) for text in texts], activation_fn=torch.nn.Identity(), show_progress_bar=False
        )

    return loaded(package, name, fastembed if package == "fastembed" else sentence_transformers)


def loaded(package: Package, name: str, load: Callable[[], T]) -> T:
    """Load a model, or raise Unavailable that says what is missing: the package, or the weights."""
    try:
        return load()
    except ImportError:
        raise Unavailable(f"the model {name} needs a package: pip install {package}") from None
    except (OSError, ValueError, RuntimeError) as problem:
        # Without a network the model hub's errors are OSErrors; an unknown name is a ValueError.
        reason = " ".join(str(problem).split())[:300]
        raise Unavailable(f"{package} cannot load the model {name}: {reason}") from None
