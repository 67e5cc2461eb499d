"""DOCX: headings, paragraphs, lists and tables, in document order.

python-docx opens the package and reads the styles. The body is walked as XML, because python-docx's paragraphs omit
text inserted under change tracking, in content controls and in text boxes. Its XML parser expands no entities and opens
no URLs.
"""

import io
import re
import zipfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol, cast

from kho.parsers.clean import clean, one_line, tidy
from kho.parsers.markdown_writer import fence, heading, item, paragraph, table
from kho.parsers.model import ParsedFile, ParserLimits, UnreadableFile
from kho.parsers.pdf import BROKEN
from kho.parsers.plain import stem, title_of

if TYPE_CHECKING:
    from docx.document import Document

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_HEADING = re.compile(r"heading ([1-9])$", re.IGNORECASE)
_CODE = re.compile(r"\bcode\b|preformatted|verbatim|source", re.IGNORECASE)
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_AGAIN = "Open it in Word and save it again as .docx."
_SMALL = 2**20
"""Below this size no ratio is suspicious: a page of blanks compresses very well."""
_BOMB = "it is made to fill the memory (a zip bomb)"


class _Element(Protocol):
    """The part of an XML element's interface that is used."""

    tag: object

    def __iter__(self) -> "Iterator[_Element]": ...
    def __len__(self) -> int: ...
    def get(self, key: str) -> str | None: ...
    def find(self, path: str) -> "_Element | None": ...
    def iter(self, *tags: str) -> "Iterator[_Element]": ...
    @property
    def text(self) -> str | None: ...


def of_docx(data: bytes, name: str, limits: ParserLimits) -> ParsedFile:
    import docx
    from docx.opc.exceptions import OpcError

    if data.startswith(_OLE):
        raise UnreadableFile("it needs a password, or it is a Word file from before 2007", _AGAIN)
    if "[Content_Types].xml" not in _check_archive(data, limits):
        raise UnreadableFile("it is a ZIP archive, but no Word document")
    try:
        document = docx.Document(io.BytesIO(data))
        text = tidy(clean("\n\n".join(_Body(document).blocks())))
        title = one_line(clean(_title(document)))
    except (OpcError, SyntaxError, zipfile.BadZipFile, *BROKEN) as error:  # broken XML is a SyntaxError
        raise UnreadableFile("it is a damaged Word document", _AGAIN) from error
    if not text.strip():
        raise UnreadableFile("it has no text", "If it holds pictures of pages, run text recognition (OCR) on them.")
    return ParsedFile(title or title_of(text) or stem(name), text, "markdown", "docx")


def _title(document: "Document") -> str:
    """Return the title from the properties. If a file has none, python-docx would make some up, always 'Word
    Document'."""
    from docx.opc.constants import RELATIONSHIP_TYPE

    related = document.part.package.rels.values() if document.part.package else ()
    has_some = any(one.reltype == RELATIONSHIP_TYPE.CORE_PROPERTIES for one in related)
    return document.core_properties.title or "" if has_some else ""


class _Body:
    def __init__(self, document: "Document") -> None:
        self._root = cast("_Element", cast("Any", document).element.body)
        self._styles: dict[str, list[str]] = {}
        for style in document.styles:
            names: list[str] = []
            above = style
            while above is not None and len(names) < 10:
                names.append(above.name or "")
                above = getattr(above, "base_style", None)
            self._styles[style.style_id] = names

    def blocks(self) -> Iterator[str]:
        code: list[str] = []
        items: list[str] = []
        for element in _parts(self._root):
            if element.tag == f"{_W}tbl":
                kind, text = "table", _table(element)
            else:
                kind, text = self._kind(element), _text(element)
            if kind != "code" and code:
                yield fence("\n".join(code))
                code = []
            if kind != "item" and items:
                yield "\n".join(items)
                items = []
            if kind == "code":
                code.append(text)
            elif not text.strip():
                continue
            elif kind == "item":
                items.append(item(text, _depth(element)))
            elif kind.isdigit():
                yield heading(int(kind), text)
            else:
                yield text if kind == "table" else paragraph(text.strip())
        if code:
            yield fence("\n".join(code))
        if items:
            yield "\n".join(items)

    def _kind(self, element: _Element) -> str:
        """Return the level of a heading, otherwise code, item or text."""
        outline = element.find(f"{_W}pPr/{_W}outlineLvl")
        level = outline.get(f"{_W}val") if outline is not None else None
        if level and level.isdecimal() and int(level) < 9:
            return str(int(level) + 1)
        used = element.find(f"{_W}pPr/{_W}pStyle")
        for name in self._styles.get((used.get(f"{_W}val") or "") if used is not None else "", []):
            found = _HEADING.match(name)
            if found or name == "Title":
                return found.group(1) if found else "1"
            if _CODE.search(name):
                return "code"
            if name.startswith("List") and name != "List Paragraph":
                return "item"
        return "item" if element.find(f"{_W}pPr/{_W}numPr") is not None else "text"


def _parts(root: _Element) -> Iterator[_Element]:
    """Yield paragraphs and tables, including those inside content controls."""
    stack = list(root)[::-1]
    while stack:
        element = stack.pop()
        if element.tag in (f"{_W}p", f"{_W}tbl"):
            yield element
        elif element.tag in (f"{_W}sdt", f"{_W}sdtContent", f"{_W}customXml", f"{_W}ins", f"{_W}smartTag"):
            stack += list(element)[::-1]


def _depth(element: _Element) -> int:
    level = element.find(f"{_W}pPr/{_W}numPr/{_W}ilvl")
    value = level.get(f"{_W}val") if level is not None else None
    return min(int(value), 8) if value and value.isdecimal() else 0


def _text(root: _Element) -> str:
    words: list[str] = []
    stack = [root]
    while stack:
        element = stack.pop()
        if element.tag == f"{_W}t":
            words.append(element.text or "")
        elif element.tag == f"{_W}tab":
            words.append("\t")
        elif element.tag in (f"{_W}br", f"{_W}cr"):
            words.append("\n")
        elif element.tag == f"{_W}noBreakHyphen":
            words.append("-")
        elif element.tag not in (_FALLBACK, f"{_W}pPr", f"{_W}rPr"):
            if element.tag == f"{_W}p" and words:
                words.append("\n")
            stack += list(element)[::-1]
    return "".join(words)


def _table(root: _Element) -> str:
    rows: list[list[str]] = []
    for line in root.iter(f"{_W}tr"):
        cells: list[str] = []
        for cell in _cells(line):
            cells.append(_text(cell).strip())
            span = cell.find(f"{_W}tcPr/{_W}gridSpan")
            wide = (span.get(f"{_W}val") or "1") if span is not None else "1"
            cells += [""] * (min(int(wide), 64) - 1 if wide.isdecimal() else 0)
        if any(cells):
            rows.append(cells)
    if not rows:
        return ""
    if max(map(len, rows)) < 2:  # a frame around a text
        return "\n\n".join(paragraph(cells[0]) for cells in rows)
    return table(rows)


def _cells(line: _Element) -> Iterator[_Element]:
    stack = list(line)[::-1]
    while stack:
        element = stack.pop()
        if element.tag == f"{_W}tc":
            yield element
        elif element.tag in (f"{_W}sdt", f"{_W}sdtContent", f"{_W}customXml"):
            stack += list(element)[::-1]


def _check_archive(data: bytes, limits: ParserLimits) -> set[str]:
    """Return the names of the parts, or raise UnreadableFile for a zip bomb. Sizes are those stated in the directory at
    the end; a part that is larger fails when it is unpacked, because zipfile stops at the stated size and then checks
    the sum."""
    # The directory entries are counted before zipfile builds an object for each.
    end = data.rfind(b"PK\x05\x06")
    if end < 0:
        raise UnreadableFile("it is not a DOCX file, or it is cut off", "Copy or download it again.")
    if data.count(b"PK\x01\x02") > limits.members * 2:
        raise UnreadableFile(_BOMB)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            parts = archive.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError) as error:
        raise UnreadableFile("it is not a DOCX file, or it is damaged", "Open it in Word and save it again.") from error
    names = {part.filename for part in parts}
    if (
        len(parts) > limits.members
        or len(names) < len(parts)
        or sum(part.file_size for part in parts) > limits.unpacked
    ):
        raise UnreadableFile(_BOMB)
    for part in parts:
        if part.flag_bits & 1:
            raise UnreadableFile("it needs a password", "Save it without a password first.")
        if part.file_size > _SMALL and part.file_size > limits.ratio * max(1, part.compress_size):
            raise UnreadableFile(_BOMB)
    _check_overlap(parts)
    return names


def _check_overlap(parts: list[zipfile.ZipInfo]) -> None:
    """Refuse parts that share their packed bytes: the trick that makes a small file hold petabytes."""
    end = 0
    for part in sorted(parts, key=lambda part: part.header_offset):
        if part.header_offset < end:
            raise UnreadableFile(_BOMB)
        end = part.header_offset + part.compress_size
