"""Questions to the knowledge base: where they look, what they bring and in which order, and what they say about it."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.research.factories import Desk, settings, told

from kho.kernel.errors import KhoError
from kho.kernel.ports import SearchFilter
from kho.research import model
from kho.research.errors import InvalidQuery, QueryTimeout, UnknownCollection, UnknownProject
from kho.research.ingest.indexing import SPACE
from kho.research.model import QueryAnswer, SimilarAnswer
from kho.research.query.service import Queries
from kho.research.query.similar import Similarity
from kho.research.settings import ResearchSettings

KETTLE = """# Kettles

Every kettle boils water.

## Safety

The thermostat of the kettle switches it off at one hundred degrees.

## Care

Descale the kettle with vinegar every month.
"""


class Asking:
    """One desk, and questions to it."""

    def __init__(self, desk: Desk, chosen: ResearchSettings | None = None) -> None:
        self.desk = desk
        known: dict[str, Any] = {"db": desk.db, "searcher": desk.searcher, "clock": desk.clock}
        self.queries = Queries(history=desk.history, settings=chosen or settings(), **known)
        self.similarity = Similarity(settings=chosen or settings(), **known)

    async def __call__(self, query: str, **more: Any) -> QueryAnswer:
        params = model.QueryKnowledgeBase.model_validate({"query": query, **more})
        call = self.desk.call()
        answer = await self.queries.query(params, call)
        for work in call.afterwards:
            await work()
        return answer

    async def similar(self, document: str, **more: Any) -> SimilarAnswer:
        params = model.SimilarDocuments.model_validate({"document": document, **more})
        return await self.similarity.similar(params, self.desk.call())


def sources(answer: QueryAnswer) -> list[str]:
    return [item.source_document for item in answer.results]


@pytest.fixture
async def asking(desk: Desk) -> Asking:
    await desk.collection("create", "kitchen")
    return Asking(desk)


async def test_a_result_has_what_the_contract_shows(asking: Asking) -> None:
    doc = await asking.desk.add("kitchen", KETTLE, path="/docs/kettle.md", title="Kettles", tags=("metal",))
    answer = await asking("thermostat of the kettle", explain=True, neighbours=1)
    assert answer.status == "success"
    item = answer.results[0]
    assert "thermostat" in item.content
    assert item.source_document == "kettle.md"
    assert item.header_path == "Safety"
    assert 0 <= item.relevance_score <= 1
    assert round(item.relevance_score, 4) == item.relevance_score
    about = item.metadata
    assert (about.document_title, about.content_type, about.document_id) == ("Kettles", "prose", doc.id)
    assert (about.collection, about.path, about.tags) == ("kitchen", "/docs/kettle.md", ["metal"])
    assert about.total_chunks == doc.chunks
    refinement = answer.query_refinement
    assert (refinement.status, refinement.searched) == ("optimal", ["kitchen"])
    assert refinement.total == len(answer.results)
    assert refinement.next_cursor is None


async def test_neighbours_are_the_chunks_before_and_after(asking: Asking) -> None:
    doc = await asking.desk.add("kitchen", KETTLE, title="Kettles")
    assert doc.chunks == 3
    [first, *_] = (await asking("thermostat", neighbours=1)).results
    assert first.neighbours is not None
    assert [one.chunk_sequence_id for one in first.neighbours] == [0, 2]
    assert [one.header_path for one in first.neighbours] == ["", "Care"]
    assert "vinegar" in first.neighbours[1].content
    assert (await asking("thermostat")).results[0].neighbours is None


async def test_explain_says_why_in_numbers_and_in_words(desk_with_vectors: Desk) -> None:
    asking = Asking(desk_with_vectors)
    await desk_with_vectors.collection("create", "kitchen")
    await desk_with_vectors.add("kitchen", KETTLE, title="Kettles")
    await desk_with_vectors.settle()
    [first, *_] = (await asking("thermostat of the kettle", explain=True, document_context="A hot kettle.")).results
    why = first.explanation
    assert why is not None
    assert why.semantic is not None
    assert why.context is not None
    assert why.rerank is not None
    for part in (why.lexical, why.semantic, why.context, why.rerank):
        assert 0 <= part <= 1
    assert why.feedback is None
    assert why.summary.startswith("It has most of the question's words (thermostat, kettle)")
    assert "in meaning" in why.summary
    assert "the document context" in why.summary
    assert first.highlights is not None
    assert "**thermostat**" in first.highlights[0]
    plain = (await asking("thermostat of the kettle")).results[0]
    assert plain.explanation is None
    assert plain.highlights is None


async def test_named_collections_then_the_projects_then_all(asking: Asking) -> None:
    desk = asking.desk
    await desk.collection("create", "garden")
    await desk.add("kitchen", "The kettle is hot.", source="k")
    await desk.add("garden", "A kettle for the garden.", source="g")
    await desk.project("create", "Tea", collections="garden", default=True, directory="/tea")
    assert {*sources(await asking("kettle"))} == {"k", "g"}
    assert sources(await asking("kettle", collections="kitchen")) == ["k"]
    assert sources(await asking("kettle", project="Tea")) == ["g"]
    assert sources(await asking("kettle", directory="/tea/leaves")) == ["g"]
    assert sources(await asking("kettle", project="Tea", collections=["kitchen"])) == ["k"]
    assert (await asking("kettle", project="Tea")).query_refinement.searched == ["garden"]


async def test_tags_narrow(asking: Asking) -> None:
    await asking.desk.add("kitchen", "The kettle is hot.", source="a", tags=("metal",))
    await asking.desk.add("kitchen", "The kettle is cold.", source="b", tags=("glass",))
    assert sources(await asking("kettle", tags="glass")) == ["b"]
    nothing = await asking("kettle", tags="wood")
    assert nothing.results == []
    assert "tagged 'wood'" in nothing.query_refinement.message


async def test_an_unknown_collection_names_near_ones(asking: Asking) -> None:
    with pytest.raises(UnknownCollection) as refused:
        await asking("kettle", collections="kichen")
    assert refused.value.rpc == -32002
    assert "'kitchen'" in told(refused.value)
    with pytest.raises(UnknownProject):
        await asking("kettle", project="nobody's")


async def test_another_tenant_finds_nothing(asking: Asking) -> None:
    await asking.desk.add("kitchen", "The kettle is hot.")
    other = Asking(asking.desk.neighbour())
    answer = await other("kettle")
    assert answer.results == []
    assert "There are no collections yet" in answer.query_refinement.message
    with pytest.raises(UnknownCollection):
        await other("kettle", collections="kitchen")


async def test_nothing_there_yet_spells_the_next_call(asking: Asking) -> None:
    answer = await asking("kettle")
    assert answer.results == []
    assert 'ingest_documents(path="…", collection="kitchen")' in answer.query_refinement.message
    assert answer.query_refinement.status == "clarification_needed"


async def test_a_phrase_that_no_passage_has_is_said(asking: Asking) -> None:
    await asking.desk.add("kitchen", "Giấm trắng tẩy cặn. The acid is citric.", title="Acids")
    there = (await asking('"Giấm trắng" and "acid is citric"', collections="kitchen")).query_refinement
    assert "nowhere" not in there.message
    gone = (await asking('"citric acid"', collections="kitchen")).query_refinement
    assert (gone.status, gone.total) == ("clarification_needed", 1)
    assert gone.message.startswith("The phrase \"citric acid\" is nowhere in 'kitchen'.")


async def test_a_project_whose_collections_are_gone_is_said(asking: Asking) -> None:
    await asking.desk.collection("create", "gone")
    await asking.desk.project("create", "thesis", collections="gone")
    await asking.desk.collection("delete", "gone")
    named = await asking("kettle", project="thesis")
    assert named.results == []
    assert "'thesis' has no collections" in named.query_refinement.message
    assert "kitchen" in named.query_refinement.suggestions
    await asking.desk.project("create", "old", collections="kitchen")
    await asking.desk.project("archive", "old")
    aside = await asking("kettle")
    assert "only archived projects have them: 'kitchen'" in aside.query_refinement.message
    assert "kitchen" not in (aside.query_refinement.searched or [])


async def test_a_gap_is_said_and_a_misspelling_recognised(asking: Asking) -> None:
    await asking.desk.collection("create", "garden")
    await asking.desk.add("kitchen", "The thermostat is broken.", title="Thermostats")
    gap = (await asking("violin concerto", collections="kitchen")).query_refinement
    assert gap.total == 0
    assert "gap" in gap.message
    assert "augment_knowledge" in gap.message
    assert gap.suggestions == []
    assert "What there is: 'Thermostats'" in gap.message
    assert "Not searched: 'garden'" in gap.message
    assert (await asking("termostat")).query_refinement.suggestions[0].lower() in ("thermostat", "thermostats")


@pytest.mark.parametrize("word", ["database", "cơ sở dữ liệu", "数据库"])
async def test_a_word_that_is_everywhere_is_too_broad(asking: Asking, word: str) -> None:
    for number, heading in enumerate(("Backup", "Upgrade", "Tuning", "Access") * 3):
        await asking.desk.add(
            "kitchen", f"# {heading}\n\n{word} {number}", source=f"s{number}", title=f"Guide {heading}"
        )
    answer = (await asking(word)).query_refinement
    assert answer.status == "too_broad"
    assert answer.total == 12
    assert any("Backup" in term for term in answer.suggestions)


async def test_pages_are_cut_from_one_list(asking: Asking) -> None:
    for number in range(23):
        await asking.desk.add("kitchen", f"The kettle number {number} is hot.", source=f"s{number}")
    whole = await asking("kettle", top_k=100)
    assert len(whole.results) == whole.query_refinement.total == 23
    seen: list[str] = []
    cursor = None
    while True:
        page = await asking("kettle", top_k=5, cursor=cursor)
        seen += sources(page)
        assert page.query_refinement.total == 23
        cursor = page.query_refinement.next_cursor
        if cursor is None:
            break
        await asking.desk.add("kitchen", f"Another kettle kettle, after {len(seen)}.", source=f"new{len(seen)}")
    assert seen == sources(whole)


async def test_the_pages_of_a_list_that_the_context_ordered_fit_together(asking: Asking) -> None:
    for number in range(12):
        about = "orchids in a greenhouse" if number % 3 == 0 else "trains on a bridge"
        await asking.desk.add("kitchen", f"Water number {number} for {about}.", source=f"s{number}")
    context = "My orchids stand in the greenhouse."
    whole = sources(await asking("water", top_k=100, document_context=context))
    assert {*whole[:4]} == {"s0", "s3", "s6", "s9"}
    first = await asking("water", top_k=5, document_context=context)
    cursor = first.query_refinement.next_cursor
    second = await asking("water", top_k=10, document_context=context, cursor=cursor)
    assert sources(first) + sources(second) == whole
    elsewhere = Asking(asking.desk)  # another process, which remembers no list
    assert sources(await elsewhere("water", top_k=10, document_context=context, cursor=cursor)) == whole[5:]
    with pytest.raises(InvalidQuery) as refused:
        await asking("water", cursor=cursor)
    assert refused.value.rpc == -32004
    assert "cursor" in told(refused.value)
    with pytest.raises(InvalidQuery):
        await asking("water", cursor="nonsense")


async def test_the_context_decides_what_is_meant(asking: Asking) -> None:
    desk = asking.desk
    await desk.add("kitchen", "Python is a large snake that swallows its prey whole.", source="snake")
    await desk.add("kitchen", "Python is a language whose programs are interpreted.", source="language")
    snake = await asking("python", document_context="The prey of a snake: mice. A snake hunts its prey at night.")
    language = await asking("python", document_context="Languages whose programs are compiled, and interpreted ones.")
    assert (sources(snake)[0], sources(language)[0]) == ("snake", "language")
    again = await asking("python", document_context="The prey of a snake: mice. A snake hunts its prey at night.")
    assert again == snake


async def test_the_contexts_meaning_counts_where_there_is_a_model(desk_with_vectors: Desk) -> None:
    asking = Asking(desk_with_vectors)
    await desk_with_vectors.collection("create", "kitchen")
    await desk_with_vectors.add("kitchen", "Python is a large snake.", source="snake")
    await desk_with_vectors.add("kitchen", "Python is a small language.", source="language")
    await desk_with_vectors.settle()
    # Other words with the same beginnings: only the vectors see that they are alike.
    assert sources(await asking("python", document_context="snakeskin, snakebite"))[0] == "snake"
    assert sources(await asking("python", document_context="languaged, multilanguage"))[0] == "language"


async def test_a_context_does_not_move_the_clearly_better_and_may_fit_nothing(asking: Asking) -> None:
    desk = asking.desk
    await desk.add("kitchen", "The thermostat of the kettle is set to one hundred degrees.", source="right")
    await desk.add("kitchen", "Orchids need degrees of warmth.", source="orchids")
    question = "thermostat of the kettle degrees"
    assert sources(await asking(question, document_context="Orchids need warmth."))[0] == "right"
    stray = await asking(question, document_context="Quarterly revenue and dividends of the railway.")
    assert sources(stray) == sources(await asking(question))
    assert "fits none of the results" in (stray.query_refinement.notes or [""])[0]


async def test_verdicts_move_equals(asking: Asking) -> None:
    desk = asking.desk
    first = await desk.add("kitchen", "The kettle boils quickly today.", source="first")
    await desk.add("kitchen", "The kettle boils slowly today.", source="second")
    assert sources(await asking("kettle boils")) == ["second", "first"]
    for reader in ("a", "b", "c"):
        params = model.SubmitFeedback(document_id=first.id, chunk=0, verdict="positive", reason=None, query=None)
        await desk.feedback.submit(params, desk.call(reader))
    answer = await asking("kettle boils", explain=True)
    assert sources(answer) == ["first", "second"]
    why = answer.results[0].explanation
    assert why is not None
    assert why.feedback == pytest.approx(0.8)
    assert "moved up slightly" in why.summary


async def test_the_history_is_written_after_the_answer(asking: Asking) -> None:
    await asking.desk.add("kitchen", KETTLE)
    answer = await asking("kettle", top_k=1)
    await asking("kettle", top_k=1, cursor=answer.query_refinement.next_cursor)
    listed = await asking.desk.history.history(
        model.QueryHistory(filter=None, cursor=None, limit=5), asking.desk.call()
    )
    [question] = listed.queries
    assert (question.query, question.collections) == ("kettle", ["kitchen"])
    assert question.results == answer.query_refinement.total
    assert question.best_score == answer.results[0].relevance_score


async def test_what_waits_for_its_vector_is_said(desk_with_vectors: Desk) -> None:
    asking = Asking(desk_with_vectors)
    await desk_with_vectors.collection("create", "kitchen")
    doc = await desk_with_vectors.add("kitchen", KETTLE)
    assert (await asking("kettle")).query_refinement.vectors_pending == doc.chunks
    await desk_with_vectors.settle()
    assert (await asking("kettle again")).query_refinement.vectors_pending is None


async def test_a_question_that_takes_too_long_is_given_up(desk: Desk) -> None:
    await desk.collection("create", "kitchen")
    await desk.add("kitchen", KETTLE)
    hasty = Asking(desk, settings(query_timeout=1e-9))
    asked: list[Callable[[], Any]] = [lambda: hasty("kettle"), lambda: hasty.similar("A note")]
    for ask in asked:
        with pytest.raises(QueryTimeout) as given_up:
            await ask()
        assert given_up.value.rpc == -32004
        assert given_up.value.contract_data()["guidance"]


@pytest.mark.parametrize("query", ["???", "的", "a" * 10_000, "x " * 5_000, '"', "\u0000", "NEAR(a b)", "🫖"])
async def test_odd_questions_are_answered(asking: Asking, query: str) -> None:
    await asking.desk.add("kitchen", KETTLE)
    answer = await asking(query, document_context=query * 3)
    assert answer.query_refinement.message


@pytest.mark.parametrize(
    "wrong",
    [{"query": "  "}, {"query": "x" * 10_001}, {"query": "a", "top_k": 0}, {"query": "a", "top_k": 101}, {}],
)
def test_wrong_parameters_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"query|top_k"):
        model.QueryKnowledgeBase.model_validate(wrong)


async def test_a_wrong_folder_is_the_questions_error(asking: Asking) -> None:
    with pytest.raises(KhoError) as refused:
        await asking("kettle", directory="relative")
    assert refused.value.rpc == -32004
    assert "directory" in told(refused.value)


async def test_documents_like_another(asking: Asking) -> None:
    desk = asking.desk
    await desk.collection("create", "garden")
    mine = await desk.add("kitchen", KETTLE, title="Kettles", source="mine")
    near = await desk.add("garden", KETTLE.replace("vinegar", "lemon"), title="Kettle care", source="near")
    await desk.add("kitchen", "Orchids bloom in spring.", title="Orchids", source="far")
    answer = await asking.similar(mine.id)
    assert [one.document.id for one in answer.results][:1] == [near.id]
    assert mine.id not in [one.document.id for one in answer.results]
    assert len({one.document.id for one in answer.results}) == len(answer.results)
    assert answer.document.id == mine.id
    assert "like 'Kettles'" in answer.message
    assert (await asking.similar("Kettles", collections="kitchen")).results == []


async def test_a_long_document_does_not_hide_those_like_it(desk_with_vectors: Desk) -> None:
    desk, asking = desk_with_vectors, Asking(desk_with_vectors)
    await desk.collection("create", "kitchen")
    sections = "\n\n".join(
        f"## Kettle {n}\n\nThe kettle number {n} has a thermostat and boils water." for n in range(80)
    )
    mine = await desk.add("kitchen", sections, title="Kettles")
    near = await desk.add("kitchen", "A kettle with a thermostat that boils water.", title="One kettle")
    await desk.settle()
    assert [one.document.id for one in (await asking.similar(mine.id)).results] == [near.id]


async def test_the_likeness_of_passages_to_a_text_is_told_to_their_owner_only(desk_with_vectors: Desk) -> None:
    desk = desk_with_vectors
    await desk.collection("create", "kitchen")
    await desk.add("kitchen", "A kettle that whistles.")
    await desk.add("kitchen", "Orchids bloom in spring.")
    await desk.settle()
    where = SearchFilter(SPACE, desk.tenant)
    [kettle, orchids] = sorted((await desk.searcher.ranking(where, "kettle orchids")).ranked, key=lambda one: one.seq)
    seqs = [kettle.seq, orchids.seq]
    found = await desk.searcher.likeness(where, "My kettle whistles.", seqs)
    assert found[kettle.seq] > found[orchids.seq] >= 0
    assert await desk.searcher.likeness(SearchFilter(SPACE, desk.neighbour().tenant), "My kettle whistles.", seqs) == {}
    assert await desk.searcher.likeness(where, "?", seqs) == {}
    assert await desk.searcher.likeness(where, "My kettle whistles.", []) == {}
