"""DOCX: real files of python-docx, and files made to hurt."""

import io
import zipfile
import zlib

import pytest
from docx.document import Document
from tests.parsers.samples import word

from kho.lib.chunking.chunker import chunks
from kho.parsers import ParserLimits, UnreadableFile, read


def guide(document: Document) -> None:
    document.add_heading("Hướng dẫn sử dụng", 0)
    document.add_paragraph("Mở đầu.")
    document.add_heading("Cài đặt", 1)
    document.add_paragraph("một", style="List Bullet")
    document.add_paragraph("hai", style="List Bullet")
    table = document.add_table(rows=2, cols=3)
    for row, words in zip(table.rows, (("Tên", "Cỡ", ""), ("a | b", "1\nMB", "c")), strict=True):
        for cell, text in zip(row.cells, words, strict=True):
            cell.text = text
    table.cell(0, 1).merge(table.cell(0, 2))
    document.add_heading("Chạy", 2)
    document.add_paragraph("# không phải đầu đề")
    document.add_paragraph("数据库\tkết nối")


def test_a_document_in_its_order() -> None:
    found = read(word(guide), "guide.docx")
    assert (found.title, found.kind, found.format) == ("Hướng dẫn sử dụng", "markdown", "docx")
    assert found.text == (
        "# Hướng dẫn sử dụng\n\nMở đầu.\n\n# Cài đặt\n\n- một\n- hai\n\n"
        "| Tên | Cỡ |  |\n| --- | --- | --- |\n| a \\| b | 1 MB | c |\n\n"
        "## Chạy\n\n\\# không phải đầu đề\n\n数据库\tkết nối\n"
    )
    assert ("Cài đặt", "Chạy") in {chunk.heading for chunk in chunks(found.text, kind=found.kind)}


def changed(data: bytes, part: str, content: bytes, more: dict[str, bytes] | None = None) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, content if name == part else old.read(name))
        for name, extra in (more or {}).items():
            new.writestr(name, extra)
    return held.getvalue()


ORDINARY = word(guide)
DOCUMENT = (
    b'<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" '
    b'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"><w:body>%s</w:body></w:document>'
)
BARE = (
    b'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" '
    b'Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" '
    b'Target="word/document.xml"/></Relationships>'
)
"""A package that has no properties."""
BODY = DOCUMENT % b"<w:p><w:r><w:t>before %s after</w:t></w:r></w:p>"


def test_what_was_inserted_under_change_tracking_is_there_and_what_was_deleted_is_not() -> None:
    body = (
        b"<w:sdt><w:sdtContent><w:p><w:r><w:t>Controlled.</w:t></w:r></w:p></w:sdtContent></w:sdt>"
        b"<w:p><w:r><w:t>Kept </w:t></w:r><w:ins><w:r><w:t>inserted</w:t></w:r></w:ins>"
        b"<w:del><w:r><w:delText>deleted</w:delText></w:r></w:del></w:p>"
        b"<w:p><w:r><mc:AlternateContent><mc:Choice><w:t>Once</w:t></mc:Choice>"
        b"<mc:Fallback><w:t>twice</w:t></mc:Fallback></mc:AlternateContent></w:r></w:p>"
    )
    found = read(changed(ORDINARY, "word/document.xml", DOCUMENT % body), "a.docx")
    assert found.text == "Controlled.\n\nKept inserted\n\nOnce\n"


def test_the_title_of_the_properties_comes_first() -> None:
    def fill(document: Document) -> None:
        document.core_properties.title = "The title"
        document.add_heading("A heading", 1)

    assert read(word(fill), "a.docx").title == "The title"


def test_without_properties_it_is_called_by_its_heading_or_its_file() -> None:
    assert read(changed(ORDINARY, "_rels/.rels", BARE), "a.docx").title == "Hướng dẫn sử dụng"
    plain = word(lambda document: document.add_paragraph("Only a text."))
    assert read(changed(plain, "_rels/.rels", BARE), "notes/tea.docx").title == "tea"


def test_entities_are_not_expanded_and_no_file_is_opened() -> None:
    head = b'<!DOCTYPE x [<!ENTITY a "expanded"><!ENTITY file SYSTEM "file:///etc/passwd">]>'
    text = read(changed(ORDINARY, "word/document.xml", head + BODY % b"&a; &file;"), "a.docx").text
    assert text.startswith("before")
    assert "expanded" not in text
    assert "root:" not in text


def test_a_billion_laughs() -> None:
    entities = [b'<!ENTITY a%d "%s">' % (number, b"&a%d;" % (number - 1) * 10) for number in range(1, 10)]
    head = b'<!DOCTYPE x [<!ENTITY a0 "ha">' + b"".join(entities) + b"]>"
    with pytest.raises(UnreadableFile, match="damaged"):
        read(changed(ORDINARY, "word/document.xml", head + BODY % b"&a9;"), "a.docx")


def test_a_zip_bomb_is_seen_before_it_goes_off() -> None:
    bomb = changed(ORDINARY, "word/document.xml", b"<w:document>" + b" " * (30 * 2**20))
    assert len(bomb) < 100_000
    with pytest.raises(UnreadableFile, match="zip bomb"):
        read(bomb, "a.docx")


def test_many_parts_that_are_large_together() -> None:
    data = changed(ORDINARY, "", b"", {f"word/media/{number}.bin": bytes(2**19) for number in range(8)})
    with pytest.raises(UnreadableFile, match="zip bomb"):
        read(data, "a.docx", limits=ParserLimits(unpacked=2**21))
    assert read(data, "a.docx").title == "Hướng dẫn sử dụng"


def test_absurdly_many_parts() -> None:
    data = changed(ORDINARY, "", b"", {f"word/{number}": b"" for number in range(300)})
    with pytest.raises(UnreadableFile, match="zip bomb"):
        read(data, "a.docx", limits=ParserLimits(members=200))
    with pytest.raises(UnreadableFile, match="zip bomb"):
        read(data, "a.docx", limits=ParserLimits(members=50))


def test_parts_that_share_their_bytes() -> None:
    """Two entries of the directory that point to the same packed bytes."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", b"<Types/>" * 100)
        archive.writestr("word/document2.xml", b"<Types/>" * 100)
    data = bytearray(held.getvalue())
    second = data.rfind(b"PK\x01\x02")
    data[second + 42 : second + 46] = bytes(4)
    with pytest.raises(UnreadableFile, match="zip bomb"):
        read(bytes(data), "a.docx")


def test_a_part_larger_than_the_directory_says() -> None:
    """The stated size is a lie: unpacking stops there, and the sum does not fit."""
    data = bytearray(changed(ORDINARY, "word/document.xml", b"<w:document>" + b" " * 2**22))
    at = data.rfind(b"word/document.xml") - 46
    assert data[at : at + 4] == b"PK\x01\x02"
    data[at + 24 : at + 28] = (1000).to_bytes(4, "little")
    with pytest.raises(UnreadableFile, match="damaged"):
        read(bytes(data), "a.docx")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (ORDINARY[: len(ORDINARY) // 2], "cut off"),
        (b"PK\x03\x04 nonsense", "not a DOCX"),
        (b"PK\x05\x06" + bytes(18), "no Word document"),
        (b"just words", "not a DOCX"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "password"),
        (changed(ORDINARY, "word/document.xml", b"<w:document><w:body>"), "damaged"),
        (changed(ORDINARY, "word/document.xml", zlib.compress(b"x" * 99)), "damaged"),
        (changed(ORDINARY, "[Content_Types].xml", b"<Types/>"), "damaged"),
        (changed(ORDINARY, "word/styles.xml", b"<nothing/>"), "damaged"),
        (word(lambda document: document.add_paragraph(" ")), "no text"),
    ],
)
def test_a_damaged_file_is_refused_with_its_reason(data: bytes, reason: str) -> None:
    with pytest.raises(UnreadableFile, match=reason):
        read(data, "a.docx")
