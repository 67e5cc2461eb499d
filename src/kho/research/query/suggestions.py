"""Terms that a collection uses and a question may not: headings, titles, names and words that come back.

In Vietnamese a word is often two syllables, and Chinese has no spaces, so pairs and runs that come back are terms
there; a lone syllable or character is none.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log

from kho.lib.chunking.sentences import sentences
from kho.search.text.stopwords import ENGLISH, HAN, VIETNAMESE
from kho.search.text.tokens import FUNCTION_WORD, fold, index_tokens, query_tokens

MAX_TERM = 60
"""Characters of a term; a longer heading is a sentence."""
READ = 2_000
"""Characters of a passage that are read."""
HEADING, TITLE, NAME = 3.0, 2.0, 1.5
"""What a term counts that is a heading, a title or a name, where a word of the text counts 1."""
SHORTEST = 5
"""Letters of a word that may be misspelt: shorter ones are alike by chance."""
LONG = 8
"""Letters from which two of them may be wrong; in shorter words one."""

_WORD = re.compile(r"[^\W\d_][\w'’-]*")
_HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]{2,}")
_HAN_SIGN = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]")
_LITTLE = ENGLISH | VIETNAMESE
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|https?://\S+|\]\([^)\n]*\)", re.S)
_QUOTED = re.compile(r'"([^"\n]{2,200})"|“([^”\n]{2,200})”|「([^」\n]{2,200})」|«([^»\n]{2,200})»')


@dataclass(frozen=True, slots=True)
class Text:
    """A passage that was found."""

    title: str
    header: str
    text: str
    language: str


def splitting(question: str, found: Sequence[Text], most: int) -> list[str]:
    """Terms of some of the passages, but not of all, that the question does not have: adding one tells them apart.
    As they are spelt there, the most telling first."""
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
        # Most is told by what half of them have.
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
    """Whether it is made of little words only, or of a single letter."""
    signs = [sign for sign in question if sign.isalnum()]
    letter = len(signs) == 1 and not _HAN_SIGN.match(signs[0])
    return letter or all(importance <= FUNCTION_WORD for _, importance in query_tokens(question))


def quoted(question: str) -> list[str]:
    """What stands in quotation marks, as it was typed."""
    return [" ".join(match[match.lastindex or 0].split()) for match in _QUOTED.finditer(question)]


def unknown(question: str, known: Iterable[str]) -> list[str]:
    """The question's words that none of these texts has, as they were typed."""
    held = {token for text in known for token in index_tokens(text)}
    missing: list[str] = []
    for word in dict.fromkeys(_WORD.findall(question)):
        telling = [token for token, importance in query_tokens(word) if importance > FUNCTION_WORD]
        if telling and held.isdisjoint(telling):
            missing.append(word)
    return missing


def near_spellings(word: str, texts: Iterable[str]) -> list[str]:
    """Words of the texts that may have been meant, the likest first. Not for a word with marks: whoever types these
    rarely mistypes, and in Vietnamese nearly every syllable is another one with one letter changed."""
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
    """Letters that are wrong, missing, too many or exchanged with their neighbour; `most` + 1 for more than that."""
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
    """On one line, without what cannot be seen: it was written by others, and stands in an answer of ours."""
    visible = "".join(" " if unicodedata.category(sign)[0] in "CZ" else sign for sign in term)
    return " ".join(visible.split()).strip("#*_`>|<[](){}\"'“”:;,.，。：；、 ")


def _terms(one: Text, telling: set[str]) -> list[tuple[str, float]]:
    """The terms of a passage and what they weigh."""
    named = [(one.header.rpartition(" > ")[2], HEADING), (one.title, TITLE)]
    found = [(clean(term), weight) for term, weight in named]
    text = _around(_CODE.sub(" ", one.text[:READ]), telling)
    found += _runs(text) if one.language == "zh" else _words(text, pairs_only=one.language == "vi")
    return [(term, weight) for term, weight in found if 2 <= len(term) <= MAX_TERM and not term.endswith(("?", "？"))]


def _around(text: str, telling: set[str]) -> str:
    """The sentences that have a word of the question, and so something to do with it; all, where none has one."""
    every = [text[start:end] for start, end in sentences(text, 0, len(text))]
    near = [sentence for sentence in every if not telling.isdisjoint(index_tokens(sentence))]
    return " ".join(near or every)


def _words(text: str, *, pairs_only: bool) -> list[tuple[str, float]]:
    words = _WORD.findall(text)
    kept = [word if word.lower() not in _LITTLE and len(word) > 1 else "" for word in words]
    singles = Counter(word for word in kept if len(word) >= SHORTEST)
    pairs = Counter(f"{a} {b}" for a, b in pairwise(kept) if a and b and f"{a} {b}" in text)
    found = [(pair, log(1 + times)) for pair, times in pairs.items() if times > 1]
    # Names in the middle of a sentence; at its beginning every word has a capital.
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
    # The longest that comes back as often: 知识库 rather than 知识 and 识库.
    inner = {
        part
        for run, number in repeated.items()
        for part in (run[1:], run[:-1])
        if repeated.get(part) == number and len(run) > 2
    }
    return [(run, log(1 + number)) for run, number in repeated.items() if run not in inner]
