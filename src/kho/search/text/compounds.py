"""Compounds: identifiers, paths, versions, error codes, addresses and hyphenated words, as a whole and in parts.

A compound is what a reader takes for one thing: word characters with single joiners between them. It comes apart at
its joiners, the strongest first (`/ : @ …`, then `.`, then `-`, then `_` and camelCase). Each node of that tree is a
part, and so are two neighbours below `/` or `.`, so that `nginx/nginx.conf` and `path.join` are found as well.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from kho.lib.lazy_regex import pattern
from kho.search.text.unicode import WORD

MAX_TOKEN_LENGTH = 128
"""A longer compound (a blob, a signed address) has no whole, only parts; a longer word is cut here."""
BLOB = 4_096
"""What is longer than this without a space is no text: of the rest nothing is read."""
MAX_NEIGHBOURS = 12
MAX_HUMPS = 8
"""A word of more humps than this is a key or a blob, not camelCase."""

WHOLE, PARTS, HUMPS = 1.0, 0.8, 0.4
"""What the whole of a compound weighs in a query, and all its parts together. The whole weighs as a word does, and as
it is rarer it decides. The parts together weigh a little less than one word, so that an identifier of five parts does
not outvote the rest of the query. The humps of camelCase weigh less again: many write `GitHub` as `github`."""
HYPHENATED, JOINED = 0.4, 0.2
"""Words joined by hyphens are words, and weigh as such (1.0 each); that they stand joined (`well-known`), or even
written together (`wi-fi`, `wifi`), is worth this much more."""
MAX_PER_PART = 0.5


class Part(NamedTuple):
    start: int
    end: int
    text: str
    """As it is compared: the whole in one form of its separators."""
    share: float
    """Its importance in a query, 0..1."""
    leaf: bool
    """A word, to be stemmed and to be judged by its accents; else a name, to be taken literally."""


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
    """The words and compounds of a text in its plain form, of a script with spaces, each with all its parts."""
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
    """The scheme is a part; the whole goes without it, as people leave it out."""
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
    if "," in bare and _GROUPED.fullmatch(bare):  # 1,000 is 1000, and nothing else
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
    """1,000 as 1000, U.S. as us, wi-fi as wifi, user_name as username; and what that weighs in a query."""
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
    """One form of a whole: absolute or relative, with either slash, it is the same path."""
    text = text.replace("\\", "/")
    return text.strip("/:") if "/" in text else text


def _nodes(text: str, start: int, level: int) -> Iterator[_Node]:
    """The tree of a compound, from the strongest separator down."""
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
        if "++" in text:  # the language of c++17
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
