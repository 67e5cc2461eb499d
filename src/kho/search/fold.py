"""Folding: text to the tokens that both databases index.

Case, width and accents are folded (đ too, which Unicode does not decompose), so that Vietnamese typed without
marks still finds its record. Han, Kana and Hangul have no spaces: they become single characters and overlapping pairs.
"""

import re
import unicodedata

_RUN = re.compile(r"[^\W_]+")
# Marks of Latin, Greek and Cyrillic letters. Those of other scripts, such as the Japanese voicing mark, make letters.
_ACCENTS = re.compile("[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff]+")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f]+")

# Function words say little about what a text is about. They still count, a little, so that a query made of
# nothing else is answered.
_FUNCTION_WORDS = frozenset(
    "a an and are as at be by for from has have how i if in is it its not of on or that the this to was what when "
    "where which why with you do does can cannot "
    "la va cua cho khi thi ma o de bi duoc trong nhung cac mot voi khong nhu nay do den tu ra vao "
    "的 了 是 在 和 有 我 不 这 那 吗 与 或 及".split()
)


def fold(text: str) -> str:
    """Lower case, half width, no accents."""
    if text.isascii():
        return text.lower()
    bare = _ACCENTS.sub("", unicodedata.normalize("NFKD", text)).casefold()
    return unicodedata.normalize("NFC", bare.replace("đ", "d").replace("ð", "d"))


def index_tokens(text: str) -> list[str]:
    """Every token of a text, in order, each as often as it occurs."""
    tokens: list[str] = []
    for run in _runs(text):
        if _CJK.fullmatch(run):
            tokens.extend(run)
            tokens.extend(_pairs(run))
        else:
            tokens.append(run)
    return tokens


def query_tokens(text: str) -> list[tuple[str, float]]:
    """The distinct tokens to look for, each with its importance in 0..1."""
    tokens: dict[str, float] = {}
    for run in _runs(text):
        words = _pairs(run) if len(run) > 1 and _CJK.fullmatch(run) else [run]
        for word in words:
            tokens.setdefault(word, 0.1 if word in _FUNCTION_WORDS else 1.0)
    return list(tokens.items())


def _runs(text: str) -> list[str]:
    runs: list[str] = []
    for word in _RUN.findall(fold(text)):
        if word.isascii():
            runs.append(word)
            continue
        position = 0
        for found in _CJK.finditer(word):
            if found.start() > position:
                runs.append(word[position : found.start()])
            runs.append(found.group())
            position = found.end()
        if position < len(word):
            runs.append(word[position:])
    return runs


def _pairs(run: str) -> list[str]:
    return [run[i : i + 2] for i in range(len(run) - 1)]
