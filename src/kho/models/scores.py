"""Scores of rerankers, brought into 0..1."""

import math
from collections.abc import Iterable

from kho.kernel.errors import Unavailable


def into_unit(numbers: Iterable[float], *, logits: bool) -> list[float]:
    """Logits go through the sigmoid; probabilities stay as they are."""
    found = list(numbers)
    if not all(map(math.isfinite, found)):
        raise Unavailable("the reranker gave a score that is no number")
    # Written with tanh, which overflows nowhere.
    return [0.5 + 0.5 * math.tanh(number / 2) for number in found] if logits else found
