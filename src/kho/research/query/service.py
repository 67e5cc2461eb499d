"""Answers queries: determines the scope, searches, orders the results, and judges how well the question went."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import field
from typing import Any

from cachetools import LRUCache

from kho.kernel import Call, Hint, SearchFilter, Tx
from kho.kernel.call import Left, until
from kho.lib.dataclass import dataclass
from kho.research import commands, errors, markdown
from kho.research.contract import RESEARCH, ResearchService, query_time
from kho.research.errors import InvalidProjectRequest, InvalidQuery
from kho.research.ingest.indexing import SPACE, header_path
from kho.research.library import collection_store, document_store
from kho.research.library.document_store import get_many
from kho.research.model import Item, QueryAnswer, QueryKnowledgeBase, Refinement
from kho.research.query import document_context, feedback, items, refinement, reordering
from kho.research.query.history import History
from kho.research.query.refinement import Holdings, Refined
from kho.research.query.reordering import OrderedList
from kho.research.query.scope import Scope, scope_of
from kho.research.query.suggestions import FoundText, quoted
from kho.search.indexing import passages
from kho.search.indexing.index import storable
from kho.search.query import relevance
from kho.search.query.parsed_query import flat
from kho.search.query.searcher import Searcher, mark_of

log = logging.getLogger("kho.research")

DEPTH = 100
"""Maximum results of a query."""
LOOKED_AT = 10
"""Number of best passages used to judge the question."""
MAX_TITLES, SHORT, READ = 60, 20_000, 8
"""When little was found: titles of up to MAX_TITLES documents are read, and the texts of up to READ of them that have
at most SHORT bytes."""
MAX_LISTS = 256
"""Maximum result lists cached for their next pages."""
NAMED = 50
"""Maximum collections named in an answer and in the history."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question with its scope and context."""

    tenant: str
    where: SearchFilter
    scope: Scope
    text: str
    context: str


@dataclass(frozen=True, slots=True)
class _Page:
    listed: OrderedList
    items: list[Item]
    refined: Refined


@dataclass(slots=True, kw_only=True)
class Queries(ResearchService):
    searcher: Searcher
    history: History
    lists: LRUCache[tuple[str, str], OrderedList] = field(default_factory=lambda: LRUCache(MAX_LISTS), init=False)

    @RESEARCH.read(
        "query_knowledge_base",
        title="Search the knowledge base",
        toolset="default",
        explained=("collections", "document_context", "directory", "neighbours"),
        invalid=errors.invalid_query,
        text=markdown.query,
        cli=commands.QUERY,
        example={"query": "how are results re-ranked", "top_k": 10},
    )
    async def query(self, params: QueryKnowledgeBase, call: Call) -> QueryAnswer:
        """Search the knowledge base: papers, notes, code; best passages first.

        Search the user's own papers, notes, manuals and code, in any language, before you answer from memory; cite
        source_document. query_refinement says when to ask differently.
        """
        started = self.clock()
        with query_time(self.clock):
            left = until(call.remaining(self.settings.query_timeout))
            asked = await self._asked(params, call, left)
            answer = await self._answer(asked, params, left)
        log.debug("query", extra={"fields": _log_fields(asked, answer, call, self.clock() - started)})
        if params.cursor is None:
            self._note(asked, answer, call, self.clock() - started)
        return answer

    async def _asked(self, params: QueryKnowledgeBase, call: Call, left: Left) -> _Asked:
        def look(tx: Tx) -> Scope:
            return scope_of(tx, call.tenant, params.collections, params.project, params.directory)

        try:
            scope = await self.db.read(look, timeout=left())
        except InvalidProjectRequest as problem:  # a wrong 'directory', which is a parameter of the query here
            raise InvalidQuery(problem.message, parameter="directory") from None
        where = SearchFilter(SPACE, call.tenant, scope.narrowed, tags=tuple(params.tags or ()))
        around = ""
        if params.document_context and params.document_context.strip():
            around = await asyncio.to_thread(document_context.gist, params.document_context, params.query)
        return _Asked(call.tenant, where, scope, params.query, around)

    async def _answer(self, asked: _Asked, params: QueryKnowledgeBase, left: Left) -> QueryAnswer:
        scope = asked.scope
        mark = mark_of(asked.where, asked.text, asked.context)
        start, stamp = reordering.place_of(params.cursor, mark)
        known = None if stamp is None else self.lists.get((mark, stamp))
        likeness: dict[int, float] = {}
        ranking = None
        if known is None and scope.ids:
            ranking = await self.searcher.ranking(asked.where, asked.text, depth=DEPTH, timeout=left())
            if asked.context:
                seqs = [one.seq for one in ranking.ranked]
                likeness = await self.searcher.likeness(asked.where, asked.context, seqs, timeout=left())

        def work(tx: Tx) -> _Page:
            listed = known or OrderedList([])
            if ranking is not None:
                verdicts = _verdicts(tx, asked.where, [(one.seq, one.key) for one in ranking.ranked])
                placed = reordering.placed(ranking.ranked, likeness, verdicts)
                notes = ranking.notes
                if likeness and placed and placed[0].context is None:
                    notes += ("The document context fits none of the results, so it did not change their order.",)
                listed = OrderedList(placed, notes, ranking.pending)
            return _page(tx, asked, params, listed, start)

        page = await self.db.read(work, timeout=left())
        listed, end = page.listed, start + params.top_k
        if end < len(listed.places):
            self.lists[mark, listed.stamp] = listed
        return QueryAnswer(
            results=page.items,
            query_refinement=Refinement(
                status=page.refined.status,
                suggestions=page.refined.suggestions,
                message=Hint.of([page.refined.message, *scope.notes]),
                searched=scope.names[:NAMED],
                total=len(listed.places),
                next_cursor=reordering.cursor_for(end, listed, mark),
                vectors_pending=listed.pending or None,
                notes=list(listed.notes) or None,
            ),
        )

    def _note(self, asked: _Asked, answer: QueryAnswer, call: Call, took_us: int) -> None:
        best = answer.results[0].relevance_score if answer.results else 0.0
        total, text = answer.query_refinement.total or 0, storable(asked.text)
        names = asked.scope.names[:NAMED]

        async def record() -> None:
            await self.history.record(asked.tenant, call.principal.sub, text, names, total, best, took_us)

        call.after(record)


def _log_fields(asked: _Asked, answer: QueryAnswer, call: Call, took_us: int) -> dict[str, Any]:
    """Fields for the debug log; they leave out the question's text."""
    refinement = answer.query_refinement
    return {
        "request_id": call.request_id,
        "characters": len(asked.text),
        "scope": str(asked.scope),
        "collections": len(asked.scope.ids),
        "found": refinement.total,
        "best": answer.results[0].relevance_score if answer.results else None,
        "status": refinement.status,
        "ms": round(took_us / 1000, 2),
    }


def _verdicts(tx: Tx, where: SearchFilter, ranked: Sequence[tuple[int, str]]) -> dict[int, float]:
    """Return the verdict of each passage that has any, by passage number."""
    tallies = feedback.of_passages(tx, where.tenant, sorted({key for _, key in ranked}))
    if not tallies:
        return {}
    spoken_of = {document for document, _ in tallies}
    nobody = feedback.Tally()
    found = passages.labels(tx, where, [seq for seq, key in ranked if key in spoken_of])
    return {
        seq: reordering.verdict(tallies.get((key, digest), nobody), tallies.get((key, ""), nobody))
        for seq, (*_, key, digest) in found.items()
        if (key, digest) in tallies or (key, "") in tallies
    }


def _page(tx: Tx, asked: _Asked, params: QueryKnowledgeBase, listed: OrderedList, start: int) -> _Page:
    shown = listed.places[start : start + params.top_k]
    first = listed.places[:LOOKED_AT]
    texts = passages.get(tx, asked.where, sorted({one.ranked.seq for one in (*first, *shown)}))
    docs = get_many(tx, asked.tenant, [one.key for one in texts.values()])
    there = [
        (one, texts[one.ranked.seq])
        for one in shown
        if one.ranked.seq in texts and texts[one.ranked.seq].key in docs  # skip what was removed meanwhile
    ]
    found = [
        FoundText(docs[one.key].title, header_path(one.heading, docs[one.key].title), one.text, one.language)
        for one in (texts[place.ranked.seq] for place in first if place.ranked.seq in texts)
        if one.key in docs
    ]
    shown_items = items.items(tx, asked.tenant, params, there, docs)
    return _Page(listed, shown_items, _refined(tx, asked, listed, found, _absent(tx, asked, listed)))


def _absent(tx: Tx, asked: _Asked, listed: OrderedList) -> list[str]:
    """Return quoted phrases that no result contains. Empty if the list is full (DEPTH): there may be more passages."""
    phrases = quoted(asked.text)
    if not phrases or len(listed.places) >= DEPTH:
        return []
    every = passages.get(tx, asked.where, [place.ranked.seq for place in listed.places]).values()
    texts = [flat(f"{one.heading} {one.text}") for one in every]
    return [phrase for phrase in phrases if not any(flat(phrase) in text for text in texts)]


def _refined(tx: Tx, asked: _Asked, listed: OrderedList, found: Sequence[FoundText], absent: Sequence[str]) -> Refined:
    scope = asked.scope
    scores = [min(1.0, one.score) for one in listed.places]
    clear = bool(scores) and relevance.of_score(scores[0]) >= relevance.LOW
    holdings = Holdings() if clear else _holdings(tx, asked.where, scope)
    if not scores and not holdings.titles:
        return refinement.empty(scope, holdings)
    return refinement.refine(asked.text, scores, found, scope, holdings, absent)


def _holdings(tx: Tx, where: SearchFilter, scope: Scope) -> Holdings:
    """Return titles and texts of the searched collections, and the names of the others."""
    tenant, only = where.tenant, None if scope.how == "all" and not scope.left_out else scope.ids
    docs = document_store.page(tx, tenant, only, "", None, MAX_TITLES)
    short = [doc.id for doc in docs if doc.size_bytes <= SHORT][:READ]
    texts = document_store.texts(tx, tenant, short)
    searched = {*scope.ids}
    every = [] if scope.how == "all" else collection_store.all_ids(tx, tenant)
    titles = list(dict.fromkeys(doc.title for doc in docs))
    return Holdings(
        titles=titles,
        documents=document_store.totals(tx, tenant, only).documents,
        texts=[*texts.values()],
        elsewhere=[name for id, name in every if id not in searched],
        tags=where.tags,
    )
