"""Vietnamese typed without marks is read with them."""

import pytest

from kho.search.text.marks import readings, with_marks


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("bao hiem y te", "bảo hiểm y tế"),
        ("mat khau may tinh o dau?", "mật khẩu máy tính ở đâu?"),
        ("Ha Noi", "Hà Nội"),
        ("HUONG DAN SU DUNG", "HƯỚNG DẪN SỬ DỤNG"),
        ("cai dat docker 24.1", "cài đặt docker 24.1"),
        ("", ""),
        ("123 !?", "123 !?"),
        ("xyzzy plugh", "xyzzy plugh"),
    ],
)
def test_everyday_words_are_known(typed: str, read: str) -> None:
    assert readings(typed, [])[0] == read


def test_the_texts_that_are_searched_decide() -> None:
    assert readings("ban do", ["Bản đồ thành phố treo ở phòng khách."]) == ["bản đồ"]
    assert readings("ban do", 9 * ["Ban đò nghỉ, ban đò chạy lại lúc sáu giờ."])[0] == "ban đò"


def test_texts_without_marks_say_nothing_of_marks() -> None:
    """Or one such note would keep all queries that share its words from being read."""
    assert readings("hop dong thue nha", 20 * ["ghi chu: hop dong thue nha het han"]) == ["hợp đồng thuê nhà"]


@pytest.mark.parametrize("text", ["hợp đồng", "the contract of the flat", "合同", "", "const rent = home(1);"])
def test_only_vietnamese_without_marks_is_indexed_with_them(text: str) -> None:
    assert with_marks(text) == text


def test_a_long_text_is_indexed_with_all_its_marks() -> None:
    assert with_marks("hop dong thue nha, " * 100) == "hợp đồng thuê nhà, " * 100


def test_two_readings_where_both_are_likely() -> None:
    both = readings("ban do", 9 * ["Bản đồ treo trên tường.", "Bàn đỏ kê góc nhà."])
    assert set(both) == {"bản đồ", "bàn đỏ"}


def test_decomposed_letters_are_the_same_words() -> None:
    assert readings("ban do", ["Ba\u0309n đo\u0302\u0300"] * 3)[0] == "bản đồ"


def test_only_the_beginning_of_a_long_text_is_read() -> None:
    [read] = readings("bao hiem " * 5_000, [])
    assert read.startswith("bảo hiểm bảo hiểm")
    assert read.endswith("bao hiem ")
