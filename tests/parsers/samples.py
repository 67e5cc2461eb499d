"""Files made on the spot: a PDF written by hand, a DOCX through python-docx."""

import io
import unicodedata
import zlib
from collections.abc import Callable, Sequence

import docx
from docx.document import Document


def pdf(
    pages: Sequence[str], *, title: str = "", bookmarks: Sequence[tuple[str, int]] = (), extra: bytes = b""
) -> bytes:
    """One Type 3-free font with a ToUnicode map, so that any letter can be shown: each letter has a code of two bytes."""
    letters = sorted({letter for page in pages for letter in page if letter != "\n"})
    codes = {letter: number + 1 for number, letter in enumerate(letters)}
    objects: list[bytes] = []

    def add(body: bytes) -> int:
        objects.append(body)
        return len(objects)

    def stream(content: bytes) -> int:
        packed = zlib.compress(content)
        return add(b"<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream" % (len(packed), packed))

    rows = "".join(f"<{code:04X}> <{letter.encode('utf-16-be').hex()}>\n" for letter, code in codes.items())
    unicode = stream(
        b"/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /X def /CMapType 2 def\n"
        b"1 begincodespacerange <0000> <FFFF> endcodespacerange\n"
        + f"{len(codes)} beginbfchar\n{rows}endbfchar\nendcmap end end".encode()
    )
    below = add(
        b"<< /Type /Font /Subtype /CIDFontType2 /BaseFont /X /DW 600 "
        b"/CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> >>"
    )
    font = add(
        b"<< /Type /Font /Subtype /Type0 /BaseFont /X /Encoding /Identity-H /DescendantFonts [%d 0 R] /ToUnicode %d 0 R >>"
        % (below, unicode)
    )
    root = len(objects) + 2 * len(pages) + 1
    kids: list[int] = []
    for page in pages:
        shown = "".join(f"<{''.join(f'{codes[letter]:04X}' for letter in line)}> Tj T*\n" for line in page.split("\n"))
        content = stream(b"BT /F 12 Tf 14 TL 50 750 Td\n" + shown.encode() + b"ET\n" + extra)
        kids.append(
            add(
                b"<< /Type /Page /Parent %d 0 R /MediaBox [0 0 600 800] /Contents %d 0 R "
                b"/Resources << /Font << /F %d 0 R >> >> >>" % (root, content, font)
            )
        )
    listed = b" ".join(b"%d 0 R" % kid for kid in kids)
    tree = add(b"<< /Type /Pages /Kids [%s] /Count %d >>" % (listed, len(kids)))
    outline = b""
    if bookmarks:
        top = len(objects) + 1
        outline = b"/Outlines %d 0 R " % top
        add(
            b"<< /Type /Outlines /First %d 0 R /Last %d 0 R /Count %d >>"
            % (top + 1, top + len(bookmarks), len(bookmarks))
        )
        for number, (words, page_number) in enumerate(bookmarks):
            after = b"/Next %d 0 R " % (top + number + 2) if number + 1 < len(bookmarks) else b""
            add(
                b"<< /Title <feff%s> /Parent %d 0 R %s/Dest [%d 0 R /Fit] >>"
                % (words.encode("utf-16-be").hex().encode(), top, after, kids[page_number])
            )
    catalog = add(b"<< /Type /Catalog /Pages %d 0 R %s>>" % (tree, outline))
    info = add(b"<< /Title <feff%s> >>" % title.encode("utf-16-be").hex().encode())
    return _bound(objects, catalog, info)


def _bound(objects: Sequence[bytes], catalog: int, info: int) -> bytes:
    whole = bytearray(b"%PDF-1.7\n")
    places: list[int] = []
    for number, body in enumerate(objects, start=1):
        places.append(len(whole))
        whole += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(whole)
    whole += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    whole += b"".join(b"%010d 00000 n \n" % place for place in places)
    whole += b"trailer\n<< /Size %d /Root %d 0 R /Info %d 0 R >>\n" % (len(objects) + 1, catalog, info)
    return bytes(whole + b"startxref\n%d\n%%%%EOF\n" % start)


def word(fill: Callable[[Document], object]) -> bytes:
    document = docx.Document()
    fill(document)
    packed = io.BytesIO()
    document.save(packed)
    return packed.getvalue()


def windows_1258(text: str) -> bytes:
    """As Windows stored Vietnamese: letters with a hat or a horn are whole, the tone follows as a mark of its own."""
    out = bytearray()
    for letter in text:
        parted = unicodedata.normalize("NFD", letter)
        tones = "".join(sign for sign in parted if sign in "\u0300\u0301\u0303\u0309\u0323")
        bare = unicodedata.normalize("NFC", "".join(sign for sign in parted if sign not in tones))
        try:
            out += letter.encode("cp1258")
        except UnicodeEncodeError:
            out += (bare + tones).encode("cp1258")
    return bytes(out)
