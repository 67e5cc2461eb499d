"""Hybrid search: keyword and vector search in parallel, detailed scoring of the best, one ranked list, pages cut from
it."""

import asyncio
from collections.abc import Sequence
from dataclasses import InitVar, field, replace
from functools import partial
from hashlib import blake2b

from cachetools import LRUCache

from kho.kernel import paging
from kho.kernel.call import Left, until
from kho.kernel.errors import KhoError
from kho.kernel.ports import Database, Embedder, Reranker, SearchFilter, Tx, Vectors, Where, WordMatches, Words, each
from kho.lib.clock import Clock, system_clock
from kho.lib.dataclass import dataclass
from kho.search.indexing import passages
from kho.search.indexing.embedding_queue import text_of
from kho.search.indexing.passages import StoredPassage
from kho.search.query import dialogue, scoring, semantic, spaces
from kho.search.query.conversations import NONE_NAMED, Conversations, Shown
from kho.search.query.mentions import Mentions
from kho.search.query.parsed_query import ParsedQuery
from kho.search.query.scoring import Balance, Label, RankedPassage, ScoreParts
from kho.search.query.semantic import SemanticResult, SemanticSearch
from kho.search.text.marks import readings

MAX_RANKED = 100
"""Maximum length of a ranked list, unless the caller asks for more."""
READ_LITERALLY = 1_000
"""Number of keyword matches that are searched for the quotation if the query quotes: only the text shows whether the
words are adjacent."""
READ_FOR_MARKS = 40
"""Number of keyword matches whose texts show the marks of a query typed without."""
NAMED = 20
"""Number of passages that are looked at more closely because of the speaker and the day that a query names."""
RERANKED = 24
"""Number of passages passed to a re-ranking model."""
WORTH = 0.3
"""Share of the best score below which a passage is noise."""
MODEL_TIMEOUT = 2.5
"""Timeout in seconds for the model, which may have to be loaded. After that, keyword search answers alone."""
MAX_PENDING = 10_000
MAX_RANKINGS = 128
"""Number of cached ranked lists: the pages of a query are cut from one list, and the same query is not ranked again
while nothing has changed. Each holds a few hundred objects, which every full garbage collection scans: with 512 lists,
it stopped all requests for 50 ms."""
FIRST_PAGE = 10
"""Number of passages cached with the list, including their texts."""


@dataclass(frozen=True, slots=True)
class SearchLimits:
    timeout: float = 10.0
    patience: float = MODEL_TIMEOUT
    lean: float | None = None
    """Fixed share of keywords in the score, for measurements; None lets the query decide."""
    look: bool = True
    """True if the best are scored in detail; False to measure what that is worth."""
    scaled: bool = True
    """True if scores are brought to the scale that all answers share; False to fit that scale."""
    lists: int = MAX_RANKINGS
    """Number of cached ranked lists."""


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


@dataclass(frozen=True, slots=True)
class _First:
    """Keyword matches, with the index version and queue length at that time."""

    version: int
    pending: int
    matched: WordMatches


@dataclass(frozen=True, slots=True)
class _Looked:
    """The passages that still exist, and their keyword scores."""

    passages: list[StoredPassage]
    parts: list[ScoreParts]
    rest: dict[int, Label]
    """Labels of keyword matches that were not scored in detail."""

    def labels(self) -> dict[int, Label]:
        closely = {one.ref.seq: (one.ref.space, one.ref.collection, one.key, one.digest) for one in self.passages}
        return {**self.rest, **closely}


@dataclass(frozen=True, slots=True)
class Ranking:
    """One ranked list, from which pages are cut."""

    ranked: list[RankedPassage]
    notes: tuple[str, ...] = ()
    """What is missing from the answer, in plain words, such as keyword search only."""
    pending: int = 0
    """Number of passages that still wait for their vectors, counted up to 10,000."""
    version: int = 0
    texts: dict[int, StoredPassage] = field(default_factory=dict[int, StoredPassage])
    """The passages of the first page."""


class RankingCache:
    """Caches ranked lists by query digest, length, and the version of the index."""

    def __init__(self, size: int = MAX_RANKINGS) -> None:
        self._lists: LRUCache[tuple[str, int, int], Ranking] = LRUCache(size)
        self._asked: LRUCache[tuple[str, int], bool] = LRUCache(size)

    def knows(self, mark: str, depth: int) -> bool:
        """True if there may be a list for it, of any version."""
        return (mark, depth) in self._asked

    def find(self, mark: str, depth: int, version: int) -> Ranking | None:
        return self._lists.get((mark, depth, version))

    def keep(self, mark: str, depth: int, ranking: Ranking) -> None:
        self._lists[mark, depth, ranking.version] = ranking
        self._asked[mark, depth] = True


@dataclass(slots=True)
class Searcher:
    db: Database
    words: Words
    vectors: InitVar[Vectors | None] = None
    embedder: InitVar[Embedder | None] = None
    reranker: Reranker | None = None
    limits: SearchLimits = SearchLimits()
    spoken: dict[str, Shown] = field(default_factory=dict[str, Shown])
    """Spaces that hold what was said in conversations, and how their speakers are shown."""
    clock: Clock = system_clock
    semantic: SemanticSearch | None = field(init=False, default=None)
    rankings: RankingCache = field(init=False)
    conversations: Conversations = field(init=False)

    def __post_init__(self, vectors: Vectors | None, embedder: Embedder | None) -> None:
        self.rankings = RankingCache(self.limits.lists)
        self.conversations = Conversations(self.db, self.words, self.spoken, self.clock)
        if vectors is not None and embedder is not None:
            self.semantic = SemanticSearch(self.db, vectors, embedder, self.limits.patience)

    async def search(
        self,
        where: Where,
        text: str,
        *,
        limit: int = 10,
        cursor: str | None = None,
        per_key: bool = False,
        complete: bool = False,
        timeout: float | None = None,
    ) -> SearchResults:
        """Return one page. With `per_key`, each document appears once, at the rank of its best passage. With
        `complete`, all else that matches the filter follows in the order of time; it has to be of conversations."""
        asked = ParsedQuery(text)
        mark = self._mark(asked, where, per_key, complete)
        start, version = place_of(cursor, mark)
        left = until(self._time(timeout))
        ranking = await self.ranking(where, text, per_key=per_key, complete=complete, timeout=left(), version=version)
        listed = ranking.ranked
        if complete:
            listed = [*listed, *await self._rest(where, ranking, 0.0 if asked.tokens else 1.0, per_key, left)]
        page = listed[start : start + limit]
        texts = ranking.texts
        if any(one.seq not in texts for one in page):
            seqs = [one.seq for one in page]
            texts = await self.db.read(lambda tx: passages.get(tx, where, seqs), timeout=left())
        return SearchResults(
            [SearchHit(texts[one.seq], one.score, one.parts) for one in page if one.seq in texts],
            len(listed),
            cursor_for(start + limit, ranking, mark, len(listed)),
            ranking.notes,
            ranking.pending,
        )

    async def ranking(
        self,
        where: Where,
        text: str,
        *,
        depth: int = MAX_RANKED,
        per_key: bool = False,
        complete: bool = False,
        timeout: float | None = None,
        version: int | None = None,
    ) -> Ranking:
        """Return the whole list. With `version`, the list that an earlier page was cut from, if it is still cached."""
        left = until(self._time(timeout))
        asked = ParsedQuery(text)
        if not asked.tokens:
            return Ranking([])
        mark = self._mark(asked, where, per_key, complete)
        known = None if version is None else self.rankings.find(mark, depth, version)
        if known is None and self.rankings.knows(mark, depth):
            now = await self.db.read(lambda tx: spaces.version(tx, where), timeout=left())
            known = self.rankings.find(mark, depth, now)
            if known is not None and known.notes:  # an incomplete answer is only reused for its next page
                known = None
        if known is None:
            named = await self.conversations.mentions(asked, where, left)
            known = await self._rank(asked, where, depth, per_key, named, left)
            self.rankings.keep(mark, depth, known)
        return known

    async def likeness(
        self, where: Where, text: str, seqs: Sequence[int], *, timeout: float | None = None
    ) -> dict[int, float]:
        """Score given passages against a text, in 0..1, by keywords and, if available, by vectors; used to order an
        existing list."""
        left = until(self._time(timeout))
        asked = ParsedQuery(text)
        if not asked.tokens or not seqs:
            return {}
        asked = await self._marked(asked, where, left)
        matched, meant = await asyncio.gather(
            self.db.read(lambda tx: spaces.match(tx, self.words, where, asked.tokens, 0), timeout=left()),
            _nothing() if self.semantic is None else self.semantic.near(asked, where, left),
        )
        looked, parts, balance = await self._look(asked, where, matched, meant, seqs, left)
        return {
            one.ref.seq: scoring.score(part, balance.words) for one, part in zip(looked.passages, parts, strict=True)
        }

    def _mark(self, asked: ParsedQuery, where: Where, per_key: bool, complete: bool) -> str:
        return mark_of(where, asked.text, per_key, complete, self.conversations.stamp(asked, where))

    async def _rest(
        self, where: Where, ranking: Ranking, score: float, per_key: bool, left: Left
    ) -> list[RankedPassage]:
        """Return what matches a filter and was not ranked, in the order of time."""
        seqs = await self.conversations.in_time(where, left)
        labels = await self.db.read(lambda tx: passages.labels(tx, where, seqs), timeout=left())
        before = {one.seq for one in ranking.ranked}
        found = [
            RankedPassage(seq, labels[seq][2], score, ScoreParts(0.0))
            for seq in seqs
            if seq in labels and seq not in before
        ]
        if not per_key:
            return found
        ranked = await self.db.read(lambda tx: passages.labels(tx, where, [*before]), timeout=left())
        shown = {label[:3] for label in ranked.values()}
        return [one for one in scoring.once(found, labels, per_key) if labels[one.seq][:3] not in shown]

    def _time(self, timeout: float | None) -> float:
        return self.limits.timeout if timeout is None else min(timeout, self.limits.timeout)

    async def _marked(self, asked: ParsedQuery, where: Where, left: Left) -> ParsedQuery:
        """Return a query typed without marks as it reads with them, going by the texts that have its syllables."""
        if not asked.is_unmarked:
            return asked

        def read(tx: Tx) -> list[str]:
            matched = spaces.match(tx, self.words, where, asked.tokens, READ_FOR_MARKS)
            texts = passages.get(tx, where, [seq for seq, _ in matched.found]).values()
            return readings(asked.text, (one.text for one in texts))

        text, *also = await self.db.read(read, timeout=left())
        return ParsedQuery(text, *also, typed=asked.text)

    async def _rank(
        self, asked: ParsedQuery, where: Where, depth: int, per_key: bool, named: Mentions, left: Left
    ) -> Ranking:
        asked = await self._marked(asked, where, left)
        deep = max(depth, READ_LITERALLY) if asked.phrases else depth
        first, meant = await asyncio.gather(
            self._first(where, asked, deep, left),
            _nothing() if self.semantic is None else self.semantic.near(asked, where, left),
        )
        matched = scoring.of_known_words(asked, first.matched)
        chosen = scoring.worth_a_look(matched, meant.near)
        first_of_all = await self.conversations.all_named(named, where, depth, left)
        if not first_of_all:
            chosen = list(dict.fromkeys([*chosen, *await self._near_named(asked, where, named, left)]))
        looked, parts, balance = await self._look(asked, where, matched, meant, chosen, left)
        most = 1.0 if asked.is_telling else scoring.UNTELLING
        ranked = sorted(
            (
                RankedPassage(one.ref.seq, one.key, self._score(named, one, part, balance.words), part)
                for one, part in zip(looked.passages, parts, strict=True)
                if scoring.speaks(part, asked)
            ),
            key=scoring.order,
        )
        texts = {one.ref.seq: one for one in looked.passages}
        if ranked:
            worth = ranked[0].score * WORTH
            first_hit, parts_of_first = texts[ranked[0].seq], ranked[0].parts
            scale = scoring.scale(balance, first_hit, parts_of_first, looked.passages, self.spoken)
            ranked = [
                replace(one, score=most * scoring.placed(one, scale, asked)) for one in ranked if one.score >= worth
            ]
        notes = meant.notes or self._waiting(first.pending)
        if not first_of_all and self.conversations.asks_for_all(named, where):
            notes = (*notes, NONE_NAMED)
        if self.reranker is not None and ranked:
            ranked, notes = await self._rerank(self.reranker, asked, ranked, texts, notes, left)
        ranked += scoring.tail(matched, looked.rest, ranked, most)
        ranked, labels = dialogue.put_first(first_of_all, ranked, looked.labels())
        ranked = scoring.once(sorted(ranked, key=scoring.order), labels, per_key)[:depth]
        texts |= {one.ref.seq: one for one in first_of_all}
        at_hand = {one.seq: texts[one.seq] for one in ranked[:FIRST_PAGE] if one.seq in texts}
        return Ranking(ranked, notes, first.pending, first.version, at_hand)

    async def _first(self, where: Where, asked: ParsedQuery, most: int, left: Left) -> _First:
        """Look the words up in all spaces at once, each in a read of its own."""

        def look_up(tx: Tx, one: SearchFilter) -> _First:
            matched = self.words.match(tx, one, asked.tokens, most)
            return _First(spaces.version(tx, one), passages.pending(tx, one, MAX_PENDING), matched)

        found = await asyncio.gather(*(self.db.read(partial(look_up, one=one), timeout=left()) for one in each(where)))
        return _First(
            sum(one.version for one in found),
            min(MAX_PENDING, sum(one.pending for one in found)),
            spaces.merged([one.matched for one in found], asked.tokens, most),
        )

    def _waiting(self, pending: int) -> tuple[str, ...]:
        """Return a note if passages are searched by keywords only because their vectors are not there yet."""
        if self.semantic is None or not pending:
            return ()
        if pending == 1:
            return ("1 passage waits for its vector; until then it is found by keywords only.",)
        least = "At least " if pending == MAX_PENDING else ""
        return (f"{least}{pending:,} passages wait for their vectors; until then they are found by keywords only.",)

    async def _near_named(self, asked: ParsedQuery, where: Where, named: Mentions, left: Left) -> list[int]:
        """Return more candidates: the best of what is by the speakers and of the days that a query names."""
        found: list[int] = []
        for one in self.conversations.narrowed(named, where):
            first, meant = await asyncio.gather(
                self._first(one, asked, NAMED, left),
                _nothing() if self.semantic is None else self.semantic.near(asked, one, left),
            )
            found += scoring.worth_a_look(first.matched, meant.near[:NAMED])
        return found

    def _score(self, named: Mentions, passage: StoredPassage, parts: ScoreParts, lean: float) -> float:
        weight = dialogue.weight(named, passage) if passage.ref.space in self.spoken else 1.0
        return weight * scoring.score(parts, lean)

    def _balance(self, asked: ParsedQuery, looked: Sequence[StoredPassage]) -> Balance:
        found = scoring.balance(asked, looked, self.spoken)
        if not self.limits.scaled:
            found = found._replace(own=scoring.COMMON, foreign=scoring.COMMON)
        return found if self.limits.lean is None else found._replace(words=self.limits.lean)

    async def _look(
        self,
        asked: ParsedQuery,
        where: Where,
        matched: WordMatches,
        meant: SemanticResult,
        chosen: Sequence[int],
        left: Left,
    ) -> tuple[_Looked, list[ScoreParts], Balance]:
        """Score the chosen passages in detail, by keywords and by vectors in parallel. Also say what counts how
        much."""
        reading = self.db.read(lambda tx: self._read(tx, asked, where, matched, chosen), timeout=left())
        if self.semantic is None:
            looked = await reading
            return looked, looked.parts, scoring.BY_WORDS_ALONE
        looked, vectors = await asyncio.gather(reading, self.semantic.vectors(meant, where, chosen, left))
        if asked.phrases:  # then more were read than had been chosen
            more = [one.ref.seq for one in looked.passages if one.ref.seq not in vectors]
            vectors |= await self.semantic.vectors(meant, where, more, left)
        balance = self._balance(asked, looked.passages) if meant.questions else scoring.BY_WORDS_ALONE
        return looked, semantic.added(asked, meant, looked.passages, looked.parts, vectors, balance), balance

    def _read(self, tx: Tx, asked: ParsedQuery, where: Where, matched: WordMatches, chosen: Sequence[int]) -> _Looked:
        texts = passages.get(tx, where, chosen)
        closely = [texts[seq] for seq in chosen if seq in texts]
        if asked.phrases:
            least = scoring.share_of_phrases(asked, matched)
            more = [seq for seq, share in matched.found if share >= least and seq not in texts]
            closely += (one for one in passages.get(tx, where, more).values() if scoring.quoted(asked, one))
        seqs = {one.ref.seq for one in closely}
        if self.limits.look:
            counted = spaces.counted(tx, self.words, where, closely, matched.rarity)
            parts = scoring.lexical(asked, matched, closely, counted)
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
        return sorted(judged, key=scoring.order) + [replace(one, score=min(one.score, lowest)) for one in rest], notes


async def _nothing() -> SemanticResult:
    return SemanticResult()


def mark_of(where: Where, *asked: str | bool) -> str:
    """Return a digest of filter and query: a query may be long, and a cursor is only valid for its own list."""
    return blake2b(repr((where, *asked)).encode(), digest_size=12).hexdigest()


def cursor_for(start: int, ranking: Ranking, mark: str, total: int | None = None) -> str | None:
    """Return the cursor of the page that begins at `start`; None if there is no such page."""
    number = len(ranking.ranked) if total is None else total
    return paging.encode([start, ranking.version, mark]) if start < number else None


def place_of(cursor: str | None, mark: str) -> tuple[int, int | None]:
    """Return where a page begins, and the version of the list that it is cut from."""
    found = paging.place(cursor, int, int, str)
    if found is None:
        return 0, None
    start, version, list_ = found
    if not 0 <= start <= 1_000_000 or list_ != mark:
        raise paging.foreign()
    return start, version
