"""Cross-encoders that fastembed or sentence-transformers fetch from a hub and run in this process."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kho.models.local_hub import Package, loaded
from kho.models.scores import into_unit
from kho.models.texts import whole
from kho.models.worker import Worker

Score = Callable[[str, list[str]], Iterable[float]]

TEXT = 8_000
"""Characters of a text that can matter: cross-encoders read some 512 tokens."""


class CrossEncoder:
    def __init__(self, package: Package, name: str, *, threads: int = 1) -> None:
        self._worker = Worker(f"kho-rerank-{package}", lambda: load_scorer(package, name, threads), alone=True)

    async def scores(self, query: str, passages: Sequence[str]) -> list[float]:
        if not passages:
            return []
        texts = [whole(text[:TEXT]) for text in passages]
        raw = await self._worker.soon(lambda score: [float(number) for number in score(whole(query[:TEXT]), texts)])
        return into_unit(raw, logits=True)

    async def aclose(self) -> None:
        await self._worker.aclose()


def load_scorer(package: Package, name: str, threads: int) -> Score:
    """Both give logits here."""

    def fastembed() -> Score:
        module: Any = __import__("fastembed.rerank.cross_encoder", fromlist=["TextCrossEncoder"])
        model = module.TextCrossEncoder(model_name=name, threads=threads)
        return lambda query, texts: model.rerank(query, texts)

    def sentence_transformers() -> Score:
        library: Any = __import__("sentence_transformers")
        torch: Any = __import__("torch")
        torch.set_num_threads(threads)
        # Left to itself the library applies a sigmoid to some models and not to others.
        model = library.CrossEncoder(name, num_labels=1)
        return lambda query, texts: model.predict(
            [(query, text) for text in texts], activation_fn=torch.nn.Identity(), show_progress_bar=False
        )

    return loaded(package, name, fastembed if package == "fastembed" else sentence_transformers)
