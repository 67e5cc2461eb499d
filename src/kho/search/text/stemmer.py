"""A light English stemmer: plurals, -ed, -ing, -ly, a final y or e, and a few irregular forms.

The steps and the measure are those of Porter's algorithm, which conflates `store, stores, stored, storing`. Its later
steps (-ation, -ness, -ize …) are left out, because they merge words of different meaning and names that only look
alike. No Vietnamese syllable without marks is changed: none ends in s, -ed or -ing, and the rules for a final y and e
require a vowel and a consonant before it, which no such syllable has.
"""

import re
from functools import lru_cache

MIN_WORD_LENGTH = 4
"""Shorter words are not stemmed: `bus`, `ing`, `use`, and most syllables of other languages."""
MAX_WORD_LENGTH = 32
"""Longer strings are not words."""

_VOWEL = re.compile(r"[aeiou]|(?<=[^aeiou])y")
_MEASURE = re.compile(r"(?:[aeiou]|(?<=[^aeiou])y)+(?:[^aeiouy]|(?<=[aeiou])y|^y)+")
_SHORT_END = re.compile(r"(?:[^aeiouy][aeiouy]|^[aeiou])[^aeiouwxy]$")
_DOUBLED = re.compile(r"(?:bb|dd|ff|gg|mm|nn|pp|rr|tt)$")
_NO_PLURAL = re.compile(r"(?:ss|us|is)$")
_SIBILANT_PLURAL = re.compile(r"(?:ss|sh|ch|x|zz)es$")
_ADVERB = re.compile(r"[^aiflp]ly$")

# Irregular forms. Words that are also Vietnamese syllables (men, met, ran, sang, sung, hung) are left out, and so are
# those with two readings (found, left, saw, felt, rose).
_FORMS = """
    used:use using:use uses:use dying:die lying:lie tying:tie children:child women:woman mice:mouse feet:foot
    teeth:tooth
    began:begin begun:begin became:become broke:break broken:break brought:bring built:build bought:buy caught:catch
    chose:choose chosen:choose came:come drew:draw drawn:draw drove:drive driven:drive fell:fall fallen:fall
    fought:fight forgot:forget forgotten:forget gave:give given:give gone:go went:go grew:grow grown:grow held:hold
    kept:keep knew:know known:know lost:lose made:make meant:mean paid:pay said:say sent:send shown:show
    slept:sleep sold:sell spent:spend spoke:speak spoken:speak stood:stand stole:steal stolen:steal taken:take
    took:take taught:teach threw:throw thrown:throw told:tell understood:understand won:win wore:wear worn:wear
    written:write wrote:write
"""
_IRREGULAR: dict[str, str] = {pair.partition(":")[0]: pair.partition(":")[2] for pair in _FORMS.split()}

# Plural-looking or adverb-looking words whose stem would be another word.
_AS_IT_IS = frozenset("news does species series always perhaps lens alias bias atlas canvas kudos pandas".split())


@lru_cache(maxsize=32_768)
def stem(word: str) -> str:
    """Return the stem of a folded word; anything but plain English letters is returned unchanged."""
    if (
        not MIN_WORD_LENGTH <= len(word) <= MAX_WORD_LENGTH
        or not word.isascii()
        or not word.isalpha()
        or word in _AS_IT_IS
    ):
        return _IRREGULAR.get(word, word)
    known = _IRREGULAR.get(word)
    if known is not None:
        word = known
    else:
        word = _past(_plural(word))
        word = _adverb(word)
    return _final(word)


def _plural(word: str) -> str:
    if not word.endswith("s") or _NO_PLURAL.search(word):
        return word
    if word.endswith("ies"):
        return word[:-3] + "y" if len(word) > 4 else word[:-1]
    if _SIBILANT_PLURAL.search(word):
        return word[:-2]
    return word[:-1] if _VOWEL.search(word[:-2]) else word


def _past(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if len(_MEASURE.findall(word[:-3])) > 0 else word
    if word.endswith("ied"):
        return word[:-3] + "y" if len(word) > 4 else word[:-1]
    for ending in ("ed", "ing"):
        rest = word.removesuffix(ending)
        if rest == word:
            continue
        if len(rest) < 2 or not _VOWEL.search(rest):
            return word
        if rest.endswith(("at", "bl", "iz")):
            return rest + "e"
        if len(rest) > 3 and _DOUBLED.search(rest):
            return rest[:-1]
        if len(_MEASURE.findall(rest)) == 1 and _SHORT_END.search(rest):
            return rest + "e"
        return rest
    return word


def _adverb(word: str) -> str:
    if len(word) < 6 or not word.endswith("ly"):
        return word
    if word.endswith("ically"):
        return word[:-4]
    if word.endswith("bly"):
        return word[:-1] + "e"
    return word[:-2] if _ADVERB.search(word) else word


def _final(word: str) -> str:
    """Turn a final y after a consonant into i, as in `queri(es)`; drop a final e, unless the word would be too
    short."""
    if word.endswith("y") and len(word) > 2 and word[-2] not in "aeiou" and _VOWEL.search(word[:-1]):
        return word[:-1] + "i"
    if word.endswith("e"):
        rest = word[:-1]
        measure = len(_MEASURE.findall(rest))
        if measure > 1 or (measure == 1 and len(rest) > 2 and not _SHORT_END.search(rest)):
            return rest
    return word
