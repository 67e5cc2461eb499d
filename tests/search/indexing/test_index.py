"""Filing documents: what is the same stays, what is new is embedded once, and nothing is left behind."""

from typing import Any

import pytest
from tests.search.conftest import Core, T, doc

from kho.kernel.ports import SearchFilter
from kho.search.indexing import passages
from kho.search.indexing.index import Document, Field, Index, Passage, prepare, storable
from kho.search.query.searcher import Searcher

TABLES = ("passages", "vector_queue", "words_entries", "search_versions", "vector_outbox")


async def vectors_of(core: Core, seqs: list[int], tenant: str = "t") -> set[int]:
    return set(await core.vectors.get(core.embedder.model, SearchFilter("s", tenant), seqs))


@pytest.mark.requirement("000.query.pipeline")
async def test_put_replace_and_drop(core: Core) -> None:
    await core.ready(doc("a", "The bridge is closed."), doc("b", "The museum is open."))
    assert await core.first("bridge") == "a"
    await core.ready(doc("a", "The tunnel is closed."))
    assert await core.keys("bridge") == []
    assert await core.first("tunnel") == "a"
    seqs = await core.seqs("a")
    await core.drop("a", "nobody")
    await core.settle()
    assert "a" not in await core.keys("tunnel")
    assert await core.first("museum") == "b"
    assert await vectors_of(core, seqs) == set()
    assert await core.number("passages") == await core.number("words_entries") == 1


async def test_a_document_without_passages_is_gone(core: Core) -> None:
    await core.ready(doc("a", "The bridge is closed."))
    await core.put(doc("a"))
    assert await core.keys("bridge") == []
    assert await core.number("passages") == await core.number("words_entries") == 0


async def test_what_did_not_change_keeps_its_number_and_its_vector(core: Core) -> None:
    await core.ready(doc("a", "The first part.", "The second part.", "The third part."))
    one, two, three = await core.seqs("a")
    await core.put(doc("a", "A new beginning.", "The third part.", "The first part."))
    new, third, first = await core.seqs("a")
    assert (third, first) == (three, one)
    assert new not in (one, two, three)
    assert await core.embedding_queue.pending() == 1
    assert (await core.settle()).done == 1
    assert core.embedder.embedded == ["A new beginning."]
    assert await vectors_of(core, [one, two, three, new]) == {one, three, new}


async def test_a_move_takes_words_and_vectors_along(core: Core) -> None:
    texts = ("The bridge is closed.", "The museum is open.")
    await core.ready(doc("a", *texts, collection="from", tags=("x",)), doc("b", texts[0], collection="from"))
    before, [other] = await core.seqs("a"), await core.seqs("b")
    await core.put(doc("a", *texts, "Not yet embedded.", collection="from", tags=("x",)))
    moved = prepare(doc("a", *texts, "Not yet embedded.", collection="to", tags=("x",)))
    await core.db.write(lambda tx: core.index.put(tx, [moved], moved_from="from"))
    await core.settle()
    assert core.embedder.embedded == ["Not yet embedded."]
    source, target = SearchFilter("s", "t", ("from",)), SearchFilter("s", "t", ("to",), tags=("x",))
    assert await core.keys("bridge", target, limit=1) == ["a"]
    assert await core.keys("bridge", source, limit=1) == ["b"]
    assert {*await core.nearest("bridge museum", target)} == {*await core.seqs("a")} > {*before}
    assert await core.nearest("bridge museum", source) == [other]
    assert await core.number("words_entries") == 4


async def test_putting_the_same_again_changes_nothing(core: Core) -> None:
    await core.ready(doc("a", "The first part.", heading="Of parts", tags=("x",), kind="k", created_at=5))
    before = [await core.all(f"SELECT * FROM {table} ORDER BY 1, 2, 3") for table in TABLES]
    await core.put(doc("a", "The first part.", heading="Of parts", tags=("x",), kind="k", created_at=5))
    assert [await core.all(f"SELECT * FROM {table} ORDER BY 1, 2, 3") for table in TABLES] == before
    assert await core.embedding_queue.pending() == 0


@pytest.mark.parametrize(
    ("changed", "old", "new"),
    [
        ({"tags": ("y",)}, SearchFilter("s", "t", tags=("x",)), SearchFilter("s", "t", tags=("y",))),
        ({"kind": "code"}, SearchFilter("s", "t", kinds=("note",)), SearchFilter("s", "t", kinds=("code",))),
        ({"created_at": 20}, SearchFilter("s", "t", until=15), SearchFilter("s", "t", since=15)),
    ],
)
async def test_filed_elsewhere_without_embedding(
    core: Core, changed: dict[str, Any], old: SearchFilter, new: SearchFilter
) -> None:
    filed: dict[str, Any] = {"tags": ("x",), "kind": "note", "created_at": 10}
    await core.ready(doc("a", "The bridge is closed.", **filed))
    seqs = await core.seqs("a")
    assert await core.first("bridge", old) == "a"
    await core.put(doc("a", "The bridge is closed.", **filed | changed))
    # At once, although Qdrant is told only afterwards. Neither leg may bring it.
    assert await core.keys("bridge", old) == await core.keys("the bridge is shut", old) == []
    assert await core.first("bridge", new) == "a"
    assert (await core.settle()).done == 0
    assert core.embedder.embedded == []
    assert await core.seqs("a") == seqs
    assert await core.nearest("bridge", new) == seqs
    assert await core.nearest("bridge", old) == []


async def test_the_same_text_elsewhere_gets_the_same_vector(core: Core) -> None:
    await core.ready(doc("a", "The bridge is closed."))
    await core.put(
        doc("b", "The bridge is closed."),
        doc("a", "The bridge is closed.", tenant="u"),
        doc("c", "The bridge is open."),
    )
    assert (await core.settle()).done == 3
    assert core.embedder.embedded == ["The bridge is open."]
    assert set(await core.nearest("bridge closed")) == {
        *await core.seqs("b"),
        *(await core.seqs("a"))[:1],
        *await core.seqs("c"),
    }
    assert len(await core.nearest("bridge", SearchFilter("s", "u"))) == 1


async def test_a_heading_or_weights_make_another_text(core: Core) -> None:
    await core.ready(doc("a", "The bridge is closed."))
    await core.put(
        doc("b", "The bridge is closed.", heading="News"),
        Document("s", "t", "c", [Passage((Field("The bridge", 2.0), Field("is closed.")))]),
    )
    await core.settle()
    assert sorted(core.embedder.embedded) == ["News\nThe bridge is closed.", "The bridge\nis closed."]


async def test_the_same_text_twice_in_one_document(core: Core) -> None:
    await core.ready(doc("a", "Again.", "Between.", "Again."))
    first, _, third = seqs = await core.seqs("a")
    assert len(set(seqs)) == 3
    assert await vectors_of(core, seqs) == set(seqs)
    assert await core.number("vector_queue") == 0
    await core.ready(doc("a", "Again.", "Again.", "Again."))
    assert (await core.seqs("a"))[:2] == [first, third]
    await core.put(doc("a", "Again."))
    assert await core.seqs("a") == [first]
    assert await core.first("again") == "a"


async def test_the_same_text_is_embedded_once_in_a_batch(core: Core) -> None:
    await core.put(doc("a", "Again.", "Again."), doc("b", "Again."))
    assert (await core.settle()).done == 3
    assert core.embedder.embedded.count("Again.") == 1


async def test_a_rollback_leaves_nothing(core: Core) -> None:
    await core.ready(doc("a", "The bridge is closed."))
    before = [await core.all(f"SELECT * FROM {table} ORDER BY 1, 2, 3") for table in TABLES]

    class Refused(Exception):
        pass

    def work(tx: passages.Tx) -> None:
        core.index.put(tx, [prepare(doc("a", "The tunnel is closed.")), prepare(doc("b", "The museum."))])
        core.index.drop(tx, "s", "t", ["a"])
        raise Refused

    with pytest.raises(Refused):
        await core.db.write(work)
    assert [await core.all(f"SELECT * FROM {table} ORDER BY 1, 2, 3") for table in TABLES] == before
    assert await core.first("bridge") == "a"
    assert await core.keys("tunnel museum") == []
    assert await core.nearest("bridge") == await core.seqs("a")


async def test_one_batch_in_several_collections_spaces_and_tenants(core: Core) -> None:
    await core.ready(
        doc("a", "The bridge in red.", collection="red"),
        doc("a", "The bridge in blue.", collection="blue"),
        doc("a", "The bridge of another.", tenant="u"),
        doc("a", "The bridge elsewhere.", space="s2"),
        doc("a", "Overwritten at once."),
        doc("a", "The bridge in none."),
    )
    texts = {
        SearchFilter("s", "t", ("red",)): "The bridge in red.",
        SearchFilter("s", "t", ("blue",)): "The bridge in blue.",
        SearchFilter("s", "t", ("",)): "The bridge in none.",
        SearchFilter("s", "u"): "The bridge of another.",
        SearchFilter("s2", "t"): "The bridge elsewhere.",
    }
    for where, text in texts.items():
        found = await core.searcher.search(where, "bridge")
        assert [hit.passage.text for hit in found.hits] == [text]
    # A document is known by its collection too, and keeps its place beside a namesake.
    assert sorted(await core.keys("bridge", per_key=True)) == ["a", "a", "a"]
    await core.drop("a", collection="red")
    assert await core.keys("bridge", SearchFilter("s", "t", ("red",))) == []
    assert await core.first("bridge", SearchFilter("s", "t", ("blue",))) == "a"


ODD = {
    "nul": "broken\0pipe zulu1",
    "surrogate": "half \ud83d of a smile zulu2",
    "emoji": "👩‍👩‍👧 🇻🇳 party zulu3",
    "rtl": "مرحبا بالعالم \u202eהפוך\u202c zulu4",
    "combining": "e\u0301\u0323" * 30 + " zulu5",
    "controls": "\x01\x02\x1b[31m red \x7f\ufeff zulu6",
    "quotes": "'; DROP TABLE passages; -- \" % _ \\ zulu7",
    "private": "\ue000\U0010ffff\ufffe zulu8",
}


async def test_odd_texts(core: Core) -> None:
    await core.ready(*(doc(key, text, heading=text[:8], collection="odd") for key, text in ODD.items()))
    for number, (key, text) in enumerate(ODD.items(), start=1):
        found = await core.searcher.search(T, f"zulu{number}")
        assert [hit.passage.key for hit in found.hits][:1] == [key]
        assert found.hits[0].passage.text == storable(text)
        assert await core.keys(text, limit=1) == [key]


async def test_ten_megabytes(core: Core) -> None:
    text = "The zebra begins. " + "lorem ipsum dolor 数据 đường " * 380_000 + "The okapi ends."
    assert len(text.encode()) > 10_000_000
    await core.put(doc("long", text), doc("short", "An okapi and a zebra."))
    assert await core.keys("zebra") == ["short", "long"]
    assert await core.keys("lorem ipsum") == ["long"]
    await core.drop("long")
    assert await core.keys("zebra") == ["short"]


async def test_empty_passages(core: Core) -> None:
    await core.ready(
        doc("a", ""), doc("b", " \n\t", heading=""), doc("c", "", heading="Only a heading"), doc("d", "…", "Real text.")
    )
    assert await core.embedding_queue.pending() == 0
    assert await core.first("heading") == "c"
    assert await core.first("real text") == "d"
    await core.drop("a", "b", "c", "d")
    assert await core.number("passages") == 0


def test_a_text_keeps_its_digest() -> None:
    """Vectors are known by it: another digest for the same text would have every passage embedded again."""
    [part] = prepare(doc("a", "The bridge is closed.", heading="Roads")).parts
    assert part.stored.digest == "4de84288c69fc766fbae2fd1d50138c6"


async def test_words_filed_anew_leave_the_vectors_alone(core: Core) -> None:
    await core.ready(doc("a", "The bridge is closed."))
    await core.db.write(lambda tx: core.words.drop(tx, [row[0] for row in tx.all("SELECT seq FROM passages")]))
    await core.put(doc("a", "The bridge is closed."), anew=True)
    assert await core.embedding_queue.pending() == 0
    assert await core.first("bridge") == "a"


async def test_what_was_filed_without_a_model_gets_its_vectors_when_there_is_one_again(core: Core) -> None:
    await core.ready(doc("a", "The bridge is closed."))
    without = Index(core.words, None, "", core.clock)
    await core.db.write(lambda tx: without.put(tx, [prepare(doc("b", "The museum is open."))]))
    assert [hit.passage.key for hit in (await Searcher(core.db, core.words).search(T, "museum")).hits] == ["b"]
    assert await core.number("vector_queue") == 0  # nobody would work on it
    assert (await core.settle()).left == 0
    assert core.embedder.embedded == ["The museum is open."]
    assert await vectors_of(core, await core.seqs("b")) == set(await core.seqs("b"))


def test_the_weights_fit_the_text() -> None:
    fields = (Field("One 😀", 2.0), Field("", 3.0), Field("two\0"), Field("three", 0.5))
    [part] = prepare(Document("s", "t", "a", [Passage(fields, "Head\ud800ing")])).parts
    stored = part.stored
    assert stored.text == "One 😀\ntwo\ufffd\nthree"
    assert stored.heading == "Head\ufffding"
    cut, start = list[tuple[str, float]](), 0
    for length, weight in stored.weights:
        cut.append((stored.text[start : start + length].strip(), weight))
        start += length
    assert cut == [("One 😀", 2.0), ("two\ufffd", 1.0), ("three", 0.5)]
    assert "one" in part.head
    assert "two" in part.body
    assert "three" in part.body
