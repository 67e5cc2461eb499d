"""query_knowledge: search the documents (and the web if asked), and compose an answer within the time limit."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from time import monotonic

from kho.documents import indexing, markdown, model, store, tree
from kho.documents.contract import DOCUMENTS
from kho.documents.deletion import CurrentReads
from kho.documents.errors import ForeignTenant
from kho.documents.model import ROOT
from kho.documents.store import SPACE
from kho.kernel import Call, Command, KhoError, Llm, PassageRef, SearchFilter, Timeout, Tx
from kho.lib.dataclass import dataclass
from kho.search.answer.compose import Answer, Citation, Manner, answer
from kho.search.answer.highlight import snippet
from kho.search.indexing.passages import StoredPassage
from kho.search.query.scoring import ScoreParts
from kho.search.query.searcher import Searcher, SearchHit, SearchResults
from kho.search.text.language import language
from kho.search.text.tokens import index_tokens

MAX_SNIPPET = 1_200
"""Maximum characters of a passage that are shown; nearly all passages are shorter."""
MIN_LLM_TIME = 0.3
"""Minimum seconds left for calling the language model."""
RESERVED_TIME = 0.05
"""Seconds reserved for composing the answer."""
FORMATS = {
    **dict.fromkeys(("markdown", "md", "text/markdown"), True),
    **dict.fromkeys(
        ("plain", "text", "txt", "plain text", "plain_text", "plain-text", "plaintext", "text/plain"), False
    ),
}
"""Accepted values of `preferred_format`; True for Markdown."""
MAX_EXTERNAL_SCORE = 0.5
"""Maximum score of a web page: only a few lines of it are known."""


@dataclass(frozen=True, slots=True)
class External:
    """A web page found by the web search."""

    title: str
    url: str
    text: str


WebSearch = Callable[[str, Call], Awaitable[Sequence[External]]]


@dataclass(slots=True, kw_only=True)
class Knowledge:
    searcher: Searcher
    reads: CurrentReads
    llm: Llm | None = None
    web_search: WebSearch | None = None

    @DOCUMENTS.read(
        "query_knowledge",
        title="Ask the documents",
        toolset="default",
        explained=("under",),
        cli=Command(
            "docs query",
            ("query",),
            sentence=True,
            names={
                "filters.tags": "tag",
                "filters.tags_any": "any-tag",
                "filters.parent_id": "parent",
                "filters.is_human_readable": "human-readable",
                "context_hints.preferred_format": "format",
                "routing.allow_external_search": "web",
            },
            example={"query": "What do I do on the first day?", "filters": {"tags": ["ops"]}, "top_k": 3},
        ),
        example={"query": "What do I do on the first day?", "top_k": 3},
        text=markdown.knowledge,
    )
    async def query(self, params: model.QueryKnowledge, call: Call) -> model.KnowledgeAnswer:
        """Ask the documents a question: an answer with citations, and the passages it rests on.

        Ask the team's documents a question, in any language. `response` cites by number: [1] is the first of `context`.
        `response` is empty if nothing is near enough to be quoted, `context` if nothing was found.
        """
        if params.filters.tenant_id not in (None, call.tenant):
            raise ForeignTenant
        end = monotonic() + call.remaining(params.routing.max_latency_ms / 1_000)
        notes: list[str] = []
        (own, total, titles), pages = await asyncio.gather(
            self._search(params, call, end, notes), self._outside(params, call, end, notes)
        )
        least = params.min_score or 0.0
        own = [hit for hit in own if _score(hit) >= least]
        hits = [*own, *(hit for page in pages if _score(hit := _hit(page, params.query)) >= least)]
        said = await self._answer(params, hits, end)
        notes += said.notes
        notes += _not_followed(params.context_hints, said) if said.text else []
        return model.KnowledgeAnswer(
            response=said.text,
            context=[
                _passage(number, hit, titles.get(hit.passage.key), params.query, said.citations, number > len(own))
                for number, hit in enumerate(hits, 1)
            ],
            usage=model.QueryUsage(
                qdrant_hits=total,
                llm_tokens_prompt=said.prompt_tokens,
                llm_tokens_completion=said.completion_tokens,
            ),
            degraded=notes or None,
        )

    async def _search(
        self, params: model.QueryKnowledge, call: Call, end: float, notes: list[str]
    ) -> tuple[list[SearchHit], int, dict[str, str]]:
        """Return the best passage of each document, the number of hits, and the documents' titles by id."""
        try:
            where = await self.reads.read(call, lambda tx: _where(tx, params.filters, call), _left(end))
            if where is None:
                return [], 0, {}
            found = await self.searcher.search(
                where, params.query, limit=params.top_k, per_key=True, timeout=_left(end)
            )
            titles = await self.reads.read(call, lambda tx: _titles(tx, call.tenant, found))
        except Timeout:
            notes.append("The allowed time was over before the search was complete.")
            return [], 0, {}
        notes += found.notes
        return [hit for hit in found.hits if hit.passage.key in titles], found.total, titles

    async def _outside(
        self, params: model.QueryKnowledge, call: Call, end: float, notes: list[str]
    ) -> Sequence[External]:
        if not params.routing.allow_external_search:
            return ()
        if self.web_search is None:
            notes.append("The web was not searched: this hub has no search for it.")
            return ()
        try:
            async with asyncio.timeout(_left(end)):
                return await self.web_search(params.query, call)
        except (KhoError, TimeoutError) as failure:
            reason = failure.message if isinstance(failure, KhoError) else "It took too long."
            notes.append(f"The web was not searched. {reason}")
            return ()

    async def _answer(self, params: model.QueryKnowledge, hits: Sequence[SearchHit], end: float) -> Answer:
        manner = _manner(params.context_hints)
        left = end - monotonic() - RESERVED_TIME
        if self.llm is not None and hits and left < MIN_LLM_TIME:
            quoted = await answer(params.query, hits, None, manner)
            return Answer(quoted.text, quoted.citations, ("Quoted, because no time was left for the model.",))
        return await answer(params.query, hits, self.llm, manner, max(left, 0.0))


def _left(end: float) -> float:
    left = end - monotonic() - RESERVED_TIME
    if left <= 0:
        raise Timeout
    return left


def _where(tx: Tx, filters: model.Filters, call: Call) -> SearchFilter | None:
    """Build the search filter; None if nothing can match."""
    for field, id in (("filters.parent_id", filters.parent_id), ("filters.under", filters.under)):
        if id is not None:
            store.need_parent(tx, call.tenant, id, field)
    parents = None if filters.under in (None, ROOT) else tree.with_children(tx, call.tenant, filters.under)
    if filters.parent_id is not None:
        parents = [filters.parent_id] if parents is None or filters.parent_id in parents else []
    if parents is not None and not parents:
        return None
    return SearchFilter(
        SPACE,
        call.tenant,
        collections=tuple(parents or ()),
        kinds=indexing.kinds(filters.mime_type, filters.is_human_readable),
        tags=tuple(filters.tags),
        any_tags=tuple(filters.tags_any),
        since=filters.created_after,
        until=filters.created_before,
    )


def _titles(tx: Tx, tenant: str, found: SearchResults) -> dict[str, str]:
    """Return the titles of the documents that have not been deleted meanwhile."""
    documents = store.get_all(tx, tenant, [hit.passage.key for hit in found.hits])
    return {one.id: one.version.title for one in documents if not one.deleted}


def _manner(hints: model.ContextHints) -> Manner:
    return Manner((hints.language or "").replace("_", "-").split("-")[0].lower(), FORMATS.get(_format(hints)))


def _not_followed(hints: model.ContextHints, said: Answer) -> list[str]:
    """Return notes on hints that the answer does not follow: they are preferences, not conditions."""
    notes: list[str] = []
    if _format(hints) not in ("", *FORMATS):
        notes.append(f"The answer is not in the format {hints.preferred_format!r}: there are markdown and plain text.")
    wanted = _manner(hints).language
    if wanted and not said.prompt_tokens and language(said.text) != wanted:
        notes.append(f"The answer is not in the language {hints.language!r}: it quotes what is stored as it is.")
    return notes


def _format(hints: model.ContextHints) -> str:
    return (hints.preferred_format or "").strip().lower()


def _hit(page: External, question: str) -> SearchHit:
    """Convert a web page to a search hit, scored by the share of the question's words that it contains."""
    asked = {*index_tokens(question)}
    share = len(asked & {*index_tokens(f"{page.title} {page.text}")}) / max(1, len(asked))
    spoken = language(f"{page.title}\n{page.text}")
    stored = StoredPassage(PassageRef(0, SPACE, ""), page.url, 0, "", page.title, page.text, (), spoken)
    return SearchHit(stored, MAX_EXTERNAL_SCORE * share, ScoreParts(share, share))


def _score(hit: SearchHit) -> float:
    return round(hit.score, 4)


def _passage(
    number: int, hit: SearchHit, title: str | None, question: str, citations: Sequence[Citation], external: bool
) -> model.ContextPassage:
    passage = hit.passage
    return model.ContextPassage(
        document_id=passage.key,
        snippet=_snippet(passage.text, question, [one for one in citations if one.number == number]),
        score=_score(hit),
        title=(passage.heading if external else title) or None,
        external=external or None,
        url=passage.key if external else None,
    )


def _snippet(text: str, question: str, cited: Sequence[Citation]) -> str:
    """Shorten a passage so that it still contains every citation."""
    if len(text) <= MAX_SNIPPET:
        return text
    if not cited:
        return snippet(text, question, MAX_SNIPPET)[0]
    start = max(0, min(one.start for one in cited) - MAX_SNIPPET // 4)
    end = max(max(one.end for one in cited), start + MAX_SNIPPET)
    return ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")
