"""Vietnamese queries: words of several syllables, and marks left out."""

from tests.search.conftest import Core, T, doc

from kho.search.query.relevance import RELEVANT, of_score
from kho.search.query.searcher import Searcher

WORD = "Muốn đổi thẻ bảo hiểm thì mang căn cước đến phường."
APART = "Tàu qua khúc hiểm có người bảo vệ đi cùng, thẻ tên ghi rõ."
SHIPS = "Đoàn thuyền nghỉ ở bến cảng vì bão."


async def test_syllables_that_stand_side_by_side_come_first(core: Core) -> None:
    # Newest first among equals: the others would win.
    await core.put(doc("word", WORD), *(doc(f"apart{n}", f"{APART} {n}") for n in range(30)))
    searcher = Searcher(core.db, core.words)
    assert (await searcher.search(T, "bảo hiểm")).hits[0].passage.key == "word"
    assert (await searcher.search(T, "bao hiem")).hits[0].passage.key == "word"


async def test_a_text_that_has_the_syllables_only_apart_is_not_labelled_as_if_it_had_the_word(core: Core) -> None:
    await core.put(doc("word", WORD), doc("apart", APART), doc("ships", SHIPS))
    searcher = Searcher(core.db, core.words)
    for asked in ("bảo hiểm", "bao hiem"):
        word, apart = (await searcher.search(T, asked)).hits
        assert [word.passage.key, apart.passage.key] == ["word", "apart"]
        assert of_score(word.score) >= RELEVANT > of_score(apart.score)


async def test_a_pair_that_no_text_has_costs_nothing(core: Core) -> None:
    await core.put(doc("apart", APART), doc("ships", SHIPS))
    found = await Searcher(core.db, core.words).search(T, "bảo hiểm")
    assert [hit.passage.key for hit in found.hits] == ["apart"]
    assert found.hits[0].parts.words == 1.0


async def test_a_query_without_marks_is_read_with_those_of_the_texts(core: Core) -> None:
    table = "Bàn đỏ kê ở hành lang, hai bàn đỏ nữa ở kho, bàn đỏ thứ tư bị gãy."
    await core.ready(doc("map", "Bản đồ kho hàng treo ở phòng họp."), doc("table", table))
    found = await core.searcher.search(T, "ban do")
    assert {hit.passage.key for hit in found.hits} == {"map", "table"}
    assert set(core.embedder.asked[-2:]) == {"bản đồ", "bàn đỏ"}  # both are likely, so both are asked


async def test_only_texts_of_the_tenant_are_read_for_marks(core: Core) -> None:
    other = doc("theirs", "Bàn đỏ bàn đỏ bàn đỏ bàn đỏ bàn đỏ bàn đỏ", tenant="other")
    await core.ready(doc("map", "Bản đồ kho hàng treo ở phòng họp."), other)
    await core.searcher.search(T, "ban do")
    assert core.embedder.asked[-1] == "bản đồ"


async def test_what_is_deleted_is_no_longer_read_for_marks(core: Core) -> None:
    await core.ready(doc("map", "Bản đồ kho hàng."), doc("table", 9 * "Bàn đỏ. "))
    await core.searcher.search(T, "ban do")
    assert core.embedder.asked[-1] == "bàn đỏ"
    await core.db.write(lambda tx: core.index.drop(tx, T.space, T.tenant, ["table"]))
    await core.searcher.search(T, "ban do")
    assert core.embedder.asked[-1] == "bản đồ"


TYPED = "lich kham rang ngay 20 thang 11 luc 9 gio sang"


async def test_a_text_typed_without_marks_is_embedded_with_them_and_stays_as_it_is(core: Core) -> None:
    await core.put(doc("note", TYPED))
    await core.settle()
    assert core.embedder.embedded[-1].startswith("lịch khám răng ngày 20 tháng 11")
    [hit] = (await core.searcher.search(T, "lịch khám răng")).hits
    assert hit.passage.text == TYPED


async def test_a_text_typed_without_marks_does_not_keep_queries_from_being_read(core: Core) -> None:
    await core.ready(doc("note", f"ghi chu khong dau: {TYPED}"), doc("other", "Lịch khám răng của con là thứ hai."))
    await core.searcher.search(T, "lich kham rang")
    assert core.embedder.asked[-1] == "lịch khám răng"
