"""Query analysis: the tokens and phrases to look for, and the balance of keyword and semantic score."""

import re
from functools import cached_property

from kho.lib.chunking.code_blocks import in_words
from kho.lib.dataclass import dataclass
from kho.lib.lazy_regex import pattern
from kho.search.text.days import NamedDays, named_days
from kho.search.text.language import language, typed_without_marks
from kho.search.text.side_by_side import JOINT, pairs
from kho.search.text.tokens import FUNCTION_WORD, MAX_QUERY_TOKENS, fold, query_tokens, without_marks

MAX_QUERY_LENGTH = 8_000
"""Number of characters of a query that are used: the beginning says what it is about."""

MAX_KEYWORDS = 6
"""Number of words up to which a query without function words is taken for keywords."""

EVENLY = 0.5
"""Share of keywords in the score if nothing favours either side; the rest is semantic."""
LITERALLY = 0.75
"""Share of keywords if the query names things: an identifier, an error code, a quoted phrase."""
UNMARKED = 0.8
"""Share of keywords for Vietnamese without marks, which the model understands poorly."""
PAIR = 0.3
"""Importance of two words that stand side by side in a Vietnamese query, where a word has 1."""

_QUOTED = pattern(r'"([^"\n]{0,200})"|“([^”\n]{0,200})”|「([^」\n]{0,200})」|«([^»\n]{0,200})»|`([^`\n]{0,200})`')
# What a person would not write in a sentence: digits and letters in one word, inner capitals, underscores, ::, paths.
# Each alternative is anchored at the beginning of a word, or a long word would be scanned once for each of its letters.
# Chinese has no spaces, so a name ends where Chinese characters begin.
_W = r"[^\W\u2e80-\U0010ffff]"
_NAME = pattern(
    rf"(?<!{_W})(?:{_W}*[a-z][A-Z]{_W}*|{_W}+(?:_{_W}+)+|{_W}+(?:::|->|[./\\]){_W}(?:{_W}|[./\\:])*"
    rf"|{_W}*[A-Za-z]-?\d(?:{_W}|-)*|0x[0-9a-fA-F]+|-\d{{4,}})"
)

_OPENS = pattern(r"^(?:class|def|function|func|fn|struct|interface|enum) ")
_IDENTIFIER = pattern(r"[A-Za-z_]\w*(?: [A-Za-z_]\w*)?", re.ASCII)


@dataclass(frozen=True)
class ParsedQuery:
    text: str
    also: str = ""
    """Another reading of it, if it was typed without marks and two are likely."""
    typed: str = ""
    """What was typed, if that had no marks."""

    @cached_property
    def beginning(self) -> str:
        return self.text[:MAX_QUERY_LENGTH]

    @cached_property
    def words(self) -> list[tuple[str, float]]:
        return query_tokens(self.text)

    @cached_property
    def tokens(self) -> list[tuple[str, float]]:
        """What is looked up: the words, and in Vietnamese also the pairs of syllables that stand side by side."""
        if self.language != "vi":
            return self.words
        telling = {token for token, importance in self.words if importance > FUNCTION_WORD}
        beside = (pair for pair in dict.fromkeys(pairs(self.beginning)) if not telling.isdisjoint(pair.split(JOINT)))
        return [*self.words, *((pair, PAIR) for pair in beside)][:MAX_QUERY_TOKENS]

    @cached_property
    def is_unmarked(self) -> bool:
        """True if it is Vietnamese typed without its marks."""
        return typed_without_marks(self.beginning)

    @cached_property
    def language(self) -> str:
        return language(self.beginning)

    @cached_property
    def phrases(self) -> tuple[str, ...]:
        """Text in quotation marks, folded, with single spaces."""
        found = (flat(match[match.lastindex or 0]) for match in _QUOTED.finditer(self.beginning))
        return tuple(phrase for phrase in found if len(phrase) > 1)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Words that are names of things rather than words of a language, folded."""
        return tuple(fold(name) for name in _NAME.findall(self.beginning)[:32])

    @cached_property
    def as_identifier(self) -> str:
        """The name that it would be in a program, if it is nothing but one or two plain words: `isleap`, `rmtree()`,
        `due date`, `class TextWrapper`."""
        typed = _OPENS.sub("", self.beginning.strip().removesuffix("()"))
        return typed if len(typed) > 2 and _IDENTIFIER.fullmatch(typed) else ""

    @cached_property
    def in_words(self) -> str:
        """As a name of a program would be read."""
        return in_words(self.beginning)

    @cached_property
    def days(self) -> NamedDays:
        return named_days(self.beginning)

    @cached_property
    def is_code(self) -> bool:
        """True if it consists only of codes, such as INV-2041 or E0502, which all look alike to a model. Names with a
        digit or two, such as k8s or GPT-4, are words to it."""
        coded = [name for name in self.names if sum(sign.isdigit() for sign in name) > 2]
        return bool(coded) and len(coded) >= len(self.beginning.split())

    @cached_property
    def lean(self) -> float:
        """Share of keywords in the score."""
        if self.phrases:
            return LITERALLY
        if self.is_unmarked:
            return UNMARKED
        words = len(self.beginning.split())
        # One name does not make a long question literal.
        return LITERALLY if len(self.names) * 3 >= words else EVENLY

    @cached_property
    def is_telling(self) -> bool:
        """True if it says what it is about. Function words alone do not, unless they are quoted."""
        return bool(self.phrases) or any(importance > FUNCTION_WORD for _, importance in self.words)

    @cached_property
    def is_speech(self) -> bool:
        """True if it has function words, as a sentence does. Keywords and nonsense have none."""
        return any(importance <= FUNCTION_WORD for _, importance in self.words)

    @cached_property
    def is_sentence(self) -> bool:
        """True if it is speech, or has more words than keyword queries have: not every sentence has function words,
        least of all in Chinese."""
        return self.is_speech or len({without_marks(token) for token, _ in self.words}) > MAX_KEYWORDS


def flat(text: str) -> str:
    return " ".join(fold(text).split())
