"""Searching: words and meaning at once, the best few looked at closely, one ranked list, pages cut from it."""

import asyncio
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from kho.kernel.call import Left, until
from kho.kernel.errors import KhoError
from kho.kernel.ports import Database, Embedder, Reranker, SearchFilter, Tx, Vectors, WordMatches, Words
from kho.search.indexing import passages
from kho.search.indexing.embedding_queue import text_of
from kho.search.indexing.passages import StoredPassage
from kho.search.query import scoring, semantic
from kho.search.query.parsed_query import ParsedQuery
from kho.search.query.ranking_cache import (
    FIRST_PAGE,
    MAX_RANKINGS,
    RankedPassage,
    Ranking,
    RankingCache,
    cursor_for,
    mark_of,
    place_of,
)
from kho.search.query.scoring import ScoreParts
from kho.search.query.semantic import NEAREST, SemanticResult, SemanticSearch

MAX_RANKED = 100
"""Passages that a ranked list has at most, unless the caller asks for more."""
BY_WORDS = 20
"""The best by words that are looked at closely, beside the nearest in meaning."""
READ_LITERALLY = 1_000
"""… and when the query quotes, whatever holds the quotation, of so many: only the text tells whether the words stand
side by side."""
RERANKED = 24
"""Passages that a re-ranking model is shown."""
TAIL = 0.8
"""What a passage that was not looked at closely gets for its words, if none that was has any of them."""
WORTH = 0.3
"""The share of the best score below which a passage is noise beside it."""
MODEL_TIMEOUT = 2.5
"""Seconds that an answer waits for the model, which may have to be loaded. Then the words answer alone."""
MAX_PENDING = 10_000


@dataclass(frozen=True, slots=True)
class SearchLimits:
    timeout: float = 10.0
    patience: float = MODEL_TIMEOUT
    lean: float | None = None
    """How much the words decide, whatever the query looks like. To measure with: None lets the query decide."""
    look: bool = True
    """Whether the best are looked at closely. To measure what that is worth."""
    lists: int = MAX_RANKINGS
    """Ranked lists that are kept."""


@dataclass(frozen=True, slots=True)
class SearchHit:
    passage: StoredPassage
    score: float
    parts: ScoreParts


@dataclass(frozen=True, slots=True)
class SearchResults:
    hits: list[SearchHit]
    total: int
    cursor: str | None
    notes: tuple[str, ...]
    pending: int


Label = tuple[str, str, str]
"""The collection, key and digest of a passage."""


@dataclass(frozen=True, slots=True)
class _First:
    """What the word index brings, and how things stood when it did."""

    version: int
    pending: int
    matched: WordMatches


@dataclass(frozen=True, slots=True)
class _Looked:
    """The passages that are still there, and what their words are worth."""

    passages: list[StoredPassage]
    parts: list[ScoreParts]
    rest: dict[int, Label]
    """Of those that have some of the words, but were not looked at closely."""

    def labels(self) -> dict[int, Label]:
        closely = {one.ref.seq: (one.ref.collection, one.key, one.digest) for one in self.passages}
        return {**self.rest, **closely}


class Searcher:
    def __init__(
        self,
        db: Database,
        words: Words,
        vectors: Vectors | None = None,
        embedder: Embedder | None = None,
        reranker: Reranker | None = None,
        limits: SearchLimits | None = None,
    ) -> None:
        self._db = db
        self._words = words
        self._reranker = reranker
        self._limits = limits or SearchLimits()
        self._meaning = (
            None
            if vectors is None or embedder is None
            else SemanticSearch(db, vectors, embedder, self._limits.patience)
        )
        self._lists = RankingCache(self._limits.lists)

    async def search(
        self,
        where: SearchFilter,
        text: str,
        *,
        limit: int = 10,
        cursor: str | None = None,
        per_key: bool = False,
        timeout: float | None = None,
    ) -> SearchResults:
        """One page. `per_key` gives each document one place in the list, its best passage's."""
        mark = mark_of(where, text, per_key)
        start, version = place_of(cursor, mark)
        left = until(self._time(timeout))
        ranking = await self.ranking(where, text, per_key=per_key, timeout=left(), version=version)
        page = ranking.ranked[start : start + limit]
        texts = ranking.texts
        if any(one.seq not in texts for one in page):
            seqs = [one.seq for one in page]
            texts = await self._db.read(lambda tx: passages.get(tx, where, seqs), timeout=left())
        return SearchResults(
            [SearchHit(texts[one.seq], one.score, one.parts) for one in page if one.seq in texts],
            len(ranking.ranked),
            cursor_for(start + limit, ranking, mark),
            ranking.notes,
            ranking.pending,
        )

    async def ranking(
        self,
        where: SearchFilter,
        text: str,
        *,
        depth: int = MAX_RANKED,
        per_key: bool = False,
        timeout: float | None = None,
        version: int | None = None,
    ) -> Ranking:
        """The whole list. With `version`, the list that a page was cut from, if it is still remembered."""
        left = until(self._time(timeout))
        asked = ParsedQuery(text)
        if not asked.tokens:
            return Ranking([])
        mark = mark_of(where, text, per_key)
        known = None if version is None else self._lists.find(mark, depth, version)
        if known is None and self._lists.knows(mark, depth):
            now = await self._db.read(lambda tx: passages.version(tx, where.space, where.tenant), timeout=left())
            known = self._lists.find(mark, depth, now)
            if known is not None and known.notes:  # an answer for want of something is good for its next page only
                known = None
        if known is None:
            known = await self._rank(asked, where, depth, per_key, left)
            self._lists.keep(mark, depth, known)
        return known

    async def likeness(
        self, where: SearchFilter, text: str, seqs: Sequence[int], *, timeout: float | None = None
    ) -> dict[int, float]:
        """How near some passages are to a text, in 0..1: by its words, and by its meaning where that is to be had. What
        a list that is there already can be ordered by."""
        left = until(self._time(timeout))
        asked = ParsedQuery(text)
        if not asked.tokens or not seqs:
            return {}
        matched, meant = await asyncio.gather(
            self._db.read(lambda tx: self._words.match(tx, where, asked.tokens, 0), timeout=left()),
            _nothing() if self._meaning is None else self._meaning.near(asked, where, left),
        )
        looked, parts = await self._look(asked, where, matched, meant, seqs, left)
        lean = 1.0 if meant.question is None else self._lean(asked, looked.passages)
        return {one.ref.seq: scoring.score(part, lean) for one, part in zip(looked.passages, parts, strict=True)}

    def _time(self, timeout: float | None) -> float:
        return self._limits.timeout if timeout is None else min(timeout, self._limits.timeout)

    async def _rank(self, asked: ParsedQuery, where: SearchFilter, depth: int, per_key: bool, left: Left) -> Ranking:
        deep = max(depth, READ_LITERALLY) if asked.phrases else depth
        first, meant = await asyncio.gather(
            self._db.read(lambda tx: self._first(tx, where, asked, deep), timeout=left()),
            _nothing() if self._meaning is None else self._meaning.near(asked, where, left),
        )
        matched = first.matched
        chosen = _worth_a_look(matched, meant.near)
        looked, parts = await self._look(asked, where, matched, meant, chosen, left)
        if not scoring.convincing(parts, asked, matched.rarity):
            return Ranking([], meant.notes, first.pending, first.version)
        lean = 1.0 if meant.question is None else self._lean(asked, looked.passages)
        full = _attainable(asked, looked.passages, parts, lean)
        most = 1.0 if asked.is_telling else scoring.UNTELLING
        ranked = sorted(
            (
                RankedPassage(one.ref.seq, one.key, most * min(1.0, scoring.score(part, lean) / full), part)
                for one, part in zip(looked.passages, parts, strict=True)
                if scoring.counts(part)
            ),
            key=_order,
        )
        worth = ranked[0].score * WORTH if ranked else 0.0
        ranked = [one for one in ranked if one.score >= worth]
        texts = {one.ref.seq: one for one in looked.passages}
        notes = meant.notes
        if self._reranker is not None and ranked:
            ranked, notes = await self._rerank(self._reranker, asked, ranked, texts, notes, left)
        ranked += _tail(matched, looked.rest, ranked, most)
        ranked = _once(sorted(ranked, key=_order), looked.labels(), per_key)[:depth]
        at_hand = {one.seq: texts[one.seq] for one in ranked[:FIRST_PAGE] if one.seq in texts}
        return Ranking(ranked, notes, first.pending, first.version, at_hand)

    def _first(self, tx: Tx, where: SearchFilter, asked: ParsedQuery, most: int) -> _First:
        return _First(
            passages.version(tx, where.space, where.tenant),
            passages.pending(tx, where, MAX_PENDING),
            self._words.match(tx, where, asked.tokens, most),
        )

    def _lean(self, asked: ParsedQuery, looked: Sequence[StoredPassage]) -> float:
        return scoring.lean(asked, looked) if self._limits.lean is None else self._limits.lean

    async def _look(
        self,
        asked: ParsedQuery,
        where: SearchFilter,
        matched: WordMatches,
        meant: SemanticResult,
        chosen: Sequence[int],
        left: Left,
    ) -> tuple[_Looked, list[ScoreParts]]:
        """The closer look, by words and by meaning at once."""
        reading = self._db.read(lambda tx: self._read(tx, asked, where, matched, chosen), timeout=left())
        if self._meaning is None:
            looked = await reading
            return looked, looked.parts
        looked, vectors = await asyncio.gather(reading, self._meaning.vectors(meant, where, chosen, left))
        if asked.phrases:  # then more were read than had been chosen
            more = [one.ref.seq for one in looked.passages if one.ref.seq not in vectors]
            vectors |= await self._meaning.vectors(meant, where, more, left)
        return looked, semantic.added(asked, meant, looked.passages, looked.parts, vectors)

    def _read(
        self, tx: Tx, asked: ParsedQuery, where: SearchFilter, matched: WordMatches, chosen: Sequence[int]
    ) -> _Looked:
        texts = passages.get(tx, where, chosen)
        closely = [texts[seq] for seq in chosen if seq in texts]
        if asked.phrases:
            least = scoring.share_of_phrases(asked, matched.rarity)
            more = [seq for seq, share in matched.found if share >= least and seq not in texts]
            closely += (one for one in passages.get(tx, where, more).values() if scoring.quoted(asked, one))
        seqs = {one.ref.seq for one in closely}
        if self._limits.look:
            counted = self._words.counted(tx, where, list(seqs), matched.rarity)
            parts = scoring.lexical(asked, matched.rarity, closely, counted)
        else:
            shares = dict(matched.found)
            parts = [ScoreParts(share, share) for share in (shares.get(one.ref.seq, 0.0) for one in closely)]
        rest = [seq for seq, share in matched.found if seq not in seqs and share >= scoring.SOME_WORDS]
        return _Looked(closely, parts, passages.labels(tx, where, rest))

    async def _rerank(
        self,
        reranker: Reranker,
        asked: ParsedQuery,
        ranked: list[RankedPassage],
        texts: dict[int, StoredPassage],
        notes: tuple[str, ...],
        left: Left,
    ) -> tuple[list[RankedPassage], tuple[str, ...]]:
        first, rest = ranked[:RERANKED], ranked[RERANKED:]
        try:
            shown = [text_of(texts[one.seq]) for one in first]
            async with asyncio.timeout(left()):
                scores = await reranker.scores(asked.beginning, shown)
        except (KhoError, TimeoutError) as failure:
            reason = failure.message if isinstance(failure, KhoError) else "It took too long."
            return ranked, (*notes, f"Not re-ranked. {reason}")
        judged = [replace(one, score=(one.score + score) / 2) for one, score in zip(first, scores, strict=True)]
        lowest = min(one.score for one in judged)
        return sorted(judged, key=_order) + [replace(one, score=min(one.score, lowest)) for one in rest], notes


async def _nothing() -> SemanticResult:
    return SemanticResult()


def _worth_a_look(matched: WordMatches, near: Sequence[tuple[int, float]]) -> list[int]:
    """The best by words and the best by meaning. Only the words, if nothing lies near."""
    most = BY_WORDS if near else BY_WORDS + NEAREST
    return list(dict.fromkeys([seq for seq, _ in (*matched.found[:most], *near)]))


def _attainable(asked: ParsedQuery, looked: Sequence[StoredPassage], parts: Sequence[ScoreParts], lean: float) -> float:
    """The score of a perfect passage. Where all passages are in other languages than the question, they cannot have its
    words, and the meaning has to do."""
    if lean == 1.0 or any(one.language in (asked.language, "") for one in looked):
        return 1.0
    best = max((part.words for part in parts), default=1.0)
    return lean * max(best, 0.3) + (1 - lean)


def _tail(
    matched: WordMatches, labels: dict[int, Label], ranked: Sequence[RankedPassage], most: float
) -> list[RankedPassage]:
    """What was not looked at closely: behind all that was, in the order of the words, and scored as a look would have
    found it, as far as the last one that had a look tells. `most` is what a full match is worth."""
    last = next((one for one in reversed(ranked) if one.parts.words >= scoring.SOME_WORDS), None)
    lowest, rate = (last.score, last.score / last.parts.words) if last else (most, most * TAIL)
    return [
        RankedPassage(seq, labels[seq][1], min(lowest, rate * share), ScoreParts(share, share))
        for seq, share in matched.found
        if seq in labels
    ]


def _once(ranked: Sequence[RankedPassage], labels: dict[int, Label], per_key: bool) -> list[RankedPassage]:
    """Each document once, or each text, where it ranks best."""
    kept: dict[Hashable, RankedPassage] = {}
    for one in ranked:
        collection, key, digest = labels[one.seq]
        kept.setdefault((collection, key) if per_key else digest, one)
    return list(kept.values())


def _order(one: RankedPassage) -> tuple[float, int]:
    """Best first, newest first among equals."""
    return -one.score, -one.seq
