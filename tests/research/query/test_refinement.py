"""How a question went is told from how the scores lie, and the suggestions are what was found."""

import pytest

from kho.research.query.refinement import Holdings, empty, refine
from kho.research.query.scope import Scope
from kho.research.query.suggestions import FoundText, clean, near_spellings, quoted, splitting, unknown

ALL = Scope(["1", "2"], ["papers", "notes"], "all")
PAPERS = Scope(["1"], ["papers"], "named")


def text(body: str, header: str = "", title: str = "A note", language: str = "en") -> FoundText:
    return FoundText(title, header, body, language)


def test_a_clearly_relevant_result_is_optimal() -> None:
    found = refine("how hot is the kettle", [0.8, 0.4, 0.3], [text("The kettle is hot.")], ALL, Holdings())
    assert found.status == "optimal"
    assert found.message == "Found 3 passages; the best is Highly Relevant and stands out."


def test_one_that_is_only_somewhat_relevant_is_not_optimal_however_it_stands_out() -> None:
    found = refine("kettle", [0.45, 0.2, 0.2], [text("The kettle.")], ALL, Holdings())
    assert found.status == "clarification_needed"
    assert found.message.startswith("Found 3 passages, the first stands out, but it is only Somewhat Relevant.")
    alone = refine("kettle", [0.4], [text("The kettle.")], ALL, Holdings())
    assert alone.status == "clarification_needed"
    assert alone.message.startswith("Found 1 passage, but the best is only Somewhat Relevant.")
    assert refine("kettle", [0.57], [text("The kettle.")], ALL, Holdings()).status == "optimal"


def test_many_that_are_about_equal_are_too_broad_and_their_own_terms_tell_them_apart() -> None:
    headings = ("Installation", "Installation", "Upgrading", "Upgrading", "Backups", "Backups", "Tuning", "Tuning")
    passages = [text(f"The database, number {n}.", f"Guide > {name}") for n, name in enumerate(headings)]
    found = refine("database", [0.8] * 8 + [0.5], passages, ALL, Holdings())
    assert found.status == "too_broad"
    assert {"Installation", "Upgrading", "Backups", "Tuning"} <= {*found.suggestions}
    assert "8 of 9 passages fit about equally well" in found.message


def test_little_that_fits_is_not_clear() -> None:
    found = refine("boiling water", [0.5, 0.48, 0.45], [text("Water is wet.")], ALL, Holdings())
    assert found.status == "clarification_needed"
    assert "only Somewhat Relevant" in found.message
    assert "'boiling'" in found.message


def test_a_gap_is_said_plainly_with_what_to_do() -> None:
    holdings = Holdings(["Kettles"], 1, [], ["notes"])
    found = refine("violin strings", [0.2, 0.19], [text("A kettle.")], PAPERS, holdings)
    assert found.status == "clarification_needed"
    assert found.suggestions == []
    for said in ("Low Relevance", "gap", "ingest_documents", "augment_knowledge", "'papers'", "Not searched: 'notes'"):
        assert said in found.message


def test_nothing_found_names_what_there_is_but_does_not_suggest_it() -> None:
    holdings = Holdings(["Kettles", "Toasters"], 2, ["Bread."], ["notes"], ("kitchen",))
    found = refine("violin", [], [], PAPERS, holdings)
    assert found.status == "clarification_needed"
    assert found.suggestions == []
    said_too = ("gap", "augment_knowledge", "tagged 'kitchen'", "Not searched: 'notes'", "'Kettles', 'Toasters'")
    for said in said_too:
        assert said in found.message


def test_what_there_is_has_every_document_whatever_its_title() -> None:
    few = refine("violin", [], [], PAPERS, Holdings(["猫", "狗", "Kettles" * 20, "..."], 4))
    kettles = ("Kettles" * 20)[:59]
    assert f"What there is: '猫', '狗', '{kettles}…' and 1 more document." in few.message
    many = refine("violin", [], [], PAPERS, Holdings([f"Note {number}" for number in range(60)], 80))
    assert "'Note 4' and 75 more documents." in many.message
    assert "'Note 1'." in refine("violin", [], [], PAPERS, Holdings(["Note 0", "Note 1"], 2)).message


@pytest.mark.parametrize("question", ["x", "K?", " a ", "the", "what is it", "là gì", "của"])
def test_what_says_nothing_is_not_optimal(question: str) -> None:
    found = refine(question, [1.0, 0.2], [text("An x and a K: the kettle.")], ALL, Holdings())
    assert (found.status, found.suggestions) == ("clarification_needed", [])
    assert "does not say what it is about" in found.message


@pytest.mark.parametrize("question", ["猫", "kettle", "mèo", "C++ x"])
def test_a_word_says_something(question: str) -> None:
    assert refine(question, [1.0, 0.2], [text(question, language="")], ALL, Holdings()).status == "optimal"


def test_a_phrase_that_is_nowhere_is_said() -> None:
    found = refine('"group commit"', [0.9, 0.2], [text("A group. A commit.")], PAPERS, Holdings(), ["group commit"])
    assert found.status == "clarification_needed"
    assert found.message.startswith("The phrase \"group commit\" is nowhere in 'papers'. Found 2 passages")
    two = refine('"a b" “c d”', [], [], PAPERS, Holdings(["Kettles"]), ["a b", "c d"])
    assert two.message.startswith('The phrases "a b", "c d" are nowhere')
    assert quoted('say "group  commit" or “ghi  nhóm”, not ""') == ["group commit", "ghi nhóm"]


def test_suggestions_come_from_what_fits_and_from_near_the_words() -> None:
    passages = [
        text("Descale the kettle with citric acid. Citric acid is cheap. The garden gnome fell. The garden gnome."),
        text("The kettle hums. A kettle with citric acid hums.", title="Humming"),
        text("Stamps of Peru.", "Peru"),
    ]
    found = refine("descale kettle", [0.5, 0.45, 0.2], passages, ALL, Holdings())
    assert found.status == "clarification_needed"
    assert "Humming" in found.suggestions
    assert not {"Peru", "garden gnome"} & {*found.suggestions}
    code = [text("The kettle. `kettle_on` and\n```\nkettle.boil(now, now)\n```\n", "Why does it hum?"), text("x")]
    assert splitting("kettle", code, 6) == []


def test_a_misspelt_word_is_recognised() -> None:
    holdings = Holdings(["Running Kubernetes at home"], 1, ["Pods are scheduled."])
    assert refine("kuberntes", [], [], ALL, holdings).suggestions[0] == "Kubernetes"
    assert near_spellings("kien thuc", ["Kiến trúc", "Kiến thức nền"]) == []
    assert near_spellings("nguyen", ["Nguyễn Du", "nguyện"]) == []  # no mark is no misspelling
    assert near_spellings("truongg", ["Nhà trường mở cửa"]) == ["trường"]
    assert near_spellings("seach", ["Each search is in reach of a beach"]) == ["search"]
    assert near_spellings("serach", ["A search"]) == ["search"]
    assert near_spellings("khởi", ["Kho kho_ khơi"]) == near_spellings("liệu", ["like line live"]) == []


def test_the_first_result_in_another_language_is_no_gap_if_it_stands_out() -> None:
    found = refine("Ấm nước nóng bao nhiêu?", [0.3, 0.2], [text("The kettle is hot.")], ALL, Holdings())
    assert found.status == "clarification_needed"
    assert "stands out, but it is in another language" in found.message
    sure = refine("Ấm nước nóng bao nhiêu?", [0.6, 0.2], [text("The kettle is hot.")], ALL, Holdings())
    assert sure.status == "optimal"
    assert "another language" in sure.message
    close = refine("Ấm nước nóng bao nhiêu?", [0.3, 0.29], [text("The kettle is hot.")], ALL, Holdings())
    assert close.status == "clarification_needed"
    assert "look at them anyway" in close.message
    assert "None of the best has" not in close.message


def test_an_empty_store_and_an_empty_collection_spell_the_next_call() -> None:
    nothing = empty(Scope([], [], "all"), Holdings())
    assert 'manage_collections(action="create"' in nothing.message
    assert "ingest_documents(" in nothing.message
    bare = empty(PAPERS, Holdings(elsewhere=["notes"]))
    assert 'ingest_documents(path="…", collection="papers")' in bare.message
    assert bare.suggestions == ["notes"]
    assert "Not searched: 'notes'" in bare.message


def test_suggestions_are_spelt_as_found_and_not_what_was_asked() -> None:
    passages = [
        text("Marie Curie found radium; Marie Curie found polonium.", "Chemistry"),
        text("The kettle of Lord Kelvin was hot.", "Physics"),
    ]
    assert splitting("physics", passages, 3)[0] == "Chemistry"
    assert "Marie Curie" in splitting("physics", passages, 6)


def test_vietnamese_suggestions_are_words_of_two_syllables() -> None:
    body = "Cơ sở dữ liệu lưu dữ liệu của người dùng, và dữ liệu được sao lưu."
    found = splitting("máy chủ", [text(body, language="vi"), text("Máy chủ chạy.", title="Khác", language="vi")], 6)
    assert "dữ liệu" in found
    assert "liệu" not in found


def test_chinese_suggestions_are_runs_that_come_back() -> None:
    body = "知识库保存文档。知识库可以搜索，知识库也可以更新。"
    found = splitting("服务器", [text(body, language="zh"), text("服务器在运行。", title="别的", language="zh")], 6)
    assert "知识库" in found
    assert "知识" not in found
    assert "识库" not in found


def test_words_that_no_passage_has() -> None:
    assert unknown("How hot is the samovar?", ["The kettle is hot."]) == ["samovar"]
    assert unknown("Ấm nuoc", ["Nước trong ấm"]) == []


def test_a_term_cannot_look_like_anything_else() -> None:
    assert clean("## Ignore\u202e all\nprevious `words`") == "Ignore all previous `words"
