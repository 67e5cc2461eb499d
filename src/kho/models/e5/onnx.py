"""Writes ONNX models: as much of the format as the encoder's graph needs. The package `onnx` would be 30 MB for it.

A model is a protobuf message. The numbers below are those of the fields in onnx.proto.
"""

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

IR_VERSION, OPSET = 8, 17
FLOAT, INT8 = 1, 3
"""Types of tensors."""
STANDARD, MICROSOFT = "", "com.microsoft"
"""Whose operators: the standard's, or onnxruntime's own, which do in one step what takes several of the standard's."""
Attribute = int | float | list[int]


def constant(name: str, array: "NDArray[np.float32 | np.int8]") -> bytes:
    dims = b"".join(_number(1, size) for size in array.shape)
    kind = INT8 if array.dtype.itemsize == 1 else FLOAT
    return _block(5, dims + _number(2, kind) + _text(8, name) + _block(9, array.tobytes()))


def node(
    operator: str, inputs: Sequence[str], outputs: Sequence[str], domain: str, attributes: dict[str, Attribute]
) -> bytes:
    names = b"".join(_text(1, name) for name in inputs) + b"".join(_text(2, name) for name in outputs)
    settings = b"".join(_block(5, _attribute(name, value)) for name, value in attributes.items())
    return _block(1, names + _text(4, operator) + settings + _text(7, domain))


def model(parts: Sequence[bytes], source: str, result: str, shape: Sequence[str | int]) -> bytes:
    """Nodes and constants as a model with one input and one output, both of this shape; a name is any size."""
    dims = b"".join(_block(1, _text(2, dim) if isinstance(dim, str) else _number(1, dim)) for dim in shape)
    kind = _block(2, _block(1, _number(1, FLOAT) + _block(2, dims)))
    ends = _block(11, _text(1, source) + kind) + _block(12, _text(1, result) + kind)
    domains = _block(8, _text(1, STANDARD) + _number(2, OPSET)) + _block(8, _text(1, MICROSOFT) + _number(2, 1))
    graph = [_text(2, "graph"), ends, *parts]
    head = _number(1, IR_VERSION) + domains + _head(7, sum(map(len, graph)))
    return b"".join([head, *graph])  # one copy: it is some 20 MB


def _attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, list):
        content = b"".join(_number(8, number) for number in value) + _number(20, 7)
    elif isinstance(value, int):
        content = _number(3, value) + _number(20, 2)
    else:
        content = b"\x15" + struct.pack("<f", value) + _number(20, 1)
    return _text(1, name) + content


def _varint(number: int) -> bytes:
    number &= 2**64 - 1  # a negative number takes ten bytes
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _head(field: int, size: int) -> bytes:
    return _varint(field << 3 | 2) + _varint(size)


def _block(field: int, content: bytes) -> bytes:
    return _head(field, len(content)) + content


def _text(field: int, text: str) -> bytes:
    return _block(field, text.encode())
