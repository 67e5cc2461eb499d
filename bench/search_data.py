"""The rows and the questions that every search engine gets in `bench.search`: generated from a seed, nothing fetched.

Rows come in blocks, each from a seed of its own, so that a million of them never lie in memory at once and every
engine, in its own process, sees the same ones.

Texts: 80 to 120 words in English, Vietnamese or Chinese whose frequencies fall off as 1/rank; some words belong to the
row's topic. Vectors look like those of multilingual-e5-small, whose figures on real text they were fitted to: one
direction is common to all (unrelated texts have a cosine of about 0.75), the rest falls off over about 90 directions,
and texts of one topic lie together.
"""

import itertools
import unicodedata
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK = 5_000
DIMENSION = 384
TOPICS = 2_000
NEAREST = 10

_LATENT = 256
_FALL_OFF = 45.0
_COMMON = 0.75
"""The share of a vector's square that is the same in all: the cosine of two unrelated ones."""
_OF_TOPIC = 0.6
"""The share of the rest that texts of one topic have in common."""
_OF_SOURCE = 0.6
"""The cosine, apart from what is common to all, of a question and the text it was made from."""
_TOPIC_WORDS = 0.15
_LANGUAGES = (0.4, 0.35, 0.25)

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Block:
    ids: list[int]
    tenants: list[str]
    texts: list[str]
    vectors: Floats


@dataclass(frozen=True)
class Question:
    tenant: str
    text: str
    vector: Floats
    source: int
    """The row it was made from."""
    nearest: list[int]
    """The rows of its tenant with the nearest vectors, by exact search."""


def english() -> list[str]:
    common = (
        "the of and to in a is that for it as was with be by on not he his but at are this have from or had an they "
        "which one you were all her she there would their we him been has when who will no more if out so up said "
        "what its about than into them can only other time new some could these two may first then do now"
    ).split()
    starts = "b bl br c ch cl cr d dr f fl fr g gl gr h j k l m n p pl pr qu r s sc sh sl sp st str t th tr v w".split()
    middles = ["a", "e", "i", "o", "u", "ea", "ou", "ai"]
    ends = "ck d ft l ll m nd ng nt p r rd rk rm rt s ss st t x".split()
    stems = ["".join(parts) for parts in itertools.product(starts, middles, ends)]
    suffixes = ("", "s", "ed", "ing", "er", "ly", "tion")
    return [*common, *(stem + suffix for suffix in suffixes for stem in stems)]


def vietnamese() -> list[str]:
    starts = "b c ch d đ g gi h kh l m n ng nh ph qu r s t th tr v x".split()
    rhymes = (
        "a ai am an ang anh ao au ay ăm ăn ăng âm ân âng âu ây e em en eo ê êm ên ênh êu i iêm iên iêng iêu im in "
        "inh iu o oa oai oan om on ong oi ô ôi ôm ôn ông ơ ơi ơn u ua uân ui un ung uôi uôn uông ư ưa ưng ươi ương ươn"
    ).split()
    tones = ["", "\u0300", "\u0301", "\u0309", "\u0303", "\u0323"]

    def toned(rhyme: str, tone: str) -> str:
        at = next((i for i, letter in enumerate(rhyme) if letter in "ăâêôơư"), 0)
        return unicodedata.normalize("NFC", rhyme[: at + 1] + tone + rhyme[at + 1 :])

    return [start + toned(rhyme, tone) for start, rhyme, tone in itertools.product(starts, rhymes, tones)]


def chinese() -> list[str]:
    single = [chr(code) for code in range(0x4E00, 0x4E00 + 400, 3)]
    first, second = range(0x5200, 0x5200 + 600, 3), range(0x6210, 0x6210 + 400, 2)
    return [*single, *(chr(a) + chr(b) for a, b in itertools.product(first, second))]


class Corpus:
    def __init__(self, rows: int, tenants: int = 10, seed: int = 3) -> None:
        self.rows, self.tenants, self._seed = rows, tenants, seed
        fixed = np.random.default_rng([seed, 0])
        # Shuffled, because in the lists words of one kind stand together; the little words stay in front.
        self._words: list[NDArray[np.object_]] = []
        for words, kept in ((english(), 80), (vietnamese(), 0), (chinese(), 40)):
            order = fixed.permutation(np.arange(kept, len(words))).tolist()
            self._words.append(np.array([*words[:kept], *(words[place] for place in order)], dtype=object))
        self._chances: list[NDArray[np.float64]] = [
            np.cumsum(1 / (np.arange(len(words)) + 3.0)) for words in self._words
        ]
        scale = np.exp(-np.arange(_LATENT) / _FALL_OFF / 2)
        turned: NDArray[np.float64] = np.linalg.qr(fixed.standard_normal((DIMENSION, DIMENSION)))[0]
        self._common = (np.sqrt(_COMMON) * turned[-1]).astype(np.float32)
        spread = (scale / np.linalg.norm(scale))[:, None] * turned[:_LATENT]
        self._spread = (np.sqrt(1 - _COMMON) * spread).astype(np.float32)
        self._topics = fixed.standard_normal((TOPICS, _LATENT), dtype=np.float32)

    def tenant(self, row: int) -> str:
        return f"t{row % self.tenants}"

    def blocks(self) -> Generator[Block, None, None]:
        for first in self._firsts():
            ids = list(range(first, min(first + BLOCK, self.rows)))
            texts = [as_text(language, words) for language, words in self._drawn(first)]
            yield Block(ids, [self.tenant(row) for row in ids], texts, self._vectors(self._latent(first)))

    def questions(self, count: int) -> list[Question]:
        """Questions made from rows taken at random, and what exact search finds for each: one pass over all vectors."""
        rng = np.random.default_rng([self._seed, 1])
        sources: list[int] = rng.choice(self.rows, size=min(count, self.rows), replace=False).tolist()
        asked: dict[int, tuple[str, Floats]] = {}
        for first, own in itertools.groupby(sorted(sources), key=block_of):
            drawn, latent = self._drawn(first), self._latent(first)
            for row in own:
                language, words = drawn[row - first]
                asked[row] = self._question(row, language, words, latent[row - first])
        nearest = self._nearest(sources, np.stack([asked[row][1] for row in sources]))
        return [
            Question(self.tenant(row), *asked[row], row, found) for row, found in zip(sources, nearest, strict=True)
        ]

    def _nearest(self, sources: Sequence[int], vectors: Floats) -> list[list[int]]:
        best: list[list[tuple[float, int]]] = [[] for _ in sources]
        for first in self._firsts():
            cosines = vectors @ self._vectors(self._latent(first)).T
            for place, source in enumerate(sources):
                start = (source - first) % self.tenants
                own = cosines[place, start :: self.tenants]
                top = np.argsort(own)[-NEAREST:].tolist()
                best[place] += [(float(own[i]), first + start + i * self.tenants) for i in top]
                best[place] = sorted(best[place], reverse=True)[:NEAREST]
        return [[row for _, row in found] for found in best]

    def _firsts(self) -> range:
        return range(0, self.rows, BLOCK)

    def _topics_of(self, first: int) -> NDArray[np.int64]:
        count = min(BLOCK, self.rows - first)
        return np.random.default_rng([self._seed, 2, first]).integers(TOPICS, size=count)

    def _latent(self, first: int) -> Floats:
        """The vectors of a block before they are spread over all directions."""
        topics = self._topics[self._topics_of(first)]
        noise = np.random.default_rng([self._seed, 3, first]).standard_normal(topics.shape, dtype=np.float32)
        return (np.sqrt(_OF_TOPIC) * topics + np.sqrt(1 - _OF_TOPIC) * noise).astype(np.float32)

    def _drawn(self, first: int) -> list[tuple[int, list[str]]]:
        """The language and the words of each row of a block."""
        rng, topics = np.random.default_rng([self._seed, 4, first]), self._topics_of(first)
        lengths = rng.integers(80, 121, size=len(topics))
        languages = rng.choice(len(_LANGUAGES), size=len(topics), p=_LANGUAGES)
        rows: list[tuple[int, list[str]]] = [(0, [])] * len(topics)
        for language, (vocabulary, chances) in enumerate(zip(self._words, self._chances, strict=True)):
            own = np.flatnonzero(languages == language)
            ends = np.cumsum(lengths[own])
            total = int(ends[-1]) if len(own) else 0
            drawn = rng.random(total) * chances[-1]
            places = np.asarray(np.searchsorted(chances, drawn), dtype=np.int64)
            # About twenty words belong to a topic, anywhere in the vocabulary.
            of_topic = np.repeat(topics[own], lengths[own]) * 7919 + rng.integers(20, size=total) * 104_729
            places = np.where(rng.random(total) < _TOPIC_WORDS, of_topic % len(vocabulary), places)
            words: list[str] = vocabulary[places].tolist()
            for row, start, end in zip(own.tolist(), (ends - lengths[own]).tolist(), ends.tolist(), strict=True):
                rows[row] = (language, words[start:end])
        return rows

    def _question(self, row: int, language: int, words: list[str], latent: Floats) -> tuple[str, Floats]:
        rng = np.random.default_rng([self._seed, 5, row])
        start, length = int(rng.integers(len(words) - 8)), int(rng.integers(4, 9))
        noise = rng.standard_normal(_LATENT, dtype=np.float32)
        moved = _OF_SOURCE * latent + np.sqrt(1 - _OF_SOURCE**2) * noise
        text = ("" if language == 2 else " ").join(words[start : start + length])
        return text, self._vectors(moved[None, :].astype(np.float32))[0]

    def _vectors(self, latent: Floats) -> Floats:
        vectors = latent @ self._spread + self._common
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors.astype(np.float32)


def block_of(row: int) -> int:
    """The first row of its block."""
    return row // BLOCK * BLOCK


def as_text(language: int, words: list[str]) -> str:
    inner, between, end = ("", "，", "。") if language == 2 else (" ", ". ", ".")
    return between.join(inner.join(words[at : at + 12]) for at in range(0, len(words), 12)) + end


def save(questions: Sequence[Question], path: Path) -> None:
    np.savez(
        path,
        tenants=np.array([question.tenant for question in questions]),
        texts=np.array([question.text for question in questions]),
        vectors=np.stack([question.vector for question in questions]),
        sources=np.array([question.source for question in questions]),
        nearest=np.array([question.nearest for question in questions]),
    )


def load(path: Path) -> Iterator[Question]:
    with np.load(path) as kept:
        columns: list[Any] = [kept[name] for name in ("tenants", "texts", "vectors", "sources", "nearest")]
    for tenant, text, vector, source, nearest in zip(*columns, strict=True):
        yield Question(str(tenant), str(text), vector, int(source), nearest.tolist())
