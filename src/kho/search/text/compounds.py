"""Compounds: identifiers, paths, versions, error codes, URLs and hyphenated words, tokenised whole and in parts.

A compound is what a reader takes for one thing: word characters with single joiners between them. It is split at its
joiners, the strongest first (`/ : @ …`, then `.`, then `-`, then `_` and camelCase). Each node of that tree is a part,
and so are pairs of neighbours below `/` or `.`, so that `nginx/nginx.conf` and `path.join` are found as well.
"""

import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from kho.lib.lazy_regex import pattern

MAX_TOKEN_LENGTH = 128
"""A longer compound (a blob, a signed URL) yields only its parts, not the whole; a longer word is cut here."""
BLOB = 4_096
"""Longer runs without a space are not text: the rest is ignored."""
MAX_NEIGHBOURS = 12
MAX_HUMPS = 8
"""A word with more humps than this is a key or a blob, not camelCase."""

WHOLE, PARTS, HUMPS = 1.0, 0.8, 0.4
"""Query weights of the whole of a compound, of all its parts together, and of all its camelCase humps together. The
whole weighs as much as a word and decides, as it is rarer. The parts together weigh a little less than one word, so
that an identifier of five parts does not outvote the rest of the query. The humps weigh less again: many write `GitHub`
as `github`."""
HYPHENATED, JOINED = 0.4, 0.2
"""Words joined by hyphens weigh as words (1.0 each). These are the extra weights for the joined form (`well-known`) and
for the form written together (`wi-fi` as `wifi`)."""
MAX_PER_PART = 0.5


class Part(NamedTuple):
    start: int
    end: int
    text: str
    """Normalised for comparison: the whole has one form of its separators."""
    share: float
    """Importance in a query, 0..1."""
    leaf: bool
    """True for a word, which is stemmed and matched by its accents; False for a name, which is taken literally."""


def _ranges(points: list[int]) -> str:
    """Format code points as ranges for a character class."""
    text: list[str] = []
    start = last = points[0]
    for point in [*points[1:], -1]:
        if point != last + 1:
            text.append(f"\\u{start:04x}-\\u{last:04x}")
            start = point
        last = point
    return "".join(text)


# Python's `re` has no Unicode properties, so the class is built here, once, as text for use inside `[…]`. Marks are
# parts of letters, but `\w` does not match them: without these, Hindi would be split at every vowel.
_MARKED_BLOCKS = (range(0x300, 0x1E00), range(0x20D0, 0x2100), range(0x2DE0, 0x2E00), range(0xA66F, 0xAC00))
MARKS = _ranges(
    [point for block in _MARKED_BLOCKS for point in block if unicodedata.category(chr(point)) in ("Mn", "Mc")]
)
WORD = rf"\w{MARKS}"
_W = f"[{WORD}]"
_COMPOUND = pattern(
    rf"(?:(?<![{WORD}.])[.#@$]|(?<![{WORD}\-])--?)?"
    rf"(?={_W}){_W}+"
    rf"(?:(?:::|->|:[\\/]|(?<=[0-9]),(?=[0-9]{{3}}(?![0-9]))|\+\+|[-./\\:@&'])(?={_W}){_W}+)*"
    rf"(?:\+\+|(?<=(?<!{_W})[A-Za-z])#(?!{_W}))?"
)
_URL = pattern(r"[A-Za-z][A-Za-z0-9+.\-]{1,15}://[^\s<>\"'`|{}()\[\]]+")
_URL_END = ".,;:!?"

_STRONG = pattern(r"[^\w\x80-\U0010ffff.\-']+")
_DOT = pattern(r"\.+")
_HYPHEN = pattern(r"[-']+")
_LEVELS = (_STRONG, _DOT, _HYPHEN, re.compile(r"_+"))
_HUMP = pattern(r"[A-Z]{2,}s(?![a-z])|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_CAMEL = pattern(r"[a-z][A-Z]|[A-Z]{2}[a-rt-z]")
_NUMBERED = pattern(r"([A-Za-z]{3,})([0-9]+)")
_GROUPED = pattern(r"[0-9]{1,3}(?:[.,][0-9]{3})+")
_POSSESSIVE = pattern(r"'[sS]$")
_CONTRACTION = pattern(r"^([A-Za-z]+)'(t|re|ve|ll|d|m)$", re.IGNORECASE)
_EMPHASIS = pattern(r"_[^_]+_")
_INITIALS = pattern(r"[A-Za-z](?:\.[A-Za-z])+")
_EDGES = "/\\:.@#$&'-_+?=~%*,;!"


def parts(text: str) -> Iterator[Part]:
    """Yield the words and compounds of a plain text in a script with spaces, each with all its parts."""
    position = 0
    if "://" in text:
        for found in _URL.finditer(text):
            yield from _compounds(text, position, found.start())
            url = found.group().rstrip(_URL_END)
            yield from _address(url, found.start())
            position = found.start() + len(url)
    yield from _compounds(text, position, len(text))


def _compounds(text: str, start: int, end: int) -> Iterator[Part]:
    for found in _COMPOUND.finditer(text, start, end):
        word = found.group()
        if word.isdecimal() or (word.isalpha() and (word.islower() or word.istitle() or word.isupper())):
            yield Part(found.start(), found.end(), word[:MAX_TOKEN_LENGTH], 1.0, True)
        else:
            yield from _taken_apart(word[:BLOB], found.start())


def _address(url: str, start: int) -> Iterator[Part]:
    """Yield the parts of a URL. The scheme is a part, but not in the whole, as people leave it out."""
    scheme, _, rest = url.partition("://")
    yield Part(start, start + len(scheme), scheme, MAX_PER_PART / 5, True)
    yield from _taken_apart(rest[:BLOB].rstrip("/"), start + len(url) - len(rest))


class _Node(NamedTuple):
    start: int
    end: int
    text: str
    leaf: bool


def _taken_apart(text: str, start: int) -> Iterator[Part]:
    owner = _POSSESSIVE.search(text)
    if owner:
        text = text[: owner.start()]
    bare = text.strip(_EDGES)
    if not bare:
        return
    inner = start + text.index(bare)
    if "," in bare and _GROUPED.fullmatch(bare):  # 1,000 is 1000 and nothing else
        yield Part(inner, inner + len(bare), re.sub("[.,]", "", bare), 1.0, True)
        return
    nodes = list(_nodes(bare, inner, 0))
    whole = bare if _EMPHASIS.fullmatch(text) else _one_form(text)
    others = [node for node in nodes if node.leaf or node.text != whole]
    leaves = [node for node in others if node.leaf]
    if len(others) == 1 and (whole == leaves[0].text or _CONTRACTION.fullmatch(whole)):
        whole = leaves[0].text
        yield Part(inner, inner + len(bare), whole[:MAX_TOKEN_LENGTH], 1.0, True)
        return
    natural = len(others) == len(leaves) > 1 and _only_words_and_hyphens(bare, leaves)
    if len(text) <= MAX_TOKEN_LENGTH:
        yield Part(start, start + len(text), whole, HYPHENATED if natural else WHOLE, False)
        written_together = _written_together(bare, leaves)
        if written_together:
            yield Part(inner, inner + len(bare), *written_together, False)
    every = HUMPS if bare.isalnum() else PARTS
    share = min(MAX_PER_PART, every / max(1, len({node.text for node in others})))
    for node in others:
        if natural:
            share = 1.0 if len(node.text) > 1 else HYPHENATED
        yield Part(node.start, node.end, node.text[:MAX_TOKEN_LENGTH], share, node.leaf)


def _only_words_and_hyphens(text: str, leaves: list[_Node]) -> bool:
    if not _HYPHEN.search(text) or not set(text).isdisjoint("_./\\:@&,+"):
        return False
    return all(leaf.text.isalpha() for leaf in leaves) or all(leaf.text.isdigit() for leaf in leaves)


def _written_together(text: str, leaves: list[_Node]) -> tuple[str, float] | None:
    """Return the form written together and its query weight: 1,000 as 1000, U.S. as us, wi-fi as wifi, user_name as
    username."""
    together = "".join(leaf.text for leaf in leaves[:4])
    if _GROUPED.fullmatch(text):
        return re.sub("[.,]", "", text), PARTS
    if _INITIALS.fullmatch(text):
        return text.replace(".", ""), MAX_PER_PART
    joiners = {char for char in text if not char.isalpha()}
    if 1 < len(leaves) < 4 and together.isalpha() and joiners and joiners <= {"-", "_", "'"}:
        return together, JOINED
    return None


def _one_form(text: str) -> str:
    """Normalise a path: absolute or relative, with either slash, it is the same."""
    text = text.replace("\\", "/")
    return text.strip("/:") if "/" in text else text


def _nodes(text: str, start: int, level: int) -> Iterator[_Node]:
    """Yield the tree of a compound, from the strongest separator down."""
    if level == len(_LEVELS):
        yield from _humps(text, start)
        return
    if level == 2 and _CONTRACTION.fullmatch(text):
        yield _Node(start, start + len(text), text.replace("'", ""), True)
        return
    pieces = _pieces(text, start, _LEVELS[level])
    if len(pieces) > 1:
        yield _Node(start, start + len(text), _one_form(text), False)
        if level < 2 and 2 < len(pieces) <= MAX_NEIGHBOURS:
            for (one, _), (other, last) in pairwise(pieces):
                pair = text[one - start : other - start + len(last)]
                if not set(pair).isdisjoint("?&=#%,"):
                    continue
                yield _Node(one, other + len(last), _one_form(pair), False)
        if "++" in text:  # the language in c++17
            cut = text.index("++") + 2
            yield _Node(start, start + cut, text[:cut], False)
    for at, piece in pieces:
        yield from _nodes(piece, at, level + 1)


def _pieces(text: str, start: int, separator: re.Pattern[str]) -> list[tuple[int, str]]:
    pieces: list[tuple[int, str]] = []
    position = 0
    for found in separator.finditer(text):
        if found.start() > position:
            pieces.append((start + position, text[position : found.start()]))
        position = found.end()
    if position < len(text):
        pieces.append((start + position, text[position:]))
    return pieces


def _humps(text: str, start: int) -> Iterator[_Node]:
    end = start + len(text)
    if text.isascii() and len(text) <= MAX_TOKEN_LENGTH:
        numbered = _NUMBERED.fullmatch(text)
        if _CAMEL.search(text):
            humps = list(_HUMP.finditer(text))
            if 1 < len(humps) <= MAX_HUMPS:
                yield _Node(start, end, text, False)
                for hump in humps:
                    if hump.group().isalpha() or hump.end() - hump.start() > 1:
                        yield _Node(start + hump.start(), start + hump.end(), hump.group(), True)
                return
        elif numbered:
            yield _Node(start, end, text, False)
            yield _Node(start, start + numbered.end(1), numbered.group(1), True)
            if len(numbered.group(2)) > 2:
                yield _Node(start + numbered.start(2), end, numbered.group(2), True)
            return
    yield _Node(start, end, text, True)
