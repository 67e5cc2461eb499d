"""A store for the corpora only, and the one operation that searches them."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice

from pydantic import Field

from kho.evaluation.datasets import Corpus
from kho.kernel.call import Call
from kho.kernel.capability import Capability
from kho.kernel.errors import Conflict, InvalidParams, Unavailable
from kho.kernel.hub import Backlog
from kho.kernel.operation import Operation
from kho.kernel.params import Params, Result
from kho.kernel.ports import Database, SearchFilter, Tx
from kho.lib.chunking.chunker import chunks, estimate
from kho.lib.tenancy import in_all_tenants
from kho.search.indexing import passages
from kho.search.indexing.index import FORM, Document, Index, Passage, Prepared, prepare
from kho.search.indexing.index import Field as Text
from kho.search.indexing.reindex import form_row
from kho.search.query.searcher import Searcher

TOOL = "eval_search"
SPACE = "evaluation:"
"""Each corpus is its own space: the rarity of a word must not depend on what else was measured here."""
TENANT = "evaluation"
"""Tenant of the corpora. The hub's local user has this tenant during a measurement."""
MAX_WHOLE_TOKENS = 450
"""Tokens up to which a text is one passage. Longer texts do not fit into the usual models and are split."""
BATCH = 50

Progress = Callable[[str, int, int], None]
"""Reports progress: the name of the step, how much is done, and of how much."""


class EvaluationQuery(Params):
    corpus: str
    question: str
    limit: int = Field(default=10, ge=1, le=100)


class EvaluationHit(Result):
    key: str
    score: float


class EvaluationAnswer(Result):
    hits: list[EvaluationHit]
    notes: list[str]
    pending: int


class Bench:
    def __init__(self, db: Database, index: Index, searcher: Searcher, backlog: Backlog | None) -> None:
        self._db = db
        self._index = index
        self._searcher = searcher
        self._backlog = backlog

    @property
    def capability(self) -> Capability:
        operation = Operation(
            name="evaluation.search",
            summary="Finds texts of a corpus that is being measured.",
            params=EvaluationQuery,
            result=EvaluationAnswer,
            run=self._search,
            scope="evaluation",
            tool=TOOL,
            example={"corpus": "xquad-en-0a1b2c", "question": "Who won?"},
        )
        return Capability("evaluation", "evaluation-server", (operation,), "Measures search.")

    async def fill(self, corpus: Corpus, progress: Progress) -> None:
        """Index a corpus and wait for its vectors. What is indexed already in this form stays unchanged."""
        with in_all_tenants():  # the store is the measurement's own
            await self._fill(corpus, progress)

    async def _fill(self, corpus: Corpus, progress: Progress) -> None:
        await self._db.read(_need_own_store)
        form = form_row(SPACE + corpus.name)
        anew = await self._db.read(lambda tx: passages.state(tx, form)) != str(FORM)
        left = iter(corpus.texts.items())
        done = 0
        while batch := list(islice(left, BATCH)):
            progress(f"Filing {corpus.name}", done, len(corpus.texts))
            prepared = await asyncio.to_thread(_prepared, corpus.name, batch)
            await self._db.write(partial(self._index.put, documents=prepared, anew=anew))
            done += len(batch)
        await self._db.write(lambda tx: passages.set_state(tx, form, str(FORM)))
        progress(f"Filing {corpus.name}", done, len(corpus.texts))
        if self._backlog is None:
            return
        settled = await self._backlog.settle(lambda done, total: progress(f"Vectors for {corpus.name}", done, total))
        if settled.elsewhere:
            raise Conflict("Another process is filling this store. Try again when it has finished.")
        if settled.left or settled.problem:
            raise Unavailable(f"{settled.left} texts got no vectors: {settled.problem or 'nobody knows why.'}")

    async def _search(self, params: EvaluationQuery, call: Call) -> EvaluationAnswer:
        if not params.question.strip():
            raise InvalidParams("The question is empty.", field="question")
        found = await self._searcher.search(
            SearchFilter(SPACE + params.corpus, call.tenant), params.question, limit=params.limit, per_key=True
        )
        return EvaluationAnswer(
            hits=[EvaluationHit(key=hit.passage.key, score=round(hit.score, 6)) for hit in found.hits],
            notes=list(found.notes),
            pending=found.pending,
        )


def _prepared(corpus: str, texts: Sequence[tuple[str, str]]) -> list[Prepared]:
    return [prepare(Document(SPACE + corpus, TENANT, key, _passages(text))) for key, text in texts]


def _passages(text: str) -> list[Passage]:
    if estimate(text) <= MAX_WHOLE_TOKENS:
        return [Passage((Text(text),))]
    return [Passage((Text(one.text),), " > ".join(one.heading)) for one in chunks(text)]


def _need_own_store(tx: Tx) -> None:
    if tx.one("SELECT 1 FROM passages WHERE space NOT LIKE $1 LIMIT 1", f"{SPACE}%"):
        raise Conflict("That database holds other data. Name an empty one for measuring.")
