"""Near-duplicates by MinHash: texts that share most of their words share a band, which one index look-up finds.

Eight bands of five hashes find two texts that are 80 % alike with a probability of 96 %, and texts that are 40 % alike
with one of 8 %; candidates are then compared word by word.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from hashlib import blake2b
from random import Random

from kho.kernel.ports import Tx
from kho.lib.sql import number_of

BANDS, ROWS = 8, 5
EACH = 32
"""Maximum documents read per band: a band that many share tells nothing, and so the work stays bounded."""
_PRIME = (1 << 61) - 1
_random = Random(20260728)  # fixed seed: the bands are stored
_HASHES = [(_random.randrange(1, _PRIME), _random.randrange(_PRIME)) for _ in range(BANDS * ROWS)]


def bands(words: Set[str]) -> list[int]:
    """Return one signed 64-bit number per band; none for a text without words."""
    if not words:
        return []
    numbers = [int.from_bytes(blake2b(word.encode(), digest_size=7).digest()) for word in words]
    lowest = [min((a * number + b) % _PRIME for number in numbers) for a, b in _HASHES]
    banded = ((band, *lowest[band * ROWS : (band + 1) * ROWS]) for band in range(BANDS))
    return [number_of(",".join(map(str, one))) for one in banded]


def likeness(a: Set[str], b: Set[str]) -> float:
    """Return the share of all their words that both have (Jaccard similarity)."""
    return len(a & b) / len(a | b) if a or b else 0.0


def put(tx: Tx, space: str, tenant: str, collection: str, documents: Mapping[str, Iterable[int]]) -> None:
    """Store the bands of documents, by key, replacing earlier ones."""
    if documents:
        drop(tx, space, tenant, collection, documents)
        tx.many(
            "INSERT INTO similarity_bands (space, tenant, collection, band, key) VALUES ($1, $2, $3, $4, $5)",
            [(space, tenant, collection, band, key) for key in documents for band in sorted(set(documents[key]))],
        )


def move(tx: Tx, space: str, tenant: str, before: str, collection: str, keys: Iterable[str]) -> None:
    tx.many(
        "UPDATE similarity_bands SET collection = $1 WHERE space = $2 AND tenant = $3 AND collection = $4 AND key = $5",
        [(collection, space, tenant, before, key) for key in keys],
    )


def drop(tx: Tx, space: str, tenant: str, collection: str, keys: Iterable[str]) -> None:
    sql = "DELETE FROM similarity_bands WHERE space = $1 AND tenant = $2 AND collection = $3 AND key = $4"
    tx.many(sql, [(space, tenant, collection, key) for key in keys])


def find(tx: Tx, space: str, tenant: str, collection: str, bands: Sequence[int], limit: int) -> list[str]:
    """Return the keys of documents that share bands, those that share most first."""
    if not bands:
        return []
    each = " UNION ALL ".join(
        "SELECT key FROM (SELECT key FROM similarity_bands WHERE space = $1 AND tenant = $2 AND collection = $3 "
        f"AND band = ${n} LIMIT {EACH}) AS b{n}"
        for n in range(4, len(bands) + 4)
    )
    sql = (
        f"SELECT key, count(*) AS shared FROM ({each}) AS shares GROUP BY key ORDER BY shared DESC, key "
        f"LIMIT ${len(bands) + 4}"
    )
    return [row[0] for row in tx.all(sql, space, tenant, collection, *bands, limit)]
