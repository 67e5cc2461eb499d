"""PDF: the text of its pages, below its bookmarks. Every page is a heading, so that an answer can cite it."""

import io
import re
import struct
import zlib
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from kho.parsers.clean import clean, one_line, tidy
from kho.parsers.markdown_writer import heading, paragraph
from kho.parsers.model import ParsedFile, ParserLimits, UnreadableFile
from kho.parsers.plain import stem

if TYPE_CHECKING:
    from pypdf import PdfReader

BROKEN = (
    ValueError, LookupError, TypeError, AttributeError, ArithmeticError, AssertionError, RuntimeError, OSError,
    struct.error, zlib.error,
)  # fmt: skip
"""What a parser raises on unexpected bytes, beside its own errors."""
_HYPHEN = re.compile(r"(?<=[^\W\d_])[-\u00ad]\n(?=[a-zà-ỹ])")
_LEADERS = re.compile(r"[ \t]*(?:\.[ \t]?){5,}")
"""Dot leaders between a title and its page number in a table of contents."""
_DIGITS = re.compile(r"\d+")
_DAMAGED = "Open it in a PDF viewer and save or print it to a new PDF."


def of_pdf(data: bytes, name: str, limits: ParserLimits) -> ParsedFile:
    from pypdf import PdfReader
    from pypdf.errors import DependencyError, PyPdfError

    broken = (PyPdfError, *BROKEN)
    try:
        reader = PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise UnreadableFile("it needs a password", "Save it without a password first.")
        count = len(reader.pages)
    except DependencyError as error:
        raise UnreadableFile("it is encrypted in an unusual way", "Save it without a password first.") from error
    except broken as error:
        raise UnreadableFile("it is a damaged PDF", _DAMAGED) from error
    if count > limits.pages:
        raise UnreadableFile(f"it has {count} pages, more than {limits.pages}", "Split it into smaller files.")
    pages: list[str] = []
    failed: list[int] = []
    length = 0
    for number in range(count):
        try:
            text = _LEADERS.sub(" … ", clean(reader.pages[number].extract_text()))
        except broken:
            failed.append(number + 1)
            text = ""
        pages.append(text.strip())
        length += len(text)
        if length > limits.unpacked:
            raise UnreadableFile("its text is far too long", "Split it into smaller files.")
    if len(failed) == count:
        raise UnreadableFile("it is a damaged PDF", _DAMAGED) if count else UnreadableFile("it is a PDF without pages")
    if not any(re.search(r"\w", page) for page in pages):
        raise UnreadableFile("it has no text, only pictures of pages", "Run text recognition (OCR) on it first.")
    notes = [f"Of {count} pages, {len(failed)} could not be read: {_listed(failed)}."] if failed else []
    try:
        marks = _bookmarks(reader)
        meta = reader.metadata
        title = one_line(clean(str(meta.title or ""))) if meta else ""
    except broken:
        marks, title = {}, ""
    text = _markdown(_without_running_lines(pages), marks)
    return ParsedFile(title if _is_title(title) else stem(name), text, "markdown", "pdf", notes=tuple(notes))


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:10])) + (", …" if len(numbers) > 10 else "")


def _is_title(title: str) -> bool:
    """False for the name of a temporary file, which many programs leave there."""
    return len(title) > 2 and not re.search(r"(?i)^untitled|^microsoft word|\.(?:docx?|tex|dvi|indd|pdf|pptx?)$", title)


def _bookmarks(reader: "PdfReader") -> dict[int, list[tuple[int, str]]]:
    """Return the bookmarks of each page, in order, as (level, words)."""
    found: dict[int, list[tuple[int, str]]] = {}
    stack: list[Iterator[Any]] = [iter(reader.outline)]
    while stack:
        entry = next(stack[-1], None)
        if entry is None:
            stack.pop()
        elif isinstance(entry, list):
            if len(stack) < 4:
                stack.append(iter(cast("list[Any]", entry)))
        else:
            page = reader.get_destination_page_number(entry)
            words = one_line(clean(str(entry.title or "")), 200)
            if page is not None and page >= 0 and words:
                found.setdefault(page, []).append((len(stack), words))
    return found


def _without_running_lines(pages: list[str]) -> list[str]:
    """Remove headers and footers: lines that are first or last on most pages, ignoring numbers."""
    if len(pages) < 5:
        return pages
    parted = [page.split("\n") for page in pages]
    seen: Counter[tuple[int, str]] = Counter()
    for rows in parted:
        seen.update({(end, _DIGITS.sub("0", rows[end]).strip()) for end in (0, -1)})
    running = {key for key, count in seen.items() if count * 10 > len(pages) * 6 and key[1]}
    kept: list[str] = []
    for rows in parted:
        first = 1 if (0, _DIGITS.sub("0", rows[0]).strip()) in running else 0
        last = len(rows) - 1 if (-1, _DIGITS.sub("0", rows[-1]).strip()) in running else len(rows)
        kept.append("\n".join(rows[first:last]))
    return kept


def _markdown(pages: list[str], marks: dict[int, list[tuple[int, str]]]) -> str:
    parts: list[str] = []
    for number, page in enumerate(pages):
        for above, text in _sections(page, marks.get(number, [])):
            parts += above
            if text.strip():
                if len(pages) > 1:
                    parts.append(heading(6, f"Page {number + 1}"))
                parts.append(paragraph(_HYPHEN.sub("", text)))
    return tidy("\n\n".join(parts))


def _sections(page: str, marks: list[tuple[int, str]]) -> Iterator[tuple[list[str], str]]:
    """Split a page where the words of its bookmarks are. The first bookmark may also name a page that does not contain
    it."""
    rows = page.split("\n")
    folded = ["".join(row.split()).casefold() for row in rows]
    above: list[str] = []
    begin = 0
    for place, (level, words) in enumerate(marks):
        sought = "".join(words.split()).casefold()
        at = next((at for at in range(begin, len(rows)) if folded[at].endswith(sought)), None)
        if at is None:
            above += [heading(level, words)] if place == 0 else []
            continue
        if at > begin:
            yield above, "\n".join(rows[begin:at])
            above = []
        above.append(heading(level, words))
        begin = at + 1
    yield above, "\n".join(rows[begin:])
