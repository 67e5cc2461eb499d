"""Condenses the text that a user is working on into what helps to understand the question."""

from collections import Counter
from math import log

from kho.lib.chunking.graphemes import boundary
from kho.lib.chunking.sentences import sentences
from kho.search.text.tokens import FUNCTION_WORD, index_tokens, query_tokens

BEGINNING, END = 24_000, 8_000
"""Characters read from the start and from the end of a long text: these parts say most."""
MAX_CONTEXT = 1_600
"""Maximum characters kept: about what a model reads at once."""
MAX_SENTENCE = 400
"""Maximum characters of a sentence."""
ASKED = 3.0
"""Weight factor of words that are also in the question: the text around them shows what is meant."""


def keywords(text: str, most: int = 12) -> str:
    """Return the most frequent telling words of a text, folded. Few, so that a text that shares some shares a good part
    of them."""
    held = Counter(index_tokens(_bounded(text)))
    weights = _weights([held], "")
    words = [token for token in weights if len(token) > 1 and not token.isdigit()]
    return " ".join(sorted(words, key=lambda token: (-weights[token], token))[:most])


def gist(text: str, question: str = "") -> str:
    """Return a short text unchanged, and of a long one the sentences with the most weight (frequent words and the
    question's), in their order. Takes milliseconds: do not run it in the event loop."""
    text = text.strip()
    if len(text) <= MAX_CONTEXT:
        return text
    text = _bounded(text)
    found = [(start, min(end, boundary(text, start + MAX_SENTENCE))) for start, end in sentences(text, 0, len(text))]
    held = [Counter(index_tokens(text[start:end])) for start, end in found]
    weights = _weights(held, question)
    worth = [sum(weights.get(token, 0.0) for token in one) / (20 + sum(one.values())) for one in held]
    chosen: dict[str, int] = {}
    room = MAX_CONTEXT
    for place in sorted(range(len(found)), key=lambda place: (-worth[place], place)):
        sentence = text[found[place][0] : found[place][1]].strip()
        if len(sentence) < room and worth[place] > 0 and sentence not in chosen:
            chosen[sentence] = place
            room -= len(sentence) + 1
    return " ".join(sorted(chosen, key=lambda sentence: chosen[sentence]))


def _bounded(text: str) -> str:
    return text if len(text) <= BEGINNING + END else f"{text[:BEGINNING]}\n{text[-END:]}"


def _weights(held: list[Counter[str]], question: str) -> dict[str, float]:
    """Return the weight of each word: it grows with frequency; function words have none."""
    times: Counter[str] = Counter()
    for one in held:
        times.update(one)
    asked = {token for token, importance in query_tokens(question) if importance > FUNCTION_WORD}
    common = [token for token, number in times.most_common(400) if number > 1 or token in asked]
    meaning = dict(query_tokens(" ".join(common)))  # which of them are function words
    weights = {token: log(1 + times[token]) for token in common if meaning.get(token, 1.0) > FUNCTION_WORD}
    return {token: weight * (ASKED if token in asked else 1.0) for token, weight in weights.items()}
