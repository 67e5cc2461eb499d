"""Feedback: one verdict per person and chunk, and what they say about a collection."""

import pytest
from tests.research.factories import Desk, told

from kho.research import model
from kho.research.errors import AmbiguousDocument, DocumentNotFound, InvalidDocumentRequest
from kho.research.library import document_store
from kho.research.model import AnalyticsAnswer, FeedbackAnswer
from kho.research.query import feedback


async def judge(desk: Desk, id: str, verdict: str, by: str = "somebody", **more: object) -> FeedbackAnswer:
    params = model.SubmitFeedback.model_validate({"document_id": id, "verdict": verdict, **more})
    return await desk.feedback.submit(params, desk.call(by))


async def analytics(desk: Desk, **more: object) -> AnalyticsAnswer:
    return await desk.feedback.analytics(model.OfCollection.model_validate(more), desk.call())


async def test_a_later_verdict_replaces_an_earlier_one(desk: Desk) -> None:
    await desk.collection("create", "papers")
    doc = await desk.add("papers", "# A\n\nx\n\n# B\n\ny")
    await judge(desk, doc.id, "negative", chunk=0, reason="stale", query="x?")
    answer = await judge(desk, doc.id, "positive", chunk=0)
    assert (answer.positive, answer.negative, answer.neutral) == (1, 0, 0)
    await judge(desk, doc.id, "negative", by="other", chunk=0)
    await judge(desk, doc.id, "neutral", chunk=1)
    answer = await judge(desk, doc.id, "positive")
    assert (answer.positive, answer.negative, answer.neutral) == (2, 1, 1)
    digests = await desk.db.read(lambda tx: document_store.digests(tx, desk.tenant, doc))
    tallies = await desk.db.read(lambda tx: feedback.of_passages(tx, desk.tenant, [doc.id]))
    assert tallies == {
        (doc.id, digests[0]): feedback.Tally(1, 1, 0),
        (doc.id, digests[1]): feedback.Tally(0, 0, 1),
        (doc.id, ""): feedback.Tally(1, 0, 0),
    }


async def test_a_document_is_named_as_everywhere_else(desk: Desk) -> None:
    await desk.collection("create", "papers")
    doc = await desk.add("papers", "Oolong.", title="On tea", path="/home/mai/notes/tea.html")
    for name in (doc.id, "On tea", "on TEA", "/home/mai/notes/tea.html", "notes/tea.html", "./tea.html"):
        answer = await judge(desk, name, "positive", by=name)
        assert answer.document_id == doc.id
    assert answer.positive == 6  # pyright: ignore[reportPossiblyUnbound]
    other = await desk.add("papers", "Sencha.", title="On tea", path="/home/mai/old/tea.html")
    with pytest.raises(AmbiguousDocument) as refused:
        await judge(desk, "tea.html", "positive")
    assert doc.id in told(refused.value)
    assert other.id in told(refused.value)
    with pytest.raises(DocumentNotFound, match="There is no document 'coffee'") as unknown:
        await judge(desk, "coffee", "positive")
    assert unknown.value.contract_data()["details"] == "document: coffee"


async def test_what_is_judged_must_be_there(desk: Desk) -> None:
    await desk.collection("create", "papers")
    doc = await desk.add("papers", "x")
    with pytest.raises(DocumentNotFound):
        await judge(desk, "nobody", "positive")
    with pytest.raises(DocumentNotFound):
        await judge(desk.neighbour(), doc.id, "positive")
    with pytest.raises(InvalidDocumentRequest, match="'chunk' must be a chunk of the document: 0 to 0") as refused:
        await judge(desk, doc.id, "positive", chunk=1)
    assert refused.value.contract_code == -32003


async def test_the_analysis_sums_up_collections_and_names_complaints(desk: Desk) -> None:
    await desk.collection("create", "a")
    await desk.collection("create", "b")
    good, bad = await desk.add("a", "good", title="Good"), await desk.add("a", "bad", title="Bad")
    other = await desk.add("b", "other")
    for person in ("p", "q", "r"):
        await judge(desk, good.id, "positive", by=person)
    await judge(desk, bad.id, "negative", by="p", reason="wrong numbers")
    await judge(desk, bad.id, "negative", by="q", reason="out of date")
    await judge(desk, other.id, "neutral")
    found = await analytics(desk)
    assert [(one.collection, one.positive, one.negative, one.neutral) for one in found.collections] == [
        ("a", 3, 2, 0),
        ("b", 0, 0, 1),
    ]
    assert [one.helpful_share for one in found.collections] == [0.6, None]
    assert [(one.document.title, one.negative, one.reasons) for one in found.complaints] == [
        ("Bad", 2, ["out of date", "wrong numbers"])
    ]
    narrowed = await analytics(desk, collection="b")
    assert ([one.collection for one in narrowed.collections], narrowed.complaints) == (["b"], [])
    nothing = await analytics(desk.neighbour())
    assert (nothing.collections, nothing.complaints) == ([], [])


async def test_verdicts_go_with_their_document(desk: Desk) -> None:
    await desk.collection("create", "a")
    await desk.collection("create", "b")
    doc = await desk.add("a", "x")
    await judge(desk, doc.id, "negative", chunk=0)
    await desk.collection("move-documents", "a", documents=[doc.id], target_collection="b")
    assert [one.collection for one in (await analytics(desk)).collections] == ["b"]
    await desk.collection("delete", "b", confirm=True)
    assert await desk.count("research_feedback") == 0
