"""The default embedder: multilingual-e5-small, offline, without a key, on the CPU.

Passages are embedded in the background; queries have their own thread and never wait for them.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kho.models.e5 import weights
from kho.models.e5.runtime import PASSAGE, QUERY, Runtime
from kho.models.in_process import ModelThreads, batches

if TYPE_CHECKING:
    from kho.kernel.ports import Matrix, Vector

NAME = f"multilingual-e5-small/q4-{weights.FINGERPRINT}"
DIMENSION = 384
THREADS = 2
"""At most, for passages."""


class E5:
    def __init__(self, folder: Path | None = None, *, threads: int = THREADS) -> None:
        self._folder = folder
        self._worker = ModelThreads("kho-e5", self._load, lanes=threads)

    @property
    def model(self) -> str:
        return NAME

    async def dimension(self) -> int:
        return DIMENSION

    async def passages(self, texts: Sequence[str]) -> "Matrix":
        import numpy as np

        rows = await self._worker.later_each(batches(texts), lambda runtime, piece: runtime.vectors(piece, PASSAGE))
        return np.concatenate(rows) if rows else np.empty((0, DIMENSION), np.float32)

    async def query(self, text: str) -> "Vector":
        """Embed one window: real queries are not longer, and a pasted book must not block others."""
        rows = await self._worker.soon(lambda runtime: runtime.vectors([text], QUERY, windows=1))
        return rows[0]

    async def aclose(self) -> None:
        await self._worker.aclose()

    def _load(self) -> Runtime:
        return Runtime(weights.WeightsFile(weights.find(self._folder)))
