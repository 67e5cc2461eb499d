"""The model's layers as a graph for onnxruntime. It is made from the weights whenever they are loaded: that takes a
tenth of a second, and there is no second file that could be stale or damaged.

Weights are rounded to seven bits by column, activations to eight bits as they come: eight in both would overflow the
sixteen bits in which processors without VNNI add.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kho.models.e5 import onnx
from kho.models.e5.onnx import MICROSOFT, STANDARD
from kho.models.e5.weights import WeightsFile, unpack

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kho.kernel.ports import Matrix

MAX_WEIGHT = 63
"""The largest weight after rounding."""


def build(file: WeightsFile) -> bytes:
    """Return a model that turns the embeddings of a text's tokens into their last states, both (1, tokens, width)."""
    graph = _Graph(file)
    x = graph.norm("x", "emb.ln")
    for number in range(file.shape.layers):
        x = graph.layer(x, f"l{number}.")
    return onnx.model(graph.parts, "x", x, (1, "tokens", file.shape.width))


class _Graph:
    def __init__(self, file: WeightsFile) -> None:
        self._file = file
        self.parts: list[bytes] = []

    def layer(self, x: str, name: str) -> str:
        import numpy as np

        weights = np.concatenate([self._weights(f"{name}{part}") for part in "qkv"])
        bias = np.concatenate([self._file.plain(f"{name}{part}.b") for part in "qkv"])
        qkv = self._product(x, weights, self._constant(bias))
        parts = self._nodes("Split", [qkv], 3, axis=-1)
        mixed = self._node("MultiHeadAttention", parts, MICROSOFT, num_heads=self._file.shape.heads)
        out = self._product(mixed, self._weights(f"{name}ao"), self._plain(f"{name}ao.b"))
        x = self.norm(self._node("Add", [out, x]), f"{name}aln")
        up = self._product_by_row(x, self._weights(f"{name}fi"))
        inner = self._node("FastGelu", [up, self._plain(f"{name}fi.b")], MICROSOFT)
        down = self._product_by_row(inner, self._weights(f"{name}fo", self._file.shape.inner))
        out = self._node("Add", [down, self._plain(f"{name}fo.b")])
        return self.norm(self._node("Add", [out, x]), f"{name}oln")

    def norm(self, x: str, name: str) -> str:
        inputs = [x, self._plain(f"{name}.w"), self._plain(f"{name}.b")]
        return self._node("LayerNormalization", inputs, epsilon=self._file.shape.epsilon)

    def _product(self, x: str, weights: "Matrix", *bias: str) -> str:
        import numpy as np

        steps = np.maximum(weights.max(axis=1), -weights.min(axis=1)) / np.float32(MAX_WEIGHT)
        weights /= steps[:, None]
        rounded = np.rint(weights, out=weights).astype(np.int8).T
        inputs = [x, self._constant(rounded), self._constant(steps), "", *bias]
        return self._node("DynamicQuantizeMatMul", inputs, MICROSOFT)

    def _product_by_row(self, x: str, weights: "Matrix") -> str:
        """Give each row a step of its own: some numbers of the begin token are fifty times as large as any other, whose
        digits would be lost."""
        largest = self._node("ReduceMax", [self._node("Abs", [x])], axes=[-1])
        return self._node("Mul", [self._product(self._node("Div", [x, largest]), weights), largest])

    def _weights(self, name: str, columns: int = 0) -> "Matrix":
        return unpack(self._file.packed(f"{name}.w", columns or self._file.shape.width))

    def _plain(self, name: str) -> str:
        return self._constant(self._file.plain(name))

    def _constant(self, array: "NDArray[np.float32 | np.int8]") -> str:
        name = f"c{len(self.parts)}"
        self.parts.append(onnx.constant(name, array))
        return name

    def _node(self, operator: str, inputs: Sequence[str], domain: str = STANDARD, **attributes: onnx.Attribute) -> str:
        return self._nodes(operator, inputs, 1, domain, **attributes)[0]

    def _nodes(
        self, operator: str, inputs: Sequence[str], outputs: int, domain: str = STANDARD, **attributes: onnx.Attribute
    ) -> list[str]:
        names = [f"n{len(self.parts)}.{number}" for number in range(outputs)]
        self.parts.append(onnx.node(operator, inputs, names, domain, attributes))
        return names
