"""Finds terms that the results use and the question may lack: headings, titles, names and repeated words.

In Vietnamese a word is often two syllables, and Chinese has no spaces, so there repeated pairs and runs are terms; a
single syllable or character is not.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import log

from kho.lib.chunking.sentences import sentences
from kho.lib.dataclass import dataclass
from kho.search.text.stopwords import ENGLISH, HAN, VIETNAMESE
from kho.search.text.tokens import FUNCTION_WORD, fold, index_tokens, query_tokens

MAX_TERM = 60
"""Maximum characters of a term; a longer heading is a sentence."""
READ = 2_000
"""Maximum characters read of a passage."""
HEADING, TITLE, NAME = 3.0, 2.0, 1.5
"""Weights of a heading, a title and a name; a word of the text has 1."""
SHORTEST = 5
"""Minimum letters of a word to look for misspellings: shorter ones are similar by chance."""
LONG = 8
"""Minimum letters for two allowed errors; shorter words allow one."""

_WORD = re.compile(r"[^\W\d_][\w'’-]*")
_HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]{2,}")
_HAN_SIGN = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]")
_LITTLE = ENGLISH | VIETNAMESE
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|https?://\S+|\]\([^)\n]*\)", re.S)
_QUOTED = re.compile(r'"([^"\n]{2,200})"|“([^”\n]{2,200})”|「([^」\n]{2,200})」|«([^»\n]{2,200})»')


@dataclass(frozen=True, slots=True)
class FoundText:
    """Text of a result."""

    title: str
    header: str
    text: str
    language: str


def splitting(question: str, found: Sequence[FoundText], most: int) -> list[str]:
    """Return terms that only some of the passages have and the question lacks: adding one tells the passages apart.
    Spelt as in the text, best first."""
    asked = {token for token, _ in query_tokens(question)}
    telling = {token for token, importance in query_tokens(question) if importance > FUNCTION_WORD}
    holders: dict[str, set[int]] = {}
    worth: dict[str, float] = {}
    spelt: dict[str, Counter[str]] = {}
    for number, one in enumerate(found):
        for term, weight in _terms(one, telling):
            key = fold(term)
            holders.setdefault(key, set()).add(number)
            worth[key] = max(worth.get(key, 0.0), weight)
            spelt.setdefault(key, Counter())[term] += 1
    ranked: list[tuple[float, str]] = []
    for key, held in holders.items():
        if len(held) == len(found) > 1 or asked.issuperset(index_tokens(key)):
            continue
        # A term that half of the passages have separates best.
        share = len(held) / len(found)
        ranked.append((worth[key] * (0.5 + min(share, 1 - share) if len(found) > 1 else 1.0), key))
    chosen: list[str] = []
    taken: set[str] = set()
    for _, key in sorted(ranked, key=lambda one: (-one[0], one[1])):
        tokens = set(index_tokens(key))
        if not tokens <= taken:
            chosen.append(spelt[key].most_common(1)[0][0])
            taken |= tokens
        if len(chosen) == most:
            break
    return chosen


def says_nothing(question: str) -> bool:
    """True if the question consists only of function words, or of a single letter."""
    signs = [sign for sign in question if sign.isalnum()]
    letter = len(signs) == 1 and not _HAN_SIGN.match(signs[0])
    return letter or all(importance <= FUNCTION_WORD for _, importance in query_tokens(question))


def quoted(question: str) -> list[str]:
    """Return the phrases in quotation marks, as typed."""
    return [" ".join(match[match.lastindex or 0].split()) for match in _QUOTED.finditer(question)]


def unknown(question: str, known: Iterable[str]) -> list[str]:
    """Return the question's words that none of these texts contains, as typed."""
    held = {token for text in known for token in index_tokens(text)}
    missing: list[str] = []
    for word in dict.fromkeys(_WORD.findall(question)):
        telling = [token for token, importance in query_tokens(word) if importance > FUNCTION_WORD]
        if telling and held.isdisjoint(telling):
            missing.append(word)
    return missing


def near_spellings(word: str, texts: Iterable[str]) -> list[str]:
    """Return words of the texts that may have been meant, the closest first. None for a word with diacritics: people
    who type them rarely mistype, and in Vietnamese nearly every syllable becomes another one by changing one letter."""
    wanted = fold(word)
    if len(wanted) < SHORTEST or not word.isascii():
        return []
    most = 1 if len(wanted) < LONG else 2
    spelt: dict[str, str] = {}
    for one in dict.fromkeys(word for text in texts for word in _WORD.findall(text)):
        key = fold(one)
        if key[:1] == wanted[:1] and abs(len(key) - len(wanted)) <= most and one.lower() not in _LITTLE:
            spelt.setdefault(key, one)
    alike = [(_slips(wanted, key, most), key) for key in spelt if key != wanted]
    return [spelt[key] for slips, key in sorted(alike) if slips <= most][:3]


def _slips(one: str, other: str, most: int) -> int:
    """Return the edit distance (substitution, insertion, deletion, transposition), capped at `most` + 1."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for at, sign in enumerate(one, 1):
        above, row, earlier = row, [at], before
        for to, wanted in enumerate(other, 1):
            slips = min(above[to] + 1, row[-1] + 1, above[to - 1] + (sign != wanted))
            if at > 1 and to > 1 and sign == other[to - 2] and one[at - 2] == wanted:
                slips = min(slips, earlier[to - 2] + 1)
            row.append(slips)
        before = above
        if min(row) > most:
            return most + 1
    return row[-1]


def clean(term: str) -> str:
    """Put a term on one line without invisible characters: it was written by others and appears in our message."""
    visible = "".join(" " if unicodedata.category(sign)[0] in "CZ" else sign for sign in term)
    return " ".join(visible.split()).strip("#*_`>|<[](){}\"'“”:;,.，。：；、 ")


def _terms(one: FoundText, telling: set[str]) -> list[tuple[str, float]]:
    """Return the terms of a passage with their weights."""
    named = [(one.header.rpartition(" > ")[2], HEADING), (one.title, TITLE)]
    found = [(clean(term), weight) for term, weight in named]
    text = _around(_CODE.sub(" ", one.text[:READ]), telling)
    found += _runs(text) if one.language == "zh" else _words(text, pairs_only=one.language == "vi")
    return [(term, weight) for term, weight in found if 2 <= len(term) <= MAX_TERM and not term.endswith(("?", "？"))]


def _around(text: str, telling: set[str]) -> str:
    """Return the sentences that contain a word of the question; all if none does."""
    every = [text[start:end] for start, end in sentences(text, 0, len(text))]
    near = [sentence for sentence in every if not telling.isdisjoint(index_tokens(sentence))]
    return " ".join(near or every)


def _words(text: str, *, pairs_only: bool) -> list[tuple[str, float]]:
    words = _WORD.findall(text)
    kept = [word if word.lower() not in _LITTLE and len(word) > 1 else "" for word in words]
    singles = Counter(word for word in kept if len(word) >= SHORTEST)
    pairs = Counter(f"{a} {b}" for a, b in pairwise(kept) if a and b and f"{a} {b}" in text)
    found = [(pair, log(1 + times)) for pair, times in pairs.items() if times > 1]
    # Names in the middle of a sentence; at its start every word is capitalized.
    found += [
        (pair, NAME) for pair in pairs if pair.istitle() and f". {pair}" not in text and not text.startswith(pair)
    ]
    if not pairs_only:
        found += [(word, log(1 + times) * 0.7) for word, times in singles.items() if times > 1 or word[1:2].isupper()]
    return found


def _runs(text: str) -> list[tuple[str, float]]:
    times: Counter[str] = Counter()
    for run in _HAN.findall(text):
        for length in (2, 3, 4):
            times.update(run[at : at + length] for at in range(len(run) - length + 1))
    repeated = {run: number for run, number in times.items() if number > 1 and HAN.isdisjoint(run)}
    # Keep the longest run of the same frequency: 知识库 rather than 知识 and 识库.
    inner = {
        part
        for run, number in repeated.items()
        for part in (run[1:], run[:-1])
        if repeated.get(part) == number and len(run) > 2
    }
    return [(run, log(1 + number)) for run, number in repeated.items() if run not in inner]
