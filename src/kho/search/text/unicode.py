"""Characters: which make up words, which scripts are written without spaces, and the plain form of a text.

Python's `re` knows no Unicode properties, so the classes are made here, once, as text for use inside `[…]`.
"""

import unicodedata

from kho.lib.lazy_regex import pattern

CJK = (
    "\u3005\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u31a0-\u31bf\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U000323af"
)
"""Han, Kana, Bopomofo and Hangul: single characters and pairs of them."""

UNSPACED = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u0edc-\u0edf\u1000-\u1049\u1050-\u109d\u1780-\u17d3\u17d7\u17dc\u17dd"
    "\ua9e0-\ua9ef\ua9fa-\ua9fe\uaa60-\uaa7f"
)
"""Thai, Lao, Myanmar and Khmer: the same, but a letter keeps its marks."""

EMOJI = (
    "\u231a\u231b\u23e9-\u23f3\u2600-\u27bf\u2b05-\u2b07\u2b1b\u2b1c\u2b50\u2b55"
    "\U0001f000-\U0001f0ff\U0001f1e6-\U0001f1ff\U0001f300-\U0001f3fa\U0001f400-\U0001faff"
)
"""Pictures. Skin tones (1f3fb-1f3ff) are left out: they say little, and are dropped as other marks are."""


def _ranges(points: list[int]) -> str:
    """Code points as ranges, the way a character class takes them."""
    text: list[str] = []
    start = last = points[0]
    for point in [*points[1:], -1]:
        if point != last + 1:
            text.append(f"\\u{start:04x}-\\u{last:04x}")
            start = point
        last = point
    return "".join(text)


# Marks are letters' parts, but `\w` does not know them: without these, Hindi falls apart at every vowel.
_MARKED_BLOCKS = (range(0x300, 0x1E00), range(0x20D0, 0x2100), range(0x2DE0, 0x2E00), range(0xA66F, 0xAC00))
MARKS = _ranges(
    [point for block in _MARKED_BLOCKS for point in block if unicodedata.category(chr(point)) in ("Mn", "Mc")]
)
WORD = rf"\w{MARKS}"

# Zero-width joiners, soft hyphens, marks of direction, variation selectors and skin tones: seen by nobody, or by
# nobody who searches. They vanish, so that a word with one inside is still one word.
_UNSEEN = pattern(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U0001f3fb-\U0001f3ff\U000e0000-\U000e0fff]+"
)
# A lone surrogate cannot be stored, NUL and the private areas mean nothing: they part words, as a space does.
_NO_TEXT = pattern("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ue000-\uf8ff\ufffd-\uffff]")
_DASHES = pattern("[\u2010-\u2013\u2212]")
_APOSTROPHES = pattern("[\u2018\u2019\u02bc\u2032]")
_FOREIGN_DIGITS = pattern(r"[^\W\D0-9]")

# Accents: of Latin, Greek and Cyrillic letters, Hebrew points, Arabic vowel signs and the tatweel. Marks of other
# scripts, such as the Japanese voicing mark, make letters.
ACCENTS = pattern(
    "[\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]+"
)
# Letters that look like another with a stroke, but that Unicode does not take apart.
_STROKES = str.maketrans(
    {"đ": "d", "ð": "d", "ı": "i", "ł": "l", "ø": "o", "ħ": "h", "ŧ": "t", "æ": "ae", "œ": "oe", "þ": "th", "ĸ": "k"}
)


def plain(text: str) -> str:
    """NFKC (half width, no ligatures), without what nobody sees; dashes, apostrophes and digits in one form.
    Case and accents stay."""
    if text.isascii():
        return _NO_TEXT.sub(" ", text)
    text = unicodedata.normalize("NFKC", _NO_TEXT.sub(" ", _UNSEEN.sub("", text)))
    text = _APOSTROPHES.sub("'", _DASHES.sub("-", _UNSEEN.sub("", text)))
    return _FOREIGN_DIGITS.sub(lambda found: str(unicodedata.decimal(found.group(), "")), text)


def unaccented(text: str) -> str:
    """Lower case and no accents; đ, ł, ø and their like as the letters they are typed as."""
    if text.isascii():
        return text.lower()
    bare = ACCENTS.sub("", unicodedata.normalize("NFKD", text)).casefold()
    # Case folding can bring accents of its own.
    bare = ACCENTS.sub("", unicodedata.normalize("NFKD", bare)).translate(_STROKES)
    return unicodedata.normalize("NFC", bare)
