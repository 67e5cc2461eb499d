"""The encoder of multilingual-e5-small on numpy: twelve layers of attention and feed-forward.

Texts are concatenated without padding, so that every weight matrix is multiplied with all tokens at once; only
attention goes text by text. Everything is float32, and BLAS does nearly all of the work.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from kho.lib.dataclass import dataclass
from kho.models.e5.weights import WORD_EMBEDDINGS, WeightsFile, unpack

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kho.kernel.ports import Matrix, Vector

GELU_ROWS = 32
"""Rows of the feed-forward part that stay in the CPU's cache while GELU is applied to them."""


@dataclass(frozen=True, slots=True)
class Layer:
    qkv: "Matrix"
    """Queries, keys and values in one matrix; the queries are already scaled."""
    qkv_bias: "Vector"
    out: "Matrix"
    out_bias: "Vector"
    out_norm: "tuple[Vector, Vector]"
    up: "Matrix"
    up_bias: "Vector"
    down: "Matrix"
    down_bias: "Vector"
    down_norm: "tuple[Vector, Vector]"


class Encoder:
    def __init__(self, file: WeightsFile) -> None:
        self.shape = file.shape
        self._words = file.packed(WORD_EMBEDDINGS, self.shape.width)
        # Every token is of the first type.
        self._places = file.plain("emb.pos").reshape(-1, self.shape.width) + file.plain("emb.type")[: self.shape.width]
        self._norm = (file.plain("emb.ln.w"), file.plain("emb.ln.b"))
        self._layers = [_layer(file, number) for number in range(self.shape.layers)]

    def states(self, texts: Sequence[Sequence[int]]) -> "list[Matrix]":
        """Return the last layer's state of every token, one matrix per text. At most `shape.positions` tokens a
        text."""
        import numpy as np

        edges = np.cumsum([0, *map(len, texts)]).tolist()
        tokens = np.concatenate([np.asarray(ids, np.int64) for ids in texts])
        x = unpack(self._words[tokens])
        for start, end in pairwise(edges):
            x[start:end] += self._places[: end - start]
        _normalise(x, self._norm, self.shape.epsilon)
        room = _Room(len(tokens), self.shape.width, self.shape.inner)
        with np.errstate(over="ignore"):
            for layer in self._layers:
                self._attend(x, layer, edges, room)
                self._feed(x, layer, room)
        return [x[start:end] for start, end in pairwise(edges)]

    def _attend(self, x: "Matrix", layer: Layer, edges: list[int], room: "_Room") -> None:
        import numpy as np

        heads, size = self.shape.heads, self.shape.width // self.shape.heads
        qkv = np.matmul(x, layer.qkv, out=room.qkv)
        qkv += layer.qkv_bias
        for start, end in pairwise(edges):
            # (three, heads, tokens, size): views of the rows of this text
            q, k, v = qkv[start:end].reshape(end - start, 3, heads, size).transpose(1, 2, 0, 3)
            weights = q @ k.transpose(0, 2, 1)
            weights -= weights.max(axis=-1, keepdims=True)
            np.exp(weights, out=weights)
            mixed = room.mixed[start:end].reshape(end - start, heads, size).transpose(1, 0, 2)
            np.matmul(weights, v, out=mixed)
            mixed /= weights.sum(axis=-1, keepdims=True)  # after the product: there are fewer numbers to divide
        np.matmul(room.mixed, layer.out, out=room.back)
        x += room.back
        x += layer.out_bias
        _normalise(x, layer.out_norm, self.shape.epsilon)

    def _feed(self, x: "Matrix", layer: Layer, room: "_Room") -> None:
        import numpy as np

        inner = np.matmul(x, layer.up, out=room.inner)
        for start in range(0, len(inner), GELU_ROWS):
            rows = inner[start : start + GELU_ROWS]
            rows += layer.up_bias
            _gelu(rows, room.curve[: len(rows)])
        np.matmul(inner, layer.down, out=room.back)
        x += room.back
        x += layer.down_bias
        _normalise(x, layer.down_norm, self.shape.epsilon)


class _Room:
    """Buffers for intermediate results, allocated once for all layers."""

    def __init__(self, tokens: int, width: int, inner: int) -> None:
        import numpy as np

        self.qkv = np.empty((tokens, 3 * width), np.float32)
        self.mixed = np.empty((tokens, width), np.float32)
        self.back = np.empty((tokens, width), np.float32)
        self.inner = np.empty((tokens, inner), np.float32)
        self.curve = np.empty((GELU_ROWS, inner), np.float32)


def _layer(file: WeightsFile, number: int) -> Layer:
    import numpy as np

    width, inner = file.shape.width, file.shape.inner

    def matrix(name: str, columns: int = width) -> "Matrix":
        return unpack(file.packed(f"l{number}.{name}.w", columns)).T

    def bias(name: str) -> "Vector":
        return file.plain(f"l{number}.{name}.b")

    def norm(name: str) -> "tuple[Vector, Vector]":
        return file.plain(f"l{number}.{name}.w"), file.plain(f"l{number}.{name}.b")

    scale = np.float32((width // file.shape.heads) ** -0.5)
    return Layer(
        qkv=np.concatenate([matrix("q") * scale, matrix("k"), matrix("v")], axis=1),
        qkv_bias=np.concatenate([bias("q") * scale, bias("k"), bias("v")]),
        out=np.ascontiguousarray(matrix("ao")),
        out_bias=bias("ao"),
        out_norm=norm("aln"),
        up=np.ascontiguousarray(matrix("fi")),
        up_bias=bias("fi"),
        down=np.ascontiguousarray(matrix("fo", inner)),
        down_bias=bias("fo"),
        down_norm=norm("oln"),
    )


def _normalise(x: "Matrix", norm: "tuple[Vector, Vector]", epsilon: float) -> None:
    """Layer normalisation in place."""
    import numpy as np

    x -= x.mean(axis=1, keepdims=True)
    spread = np.einsum("ij,ij->i", x, x)
    spread /= x.shape[1]
    spread += epsilon
    np.sqrt(spread, out=spread)
    x /= spread[:, None]
    x *= norm[0]
    x += norm[1]


def _gelu(x: "NDArray[np.float32]", room: "NDArray[np.float32]") -> None:
    """GELU in place, x / (1 + exp(-2 u)): the usual tanh form, written with numpy's fastest functions."""
    import numpy as np

    np.multiply(x, x, out=room)
    room *= -2 * 0.0356774081
    room += -2 * 0.7978845608
    room *= x
    np.exp(room, out=room)  # may be infinite far below zero; GELU is 0 there
    room += 1.0
    x /= room
