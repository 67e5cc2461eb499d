"""Digests that replace names in an index: numbers compare faster than texts, and take less space."""

from hashlib import blake2b


def digest(*parts: str, size: int = 8) -> bytes:
    """Return a few bytes that identify the parts, whatever they contain."""
    return blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=size).digest()


def number_of(*parts: str) -> int:
    """Return a digest of 64 bits as a number that both databases can store."""
    return int.from_bytes(digest(*parts), "big", signed=True)
