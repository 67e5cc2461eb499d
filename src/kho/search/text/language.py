"""Which of the languages that Kho is at home in a text is written in."""

from kho.lib.lazy_regex import pattern
from kho.search.text.unaccented_vietnamese import typed_without_marks

LOOKED_AT = 400
"""Characters that are enough to tell."""

_HAN = pattern(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_KANA_OR_HANGUL = pattern(r"[\u3040-\u30ff\uac00-\ud7af]")
_LATIN = pattern(r"[^\W\d_\u0250-\U0010ffff]|[\u1e00-\u1eff]")
# Letters that hardly any other language uses: đ, ă, ơ, ư with and without a tone, and letters with two marks.
_VIETNAMESE = pattern(r"[đĐăĂơƠưƯ\u1ea0-\u1ef9]")


def language(text: str) -> str:
    """ "zh", "vi", "en" for whatever else is written in Latin letters, or "" for the rest."""
    text = text[:LOOKED_AT]
    if text.isascii():
        return "vi" if typed_without_marks(text) else "en" if _LATIN.search(text) else ""
    han, latin = len(_HAN.findall(text)), len(_LATIN.findall(text))
    if len(_KANA_OR_HANGUL.findall(text)) > han:
        return ""
    # A Han character says about as much as three letters.
    if han * 3 > latin:
        return "zh"
    if len(_VIETNAMESE.findall(text)) * 20 > latin:
        return "vi"
    return "en" if latin else ""
