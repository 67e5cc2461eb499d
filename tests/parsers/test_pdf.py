"""PDF: files written by hand, in any language, damaged and hostile ones too."""

import io
import re

import pytest
from pypdf import PdfReader, PdfWriter
from tests.parsers.samples import pdf

from kho.lib.chunking.chunker import chunks
from kho.parsers import ParserLimits, UnreadableFile, read

VIETNAMESE = "Cơ sở dữ liệu không kết nối được\nvì mật khẩu đã hết hạn."
CHINESE = "数据库连接失败，请联系管理员。"


def test_the_text_of_the_pages_in_any_language() -> None:
    found = read(pdf([VIETNAMESE, CHINESE, "Plain English."], title="Báo cáo"), "scan.pdf")
    assert (found.title, found.kind, found.format, found.encoding, found.notes) == (
        "Báo cáo",
        "markdown",
        "pdf",
        None,
        (),
    )
    assert [(chunk.heading, chunk.text) for chunk in chunks(found.text, kind=found.kind)] == [
        (("Page 1",), VIETNAMESE),
        (("Page 2",), CHINESE),
        (("Page 3",), "Plain English."),
    ]


def test_a_single_page_needs_no_number_and_a_title_of_a_program_is_none() -> None:
    found = read(pdf([VIETNAMESE], title="Microsoft Word - Document1.doc"), "folder/báo cáo.pdf")
    assert (found.title, found.text) == ("báo cáo", VIETNAMESE + "\n")


def test_bookmarks_are_headings_where_their_words_stand() -> None:
    pages = ["Cover\n1 Begin\nFirst words.\n2 Go on\nSecond words.", "Third words.", "Fourth words."]
    found = read(pdf(pages, bookmarks=[("Begin", 0), ("Go on", 0), ("Nowhere", 2)]), "a.pdf")
    assert [(chunk.heading, chunk.text) for chunk in chunks(found.text, kind=found.kind)] == [
        (("Page 1",), "Cover"),
        (("Begin", "Page 1"), "First words."),
        (("Go on", "Page 1"), "Second words."),
        (("Go on", "Page 2"), "Third words."),
        (("Nowhere", "Page 3"), "Fourth words."),
    ]


def test_words_parted_at_the_end_of_a_line_and_running_lines() -> None:
    pages = [
        f"Journal of Rain\nA know-\nledge of rain number {number}, in 2020-\n2021.\n# no heading\n{number}"
        for number in range(8)
    ]
    text = read(pdf(pages), "a.pdf").text
    assert text.count("A knowledge of rain number") == 8
    assert "2020-\n2021" in text
    assert "Journal of Rain" not in text
    assert text.count("\\# no heading") == 8


def test_a_pdf_is_known_by_its_first_bytes() -> None:
    assert read(pdf(["Words."]), "download").format == "pdf"


def encrypted(password: str) -> bytes:
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(pdf(["Secret words."]))))
    writer.encrypt(password, owner_password="owner", algorithm="AES-256")
    held = io.BytesIO()
    writer.write(held)
    return held.getvalue()


def test_a_password_is_asked_for_only_where_one_is_needed() -> None:
    assert read(encrypted(""), "a.pdf").text == "Secret words.\n"
    with pytest.raises(UnreadableFile, match="password") as refused:
        read(encrypted("x"), "a.pdf")
    assert refused.value.advice == "Save it without a password first."


def test_pictures_of_pages_have_no_text() -> None:
    with pytest.raises(UnreadableFile, match=r"only pictures of pages\. Run text recognition"):
        read(pdf(["", " "]), "scan.pdf")


WHOLE = pdf([VIETNAMESE, CHINESE])


@pytest.mark.parametrize(
    "data",
    [
        b"%PDF-1.7\n",
        b"%PDF-1.7\n" + bytes(range(256)) * 40,
        WHOLE[: len(WHOLE) // 3],
        b"not a pdf at all",
        WHOLE.replace(b"/Type /Pages", b"/Type /Nopes").replace(b"/Kids", b"/Nods"),
        re.sub(rb"/Kids \[[^\]]*\]", b"/Kids [1 0 R 999 0 R]", WHOLE),
    ],
)
def test_a_damaged_file_is_refused_with_what_to_do(data: bytes) -> None:
    with pytest.raises(UnreadableFile) as refused:
        read(data, "a.pdf")
    assert "PDF" in refused.value.reason or "no text" in refused.value.reason


def test_a_file_whose_table_of_objects_is_lost_is_read_still() -> None:
    assert VIETNAMESE in read(re.sub(rb"startxref\n\d+", b"startxref\n7", WHOLE), "a.pdf").text
    assert VIETNAMESE in read(re.sub(rb"/Root \d+ 0 R", b"/Root 999 0 R", WHOLE), "a.pdf").text


def test_a_page_that_cannot_be_read_is_told_and_the_others_are_kept() -> None:
    broken = re.sub(rb"/Contents \d+ 0 R", b"/Contents (no stream)", WHOLE, count=1)
    found = read(broken, "a.pdf")
    assert CHINESE in found.text
    assert found.notes == () or "could not be read: 1" in found.notes[0]


def test_pages_that_hold_each_other_end() -> None:
    """The tree of pages names itself as its own child."""
    loop = re.sub(
        rb"(\d+) 0 obj\n<< /Type /Pages /Kids \[[^\]]*\]", rb"\1 0 obj\n<< /Type /Pages /Kids [\1 0 R]", WHOLE
    )
    assert loop != WHOLE
    with pytest.raises(UnreadableFile):
        read(loop, "a.pdf")


def test_too_many_pages() -> None:
    with pytest.raises(UnreadableFile, match="it has 4 pages, more than 3"):
        read(pdf(["a", "b", "c", "d"]), "a.pdf", limits=ParserLimits(pages=3))


def test_too_much_text() -> None:
    with pytest.raises(UnreadableFile, match="far too long"):
        read(pdf([VIETNAMESE] * 4), "a.pdf", limits=ParserLimits(unpacked=100))
