"""Chunking: splits a document into passages of about the size that suits an embedder.

The text is first split into sections; within a section blocks (paragraphs, lists, tables, code) are joined until a
passage is full. A block that is too long is split at its own boundaries: rows, items, definitions, sentences, and only
then by length. So a change in one section leaves the passages of all others unchanged, and with them their vectors,
which are stored by a digest of the heading and the text. In a text without headings, a change at the top would shift
all passages; therefore a passage that is half full also ends after a block whose own digest says so, and the cuts soon
fall at the same places again.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import blake2b
from itertools import islice
from typing import Literal

from kho.lib.chunking.code_blocks import code, looks_like_code
from kho.lib.chunking.graphemes import boundary
from kho.lib.chunking.markdown_blocks import Block, lines, markdown, paragraphs
from kho.lib.chunking.markdown_blocks import Kind as BlockKind
from kho.lib.chunking.sentences import sentences
from kho.lib.dataclass import dataclass

SIZE = 220
OVERLAP = 0.15
"""Share of a passage that may be repeated at the start of the next: its last sentence, if it is short enough."""
_MAX_TITLE_LENGTH = 200
_CUT_IN = 4
"""One block in this many ends a passage that is half full."""

Kind = Literal["auto", "markdown", "code", "text"]
Content = Literal["prose", "code_block", "table"]
Count = Callable[[str], int]
_CONTENTS: dict[BlockKind, Content] = {"fence": "code_block", "code": "code_block", "table": "table"}


@dataclass(frozen=True, slots=True)
class Chunk:
    text: str
    """The text from start to end; for a part of a table or a fence, with the header or the fence marks added."""
    heading: tuple[str, ...]
    """The titles above it, outermost first; for a part of a long definition also its signature."""
    start: int
    end: int
    """Position in the document. It may begin before the end of the previous passage: see OVERLAP."""
    content: Content = "prose"
    """The type of most of its text, by length."""


@dataclass(frozen=True, slots=True)
class _Unit:
    """A piece that is never split: a small block, or a part of a big one."""

    start: int
    end: int
    cost: int
    prose: bool = False
    before: str = ""
    after: str = ""
    alone: bool = False
    """True if it must not be joined with others: a part that needs its own header or fence marks."""
    heading: tuple[str, ...] = ()


def estimate(text: str) -> int:
    """Estimate the tokens of a text in a multilingual model: one for 4.3 letters of English, 3 of Vietnamese, 1.5 of
    Chinese."""
    wide = len(text.encode("utf-8", "surrogatepass")) - len(text)
    return round(len(text) / 4.3 + wide * 0.21) + 1


def chunks(
    text: str,
    *,
    kind: Kind = "auto",
    size: int = SIZE,
    overlap: float = OVERLAP,
    count: Count = estimate,
    most: int = 0,
) -> list[Chunk]:
    """Return the passages of a document, in order. Headings are not part of a passage's text, but a title without text
    below it is a passage itself, together with those that follow. With `most`, a longer list ends at one more."""
    if size < 1 or not 0 <= overlap < 1:
        raise ValueError("size is at least 1, overlap a share of it")
    kind = kind_of(text) if kind == "auto" else kind
    splitter = _Splitter(text, size, count)
    found: list[Chunk] = []
    for heading, blocks in _sections(text, kind):
        units = [unit for block in blocks for unit in splitter.units(block)]
        starts = [block.start for block in blocks]
        packed = _packed(text, heading, units, size, round(size * overlap), count)
        room = most + 1 - len(found) if most else None
        found += [replace(chunk, content=_content(blocks, starts, chunk)) for chunk in islice(packed, room)]
        if most and len(found) > most:
            break
    return found


def _content(blocks: list[Block], starts: list[int], chunk: Chunk) -> Content:
    """Return the main content type of the blocks that the passage covers."""
    lengths: Counter[Content] = Counter()
    for at in range(max(0, bisect_right(starts, chunk.start) - 1), len(blocks)):
        block = blocks[at]
        if block.start >= chunk.end:
            break
        length = min(block.end, chunk.end) - max(block.start, chunk.start)
        lengths[_CONTENTS.get(block.kind, "prose")] += max(0, length)
    return max(lengths, key=lengths.__getitem__)


def kind_of(text: str) -> Literal["markdown", "code", "text"]:
    sample = text[:20_000]
    marks = [block.kind for block in markdown(sample)]
    if any(mark in ("fence", "table", "front") for mark in marks) or marks.count("heading") > 1:
        return "code" if looks_like_code(sample) and "fence" not in marks else "markdown"
    if looks_like_code(sample):
        return "code"
    return "markdown" if "heading" in marks or "list" in marks else "text"


def _sections(text: str, kind: Kind) -> Iterator[tuple[tuple[str, ...], list[Block]]]:
    if kind != "markdown":
        yield (), list(code(text) if kind == "code" else paragraphs(text))
        return
    path: list[tuple[int, str]] = []
    title: Block | None = None
    body: list[Block] = []
    bare = _BareTitles()
    for block in markdown(text):
        if block.kind != "heading":
            body.append(block)
            continue
        names = tuple(name for _, name in path)
        if body:
            yield from bare.section()
            yield names, body
        elif title and title.title and block.level <= title.level:
            bare.add(title, names)
        while path and path[-1][0] >= block.level:
            path.pop()
        if block.title:
            path.append((block.level, block.title[:_MAX_TITLE_LENGTH]))
        title, body = block, []
    names = tuple(name for _, name in path)
    if title and title.title and not body:
        bare.add(title, names)
    yield from bare.section()
    if body:
        yield names, body


class _BareTitles:
    """Titles without text below them that follow one another: a section of their own, with one passage for as many as
    fit. A passage for each would make a quarter of a million of a small text."""

    def __init__(self) -> None:
        self._blocks: list[Block] = []
        self._path: tuple[str, ...] = ()
        """What is above all of them; of a single one with itself."""

    def add(self, title: Block, path: tuple[str, ...]) -> None:
        if self._blocks:
            same = (n for n, (one, other) in enumerate(zip(self._path, path, strict=False)) if one != other)
            self._path = self._path[: next(same, min(len(self._path), len(path)))]
        else:
            self._path = path
        self._blocks.append(Block("paragraph", title.start, title.end))

    def section(self) -> Iterator[tuple[tuple[str, ...], list[Block]]]:
        """Yield what was added, and begin anew."""
        if self._blocks:
            yield self._path, self._blocks
        self._blocks, self._path = [], ()


class _Splitter:
    """Splits blocks into units that fit."""

    def __init__(self, text: str, size: int, count: Count) -> None:
        self._text, self._size, self._count = text, size, count

    def units(self, block: Block) -> Iterator[_Unit]:
        text = self._text[block.start : block.end]
        cost = self._count(text)
        prose = block.kind in ("paragraph", "quote")
        if cost <= self._size:
            yield _Unit(block.start, block.end, cost, prose)
        elif block.kind == "table":
            yield from self._table(block)
        elif block.kind == "fence":
            yield from self._fence(block)
        elif block.kind == "code":
            yield from self._definition(block)
        elif block.kind == "list":
            yield from self._by_lines(block.start, block.end)
        else:
            yield from self._by_sentences(block.start, block.end)

    def _by_sentences(self, start: int, end: int) -> Iterator[_Unit]:
        for begin, stop in sentences(self._text, start, end):
            cost = self._count(self._text[begin:stop])
            if cost <= self._size:
                yield _Unit(begin, stop, cost, prose=True)
            else:
                yield from self._by_length(begin, stop, cost)

    def _by_length(self, start: int, end: int, cost: int) -> Iterator[_Unit]:
        """Last resort: cut at a blank if there is one near, and never inside a character."""
        step = max(1, (end - start) * self._size // max(1, cost))
        while end - start > step:
            cut = boundary(self._text, start + step)
            blank = max(self._text.rfind(sign, start + step // 2, cut) for sign in " \t\n,")
            cut = blank + 1 if blank > start else cut
            if cut <= start:  # a letter with more marks than a passage holds
                cut = start + step
            yield _Unit(start, cut, self._count(self._text[start:cut]))
            start = cut
        yield _Unit(start, end, self._count(self._text[start:end]))

    def _by_lines(self, start: int, end: int) -> Iterator[_Unit]:
        for row in lines(self._text, start, end):
            cost = self._count(row.text)
            if cost <= self._size:
                yield _Unit(row.start, row.end, cost)
            else:
                yield from self._by_sentences(row.start, row.end)

    def _groups(self, start: int, end: int, room: int) -> Iterator[tuple[int, int, int]]:
        """Group adjacent lines, as many as fit."""
        begin, stop, cost = start, start, 0
        for unit in self._by_lines(start, end):
            if cost and cost + unit.cost > room:
                yield begin, stop, cost
                begin, cost = unit.start, 0
            stop, cost = unit.end, cost + unit.cost
        if cost:
            yield begin, stop, cost

    def _table(self, block: Block) -> Iterator[_Unit]:
        rows = lines(self._text, block.start, block.end)
        header = self._text[rows[0].start : rows[1].end]
        above = self._count(header)
        if above > self._size // 2 or len(rows) < 3:
            yield from self._by_lines(block.start, block.end)
            return
        first = True
        for begin, stop, cost in self._groups(rows[2].start, block.end, self._size - above):
            begin = block.start if first else begin
            yield _Unit(begin, stop, cost + above, before="" if first else header, alone=True)
            first = False

    def _fence(self, block: Block) -> Iterator[_Unit]:
        rows = lines(self._text, block.start, block.end)
        opening = rows[0].text
        mark = opening.strip()[:3]
        closed = len(rows) > 1 and rows[-1].text.strip().startswith(mark) and not rows[-1].text.strip().strip(mark[0])
        if self._count(opening) > self._size // 4:
            yield from self._by_lines(block.start, block.end)
            return
        groups = list(self._groups(rows[0].end, rows[-1].start if closed else block.end, self._size * 9 // 10))
        if not groups:
            yield from self._by_lines(block.start, block.end)
            return
        for number, (begin, stop, cost) in enumerate(groups):
            first, last = number == 0, number == len(groups) - 1
            yield _Unit(
                block.start if first else begin,
                block.end if last else stop,
                cost,
                before="" if first else opening + "\n",
                after="" if last else mark,
                alone=True,
            )

    def _definition(self, block: Block) -> Iterator[_Unit]:
        """Split a long definition at its inner definitions, else at its lines; each piece has its signature as
        heading."""
        rows = lines(self._text, block.start, block.end)
        above = (block.title,) if block.title else ()
        inner = [*code(self._text, rows[1].start, block.end)] if len(rows) > 2 else []
        if len(inner) < 2:
            for unit in self._by_lines(block.start, block.end):
                yield _Unit(unit.start, unit.end, unit.cost, heading=above)
            return
        yield _Unit(rows[0].start, rows[0].end, self._count(rows[0].text), heading=above)
        for part in inner:
            cost = self._count(self._text[part.start : part.end])
            if cost <= self._size:
                yield _Unit(part.start, part.end, cost, heading=above)
            else:
                for unit in self._by_lines(part.start, part.end):
                    yield _Unit(unit.start, unit.end, unit.cost, heading=above)


def _packed(
    text: str, heading: tuple[str, ...], units: list[_Unit], size: int, spare: int, count: Count
) -> Iterator[Chunk]:
    """Join units into passages. A passage may repeat the last sentence of the previous one, if both are prose."""
    held: list[_Unit] = []
    again: _Unit | None = None
    cost = 0
    for unit in units:
        full = held and (
            unit.alone
            or held[-1].alone
            or unit.heading != held[-1].heading
            or cost + (again.cost if again else 0) + unit.cost > size
            or (cost * 2 >= size and _ends_here(text, held[-1]))
        )
        if full:
            yield from _passage(text, heading, held, again)
            again = _last_sentence(text, held[-1], spare, count) if unit.prose and held[-1].prose else None
            if again and again.cost + unit.cost > size:
                again = None
            held, cost = [], 0
        held.append(unit)
        cost += unit.cost
    if held:
        yield from _passage(text, heading, held, again)


def _ends_here(text: str, unit: _Unit) -> bool:
    words = text[unit.start : unit.end].strip().encode("utf-8", "surrogatepass")
    return blake2b(words, digest_size=1).digest()[0] % _CUT_IN == 0


def _last_sentence(text: str, unit: _Unit, spare: int, count: Count) -> _Unit | None:
    start = unit.start
    for begin, _ in sentences(text, unit.start, unit.end):
        start = begin
    cost = count(text[start : unit.end])
    return _Unit(start, unit.end, cost, prose=True) if cost <= spare else None


def _passage(text: str, heading: tuple[str, ...], held: list[_Unit], again: _Unit | None) -> Iterator[Chunk]:
    start, end = again.start if again else held[0].start, held[-1].end
    while end > start and text[end - 1].isspace():
        end -= 1
    # Strip blank lines, but keep the indentation of the first line: it matters in code and in lists.
    first = start
    while first < end and text[first].isspace():
        first += 1
        if text[first - 1] in "\r\n":
            start = first
    if first >= end:
        return
    words = text[start:end]
    if held[0].before or held[-1].after:
        words = held[0].before + words + ("\n" + held[-1].after if held[-1].after else "")
    yield Chunk(words, heading + held[0].heading, start, end)
