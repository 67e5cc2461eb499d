"""Near-duplicates by MinHash: texts that share most of their words share a band, which one index look-up finds.

Eight bands of five hashes find two texts that are 80 % alike with a probability of 96 %, and texts that are 40 % alike
with one of 8 %; who is found is then compared word by word.
"""

from collections.abc import Set
from hashlib import blake2b
from random import Random

BANDS, ROWS = 8, 5
_PRIME = (1 << 61) - 1
_random = Random(20260728)  # fixed: the bands are stored
_HASHES = [(_random.randrange(1, _PRIME), _random.randrange(_PRIME)) for _ in range(BANDS * ROWS)]


def bands(words: Set[str]) -> list[int]:
    """One signed 64-bit number per band; none for a text without words."""
    if not words:
        return []
    numbers = [int.from_bytes(blake2b(word.encode(), digest_size=7).digest()) for word in words]
    lowest = [min((a * number + b) % _PRIME for number in numbers) for a, b in _HASHES]
    return [_digest(band, lowest[band * ROWS : (band + 1) * ROWS]) for band in range(BANDS)]


def _digest(band: int, hashes: list[int]) -> int:
    text = ",".join(map(str, (band, *hashes))).encode()
    return int.from_bytes(blake2b(text, digest_size=8).digest(), signed=True)


def likeness(a: Set[str], b: Set[str]) -> float:
    """The share of all their words that both have."""
    return len(a & b) / len(a | b) if a or b else 0.0
