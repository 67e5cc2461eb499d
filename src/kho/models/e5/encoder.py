"""The encoder of multilingual-e5-small on onnxruntime: text by text, so that nothing is padded and no text changes
another's vector, each on the caller's own thread.
"""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kho.kernel.errors import Unavailable
from kho.models.e5 import graph
from kho.models.e5.weights import WORD_EMBEDDINGS, WeightsFile, unpack

if TYPE_CHECKING:
    from kho.kernel.ports import Matrix


class Encoder:
    """May be used by several threads at once."""

    def __init__(self, file: WeightsFile) -> None:
        self.shape = file.shape
        self._words = file.packed(WORD_EMBEDDINGS, self.shape.width)
        # Every token is of the first type.
        self._places = file.plain("emb.pos").reshape(-1, self.shape.width) + file.plain("emb.type")[: self.shape.width]
        self._session = _session(graph.build(file))

    def states(self, tokens: Sequence[int]) -> "Matrix":
        """Return the last layer's state of every token. At most `shape.positions` tokens."""
        import numpy as np

        x = unpack(self._words[np.asarray(tokens, np.int64)])
        x += self._places[: len(x)]
        return self._session.run(None, {"x": x[None]})[0][0]


def _session(model: bytes) -> Any:
    # Its newer versions report to their maker what loads them, and keep a device id in the user's cache folder. That
    # begins with the import, before `disable_telemetry_events` can be called.
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    try:
        runtime: Any = __import__("onnxruntime")
    except ImportError as problem:
        raise Unavailable(f"onnxruntime, which runs the embedding model, cannot be loaded here: {problem}") from None
    runtime.disable_telemetry_events()
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    # Its optimizer has nothing to add but SkipLayerNormalization, which takes several times as long as its parts.
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    session._model_bytes = None  # it would keep these 20 MB for another attempt with other providers
    return session
