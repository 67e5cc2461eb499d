"""What a query looks like: which words to look for, which phrases, and whether words or meaning should decide."""

from dataclasses import dataclass
from functools import cached_property

from kho.lib.lazy_regex import pattern
from kho.search.text.language import language
from kho.search.text.tokens import FUNCTION_WORD, fold, query_tokens
from kho.search.text.unaccented_vietnamese import typed_without_marks

MAX_QUERY_LENGTH = 8_000
"""Characters of a query that are looked at: the beginning says what it is about."""

EVENLY = 0.5
"""How much the words decide where nothing speaks for either side; the meaning decides the rest."""
LITERALLY = 0.75
"""… where the query names things: an identifier, an error code, a quoted phrase."""
UNMARKED = 0.8
"""… where it is Vietnamese without marks, of which the model understands little."""

_QUOTED = pattern(r'"([^"\n]{0,200})"|“([^”\n]{0,200})”|「([^」\n]{0,200})」|«([^»\n]{0,200})»|`([^`\n]{0,200})`')
# What a person would not write in a sentence: digits and letters in one word, inner capitals, underscores, ::, paths.
# Each from the beginning of its word, or a long word would be read as often as it has letters. Chinese has no spaces,
# so a name ends where it begins.
_W = r"[^\W\u2e80-\U0010ffff]"
_NAME = pattern(
    rf"(?<!{_W})(?:{_W}*[a-z][A-Z]{_W}*|{_W}+(?:_{_W}+)+|{_W}+(?:::|->|[./\\]){_W}(?:{_W}|[./\\:])*"
    rf"|{_W}*[A-Za-z]-?\d(?:{_W}|-)*|0x[0-9a-fA-F]+|-\d{{4,}})"
)


@dataclass(frozen=True)
class ParsedQuery:
    text: str

    @cached_property
    def beginning(self) -> str:
        return self.text[:MAX_QUERY_LENGTH]

    @cached_property
    def tokens(self) -> list[tuple[str, float]]:
        return query_tokens(self.text)

    @cached_property
    def language(self) -> str:
        return language(self.beginning)

    @cached_property
    def phrases(self) -> tuple[str, ...]:
        """What stands in quotation marks, folded, with single spaces."""
        found = (flat(match[match.lastindex or 0]) for match in _QUOTED.finditer(self.beginning))
        return tuple(phrase for phrase in found if len(phrase) > 1)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Words that are names of things rather than words of a language, folded."""
        return tuple(fold(name) for name in _NAME.findall(self.beginning)[:32])

    @cached_property
    def is_code(self) -> bool:
        """Whether it is nothing but numbers of things, such as INV-2041 or E0502: a model sees them all alike."""
        coded = [name for name in self.names if any(sign.isdigit() for sign in name)]
        return bool(coded) and len(coded) >= len(self.beginning.split())

    @cached_property
    def lean(self) -> float:
        """How much of the score is the words'."""
        if self.phrases:
            return LITERALLY
        if typed_without_marks(self.beginning):
            return UNMARKED
        words = len(self.beginning.split())
        # One name in a long question does not make the question literal.
        return LITERALLY if len(self.names) * 3 >= words else EVENLY

    @cached_property
    def is_telling(self) -> bool:
        """Whether it says what it is about. Little words alone do not, unless they are quoted."""
        return bool(self.phrases) or any(importance > FUNCTION_WORD for _, importance in self.tokens)

    @cached_property
    def is_speech(self) -> bool:
        """Whether it has the small words that hold a sentence together. Keywords have none, and nonsense has none."""
        return any(importance <= FUNCTION_WORD for _, importance in self.tokens)


def flat(text: str) -> str:
    return " ".join(fold(text).split())
