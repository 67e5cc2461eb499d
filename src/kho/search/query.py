"""Searching: words and meaning at once, the best few looked at closely, one ranked list, pages cut from it."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from time import monotonic
from typing import TYPE_CHECKING

from kho.kernel import paging
from kho.kernel.errors import InvalidParams, KhoError, Timeout
from kho.kernel.ports import Database, Embedder, Matched, Reranker, Tx, Vectors, Where, Words
from kho.search import passages, rank
from kho.search.asked import Asked
from kho.search.calibrate import Calibration, numbers_at_hand
from kho.search.filling import calibration_row, text_of
from kho.search.passages import Stored
from kho.search.rank import Parts

if TYPE_CHECKING:
    from kho.kernel.ports import Vector

log = logging.getLogger("kho.search")

DEPTH = 100
"""Passages that a ranked list has at most, unless the caller asks for more."""
BY_WORDS, BY_MEANING = 20, 32
"""Passages that are looked at closely: the best by words, and the best by meaning, of which the look changes more."""
READ_LITERALLY = 1_000
"""… and when the query quotes, whatever holds the quotation, of so many: only the text tells whether the words stand
side by side."""
RERANKED = 24
"""Passages that a re-ranking model is shown."""
TAIL = 0.8
"""What a passage that was not looked at closely gets for its words, if none that was has any of them."""
WORTH = 0.3
"""The share of the best score below which a passage is noise beside it."""
PATIENCE = 2.5
"""Seconds that an answer waits for the model, which may have to be loaded. Then the words answer alone."""
MOST_PENDING = 10_000
KEPT = 512
"""Lists that are remembered for the next page or the same question."""
KEPT_QUESTIONS = 256


@dataclass(frozen=True, slots=True)
class Limits:
    timeout: float = 10.0
    patience: float = PATIENCE
    lean: float | None = None
    """How much the words decide, whatever the query looks like. To measure with: None lets the query decide."""
    look: bool = True
    """Whether the best are looked at closely. To measure what that is worth."""


@dataclass(frozen=True, slots=True)
class Ranked:
    seq: int
    key: str
    score: float
    """In 0..1, the same measure in every answer."""
    parts: Parts


@dataclass(frozen=True, slots=True)
class Hit:
    passage: Stored
    score: float
    parts: Parts


@dataclass(frozen=True, slots=True)
class Ranking:
    """One ranked list. Pages are cut from it."""

    ranked: list[Ranked]
    notes: tuple[str, ...] = ()
    """What was left out, in plain words: an answer by words alone says so."""
    pending: int = 0
    """Passages that still wait for their vectors, counted up to 10,000."""
    version: int = 0


@dataclass(frozen=True, slots=True)
class Found:
    hits: list[Hit]
    total: int
    cursor: str | None
    notes: tuple[str, ...]
    pending: int


Label = tuple[str, str, str]
"""The collection, key and digest of a passage."""


@dataclass(slots=True)
class _Meaning:
    """What the vectors say, or why they say nothing."""

    question: "Vector | None" = None
    calibration: Calibration | None = None
    near: list[tuple[int, float]] = field(default_factory=list[tuple[int, float]])
    notes: tuple[str, ...] = ()


class Searcher:
    def __init__(
        self,
        db: Database,
        words: Words,
        vectors: Vectors | None = None,
        embedder: Embedder | None = None,
        reranker: Reranker | None = None,
        limits: Limits | None = None,
    ) -> None:
        self._db = db
        self._words = words
        self._vectors = vectors
        self._embedder = embedder
        self._reranker = reranker
        self._limits = limits or Limits()
        self._calibration: Calibration | None = None
        self._lists: OrderedDict[Hashable, Ranking] = OrderedDict()
        self._questions: OrderedDict[str, Vector] = OrderedDict()

    async def search(
        self,
        where: Where,
        text: str,
        *,
        limit: int = 10,
        cursor: str | None = None,
        per_key: bool = False,
        timeout: float | None = None,
    ) -> Found:
        """One page. `per_key` gives each document one place in the list, its best passage's."""
        began = monotonic()
        mark = _mark(where, text, per_key)
        start, version = _place(cursor, mark)
        total = self._limits.timeout if timeout is None else min(timeout, self._limits.timeout)
        ranking = await self.ranking(where, text, per_key=per_key, timeout=total, version=version)
        page = ranking.ranked[start : start + limit]
        left = max(0.05, total - (monotonic() - began))
        texts = await self._db.read(lambda tx: passages.get(tx, where, [one.seq for one in page]), timeout=left)
        more = start + limit < len(ranking.ranked)
        return Found(
            [Hit(texts[one.seq], one.score, one.parts) for one in page if one.seq in texts],
            len(ranking.ranked),
            paging.encode([start + limit, ranking.version, mark]) if more else None,
            ranking.notes,
            ranking.pending,
        )

    async def ranking(
        self,
        where: Where,
        text: str,
        *,
        depth: int = DEPTH,
        per_key: bool = False,
        timeout: float | None = None,
        version: int | None = None,
    ) -> Ranking:
        """The whole list. With `version`, the list that a page was cut from, if it is still remembered."""
        deadline = monotonic() + (self._limits.timeout if timeout is None else min(timeout, self._limits.timeout))
        asked = Asked(text)
        if not asked.tokens:
            return Ranking([])
        mark = _mark(where, text, per_key)
        known = self._lists.get((mark, depth, version))
        if known is not None:
            return known
        now, pending = await self._db.read(lambda tx: _standing(tx, where), timeout=_left(deadline))
        known = self._lists.get((mark, depth, now))
        if known is not None and not known.notes:  # an answer for want of something is good for its next page only
            return known
        ranking = await self._rank(asked, where, depth, per_key, deadline, now, pending)
        self._lists[mark, depth, now] = ranking
        if len(self._lists) > KEPT:
            self._lists.popitem(last=False)
        return ranking

    async def _rank(
        self, asked: Asked, where: Where, depth: int, per_key: bool, deadline: float, version: int, pending: int
    ) -> Ranking:
        most = max(depth, READ_LITERALLY) if asked.phrases else depth
        matched, meaning = await asyncio.gather(
            self._db.read(lambda tx: self._words.match(tx, where, asked.tokens, most), timeout=_left(deadline)),
            self._meaning(asked, where, depth, deadline),
        )
        chosen = _worth_a_look(asked, matched, meaning.near)
        looked, parts = await self._look(asked, where, matched, meaning, chosen, deadline)
        texts = {one.filed.seq: one for one in looked}
        if not rank.convincing(parts, asked, matched.rarity):
            return Ranking([], meaning.notes, pending, version)
        lean = 1.0 if meaning.question is None else self._lean(asked, looked)
        full = _attainable(asked, looked, parts, lean)
        ranked = sorted(
            (
                Ranked(one.filed.seq, one.key, min(1.0, rank.score(part, lean) / full), part)
                for one, part in zip(looked, parts, strict=True)
                if rank.counts(part)
            ),
            key=lambda one: (-one.score, -one.seq),
        )
        worth = ranked[0].score * WORTH if ranked else 0.0
        ranked = [one for one in ranked if one.score >= worth]
        notes = meaning.notes
        if self._reranker is not None and ranked:
            ranked, notes = await self._rerank(self._reranker, asked, ranked, texts, notes, deadline)
        labels = {one.filed.seq: (one.filed.collection, one.key, one.digest) for one in looked}
        ranked += await self._tail(where, matched, labels, ranked, deadline)
        ranked.sort(key=lambda one: (-one.score, -one.seq))
        return Ranking(_once(ranked, labels, per_key)[:depth], notes, pending, version)

    def _lean(self, asked: Asked, looked: Sequence[Stored]) -> float:
        return rank.lean(asked, looked) if self._limits.lean is None else self._limits.lean

    async def _meaning(self, asked: Asked, where: Where, depth: int, deadline: float) -> _Meaning:
        """The question's vector and what lies near it. Whatever fails here, the words still answer."""
        if self._embedder is None or self._vectors is None:
            return _Meaning()
        try:
            calibration = await self._calibrated(self._embedder.model, deadline)
            if calibration is None:
                # There are no vectors yet, so no model is loaded to look for them.
                problem = await self._db.read(passages.problem, timeout=_left(deadline) * 0.7)
                return _Meaning(notes=(f"Answered by words alone. {problem}",) if problem else ())
            patience = min(self._limits.patience, _left(deadline) * 0.7)
            question = await self._question(asked.beginning, patience)
            near = await self._vectors.near(
                self._embedder.model, where, question, BY_MEANING, timeout=_left(deadline) * 0.7
            )
            return _Meaning(question, calibration, near)
        except (KhoError, TimeoutError) as failure:
            return _Meaning(notes=_by_words_alone(failure))

    async def _calibrated(self, model: str, deadline: float) -> Calibration | None:
        if self._calibration is None:
            kept = await self._db.read(
                lambda tx: passages.state(tx, calibration_row(model)), timeout=_left(deadline) * 0.7
            )
            if kept:
                await numbers_at_hand()
                self._calibration = Calibration.load(kept)
        return self._calibration

    async def _question(self, text: str, patience: float) -> "Vector":
        assert self._embedder is not None
        known = self._questions.get(text)
        if known is None:
            known = await asyncio.wait_for(self._embedder.query(text), patience)
            self._questions[text] = known
            if len(self._questions) > KEPT_QUESTIONS:
                self._questions.popitem(last=False)
        return known

    async def _look(
        self, asked: Asked, where: Where, matched: Matched, meaning: _Meaning, chosen: Sequence[int], deadline: float
    ) -> tuple[list[Stored], list[Parts]]:
        """The passages that are still there, and what they are worth. Off the event loop: it is a few milliseconds."""

        def work(tx: Tx) -> tuple[list[Stored], list[Parts]]:
            texts = passages.get(tx, where, chosen)
            looked = [texts[seq] for seq in chosen if seq in texts]
            if asked.phrases:
                least = rank.share_of_phrases(asked, matched.rarity)
                more = [seq for seq, share in matched.found if share >= least and seq not in texts]
                looked += (one for one in passages.get(tx, where, more).values() if rank.quoted(asked, one))
            if self._limits.look:
                return looked, rank.lexical(asked, matched.rarity, looked)
            shares = dict(matched.found)
            return looked, [Parts(share, share) for share in (shares.get(one.filed.seq, 0.0) for one in looked)]

        looked, parts = await self._db.read(work, timeout=_left(deadline))
        if meaning.question is None or meaning.calibration is None or not looked:
            return looked, parts
        assert self._vectors is not None
        assert self._embedder is not None
        try:
            vectors = await self._vectors.get(
                self._embedder.model, where, [one.filed.seq for one in looked], timeout=_left(deadline)
            )
        except KhoError as failure:
            meaning.question, meaning.notes = None, _by_words_alone(failure)
            return looked, parts
        return looked, with_meaning(asked, meaning.question, meaning.calibration, looked, parts, vectors)

    async def _rerank(
        self,
        reranker: Reranker,
        asked: Asked,
        ranked: list[Ranked],
        texts: dict[int, Stored],
        notes: tuple[str, ...],
        deadline: float,
    ) -> tuple[list[Ranked], tuple[str, ...]]:
        first, rest = ranked[:RERANKED], ranked[RERANKED:]
        try:
            scores = await asyncio.wait_for(
                reranker.scores(asked.beginning, [text_of(texts[one.seq]) for one in first]), _left(deadline)
            )
        except (KhoError, TimeoutError) as failure:
            reason = failure.message if isinstance(failure, KhoError) else "It took too long."
            return ranked, (*notes, f"Not re-ranked. {reason}")
        judged = [
            Ranked(one.seq, one.key, (one.score + score) / 2, one.parts)
            for one, score in zip(first, scores, strict=True)
        ]
        judged.sort(key=lambda one: (-one.score, -one.seq))
        lowest = judged[-1].score
        return judged + [Ranked(one.seq, one.key, min(one.score, lowest), one.parts) for one in rest], notes

    async def _tail(
        self, where: Where, matched: Matched, labels: dict[int, Label], ranked: list[Ranked], deadline: float
    ) -> list[Ranked]:
        """What has some of the words, but was not looked at closely: behind all that was, in the order of the words."""
        rest = [(seq, share) for seq, share in matched.found if seq not in labels and share >= rank.SOME_WORDS]
        if not rest:
            return []
        named = await self._db.read(
            lambda tx: passages.labels(tx, where, [seq for seq, _ in rest]), timeout=_left(deadline)
        )
        labels.update(named)
        # As a look would have found them, as far as the last one that had a look tells.
        last = next((one for one in reversed(ranked) if one.parts.words >= rank.SOME_WORDS), None)
        lowest, rate = (last.score, last.score / last.parts.words) if last else (1.0, TAIL)
        return [
            Ranked(seq, named[seq][1], min(lowest, rate * share), Parts(share, share))
            for seq, share in rest
            if seq in named
        ]


def with_meaning(
    asked: Asked,
    question: "Vector",
    calibration: Calibration,
    looked: Sequence[Stored],
    parts: Sequence[Parts],
    vectors: "dict[int, Vector]",
) -> list[Parts]:
    import numpy as np

    have = [n for n, one in enumerate(looked) if one.filed.seq in vectors]
    if not have:
        return list(parts)
    rows = np.stack([vectors[looked[n].filed.seq] for n in have])
    written = [looked[n].language for n in have]
    raw, between = calibration.likeness(question, asked.language, rows, written)
    meant = rank.meaning(raw, between)
    result = list(parts)
    for place, n in enumerate(have):
        part = parts[n]
        result[n] = Parts(part.words, part.closeness, part.literal, float(meant[place]), float(between[place]))
    return result


def _worth_a_look(asked: Asked, matched: Matched, near: Sequence[tuple[int, float]]) -> list[int]:
    """The best by words and the best by meaning. Only the words, if nothing lies near."""
    most = BY_WORDS if near else BY_WORDS + BY_MEANING
    return list(dict.fromkeys([seq for seq, _ in (*matched.found[:most], *near[:BY_MEANING])]))


def _attainable(asked: Asked, looked: Sequence[Stored], parts: Sequence[Parts], lean: float) -> float:
    """The score of a perfect passage. Where all passages are in other languages than the question, they cannot have its
    words, and the meaning has to do."""
    if lean == 1.0 or any(one.language in (asked.language, "") for one in looked):
        return 1.0
    best = max((part.words for part in parts), default=1.0)
    return lean * max(best, 0.3) + (1 - lean)


def _once(ranked: Sequence[Ranked], labels: dict[int, Label], per_key: bool) -> list[Ranked]:
    """Each document once, or each text, where it ranks best."""
    kept: dict[Hashable, Ranked] = {}
    for one in ranked:
        collection, key, digest = labels[one.seq]
        kept.setdefault((collection, key) if per_key else digest, one)
    return list(kept.values())


def _standing(tx: Tx, where: Where) -> tuple[int, int]:
    return passages.version(tx, where.space, where.tenant), passages.pending(tx, where, MOST_PENDING)


def _by_words_alone(failure: Exception) -> tuple[str, ...]:
    reason = failure.message if isinstance(failure, KhoError) else "The model is not ready yet."
    log.warning("answered by words alone: %s", reason)
    return (f"Answered by words alone. {reason}",)


def _left(deadline: float) -> float:
    left = deadline - monotonic()
    if left <= 0:
        raise Timeout
    return left


def _mark(where: Where, text: str, per_key: bool) -> str:
    """What a list is the answer to, in short: a query may be long, and a cursor goes with its own list only."""
    asked = f"{where!r}\0{per_key}\0{text}"
    return blake2b(asked.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def _place(cursor: str | None, mark: str) -> tuple[int, int | None]:
    if cursor is None:
        return 0, None
    match paging.decode(cursor):
        case [int(start), int(version), str(list_)] if 0 <= start <= 1_000_000 and list_ == mark:
            return start, version
        case _:
            raise InvalidParams("The cursor does not belong to this list. Start again without it.", field="cursor")
