"""Guesses the encoding of a text without byte order mark or declaration.

Uses our own rules for encodings that are common among Kho's users, because a general detector confuses them on short
texts: Chinese, Japanese and Korean are recognised by the code ranges of their everyday characters, Vietnamese by its
syllables, Western European by single accented letters between ASCII ones. Only the rest is left to charset-normalizer.
"""

import codecs
import re
import unicodedata
from collections import Counter

from kho.lib.lazy_regex import pattern

_SAMPLE = 2**18
_EVERYDAY = frozenset(
    "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里用道行所然家种"
    "事成方多经么去法学如都同现当没动面起看定天分还进好小部其些主样理心她本前开但因只从想实日军者意无力它与长把机十民第"
    "這個們來為國說時會對於著過發後裡種經麼學現當沒動還進樣開從實軍無與長機點"
)
_SINGLE = ["cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "koi8_r", "iso8859_2", "iso8859_11"]
"""Encodings that are left to charset-normalizer."""
_TONES = pattern("[\u0300\u0301\u0303\u0309\u0323]")
_SYLLABLE = pattern(
    "(?:ngh|ng(?![ieêy])|nh|th|tr|ph|kh|ch|gh|gi|qu|[bdđghklmnprstvx]|c(?![ieêy]))?"
    "(?:uyê|uya|uyu|iêu|yêu|oai|oay|oao|oeo|uây|uôi|ươi|ươu|ia|iê|yê|ya|ua|uô|ưa|ươ|ai|ao|au|ay|âu|ây|eo|êu|iu|oi|ôi|"
    "ơi|ui|ưi|ưu|oa|oă|oe|oo|uê|uy|uâ|uơ|[aăâeêioôơuưy])"
    "(?:ch|ng|nh|[ckmnpt])?"
)
_WORD = pattern("[^\\W\\d_]+(?:[\u0300-\u0323]+[^\\W\\d_]*)*")
_ASCII = bytes(range(9, 14)) + bytes(range(32, 127))
_CHINESE = pattern("[\u3000-\u30ff\u4e00-\u9fff\uff00-\uffef\u2010-\u2026\n\r -~]")
_HANZI = pattern("[\u4e00-\u9fff]")
_RUN = re.compile(rb"[\x80-\xff]+")
_SIGN_IN_WORD = pattern("[a-zA-Z][\xa1-\xbf\xd7\xf7\x80-\x9f\u2020-\u203a\u0192\u02c6][a-z]")


def guess(data: bytes) -> str:
    """Return the name of a codec. The text is known not to be UTF-8, and to hold no NUL."""
    first = _RUN.search(data)
    at = first.start() if first else 0
    sample = data[at : at + _SAMPLE]
    around = data[max(0, at - 200) : at + _SAMPLE]
    return _eastern(sample) or wide(data) or _vietnamese(around) or _western(around) or _other(around)


def _eastern(sample: bytes) -> str:
    """Return the multibyte encoding whose everyday range holds nearly all of the characters; empty if there is none."""
    scores = {name: _share(_decoded(sample, name), name) for name in ("gb18030", "big5hkscs", "euc_kr", "cp932")}
    best = max(scores, key=scores.__getitem__)
    text = _decoded(sample, best)
    everyday, hanzi = sum(sign in _EVERYDAY for sign in text), len(_HANZI.findall(text))
    # Traditional characters in GB18030 lie outside its everyday range, but are still everyday characters.
    if scores[best] < 0.4 or (scores[best] < 0.7 and everyday * 8 < hanzi):
        return ""
    if best == "gb18030" and len(re.findall("[\u3041-\u30fa]", text)) * 6 > len(re.findall("[\u3041-\u9fff]", text)):
        return "euc_jp" if _decoded(sample, "euc_jp") else best  # both have kana at the same code points
    if best in ("gb18030", "euc_kr") and scores["euc_kr"] > 0.95:
        # Hangul has the same code points as the everyday half of the hanzi. A few characters alone are taken for
        # Chinese.
        chinese = _decoded(sample, "gb18030")
        hanzi = len(_HANZI.findall(chinese))
        everyday = sum(sign in _EVERYDAY for sign in chinese)
        return "gb18030" if chinese and (hanzi < 8 or everyday * 20 >= hanzi) else "euc_kr"
    return best


def _decoded(sample: bytes, name: str) -> str:
    """Decode the sample; empty if it is not in that encoding. A character cut off at the end is ignored."""
    try:
        return codecs.getincrementaldecoder(name)("strict").decode(sample, final=False)
    except UnicodeDecodeError:
        return ""


def _share(text: str, name: str) -> float:
    signs = Counter(sign for sign in text if sign >= "\x80")
    total = sum(signs.values())
    return sum(count for sign, count in signs.items() if _usual(sign, name)) / total if total else 0.0


def _usual(sign: str, name: str) -> bool:
    if name == "euc_kr":
        return "\uac00" <= sign <= "\ud7a3" or "\u3000" <= sign <= "\u3020"
    if name == "cp932":
        return "\u3000" <= sign <= "\u30fe" or ("\u4e00" <= sign <= "\u9fff" and _lead(sign, name) < 0x98)
    if name == "big5hkscs":
        return 0xA1 <= _lead(sign, "big5") <= 0xC6
    lead = _lead(sign, "gb2312")
    return 0xB0 <= lead <= 0xD7 or 0xA1 <= lead <= 0xA5


def _lead(sign: str, name: str) -> int:
    try:
        return sign.encode(name)[0]
    except UnicodeEncodeError:
        return 0


def wide(data: bytes) -> str:
    """Return UTF-16 or UTF-32 without a byte order mark, by the positions of NULs, or if the decoded text is almost all
    Chinese; otherwise an empty name."""
    sample = data[: _SAMPLE - _SAMPLE % 4]
    nul = [sample[offset::4].count(0) for offset in range(4)]
    quarter = max(1, len(sample) // 4)
    if len(data) % 4 == 0 and sum(nul) > quarter * 1.8:
        if min(nul[2:]) > quarter * 0.9 and nul[3] == quarter:
            return "utf-32-le"
        if min(nul[:2]) > quarter * 0.9 and nul[0] == quarter:
            return "utf-32-be"
    if len(data) % 2 or len(data) < 4:
        return ""
    even, odd = nul[0] + nul[2], nul[1] + nul[3]
    if max(even, odd) * 10 > len(sample) and max(even, odd) > 8 * min(even, odd):
        return "utf-16-le" if odd > even else "utf-16-be"
    low = len(sample.translate(None, _ASCII))
    if len(sample) >= 16 and low * 5 >= len(sample):
        for name in ("utf-16-le", "utf-16-be"):
            text = sample.decode(name, "replace")
            if len(_CHINESE.findall(text)) >= 0.9 * len(text):
                return name
    return ""


def _vietnamese(sample: bytes) -> str:
    try:
        text = sample.decode("cp1258")
    except UnicodeDecodeError:
        return ""
    words = [word.lower() for word in _WORD.findall(text) if word.encode("cp1258").decode("cp1252", "replace") != word]
    fitting = sum(_is_syllable(word) for word in words)
    return "cp1258" if len(words) > 1 and fitting >= 0.8 * len(words) else ""


def _is_syllable(word: str) -> bool:
    parted = unicodedata.normalize("NFD", word)
    bare, tones = _TONES.subn("", parted)
    return tones < 2 and bool(_SYLLABLE.fullmatch(unicodedata.normalize("NFC", bare)))


def _western(sample: bytes) -> str:
    """Return cp1252 if accented letters stand alone among ASCII ones; in Cyrillic, Greek or Thai they form whole
    words."""
    runs = [len(run) for run in _RUN.findall(sample)]
    lonely = sum(length <= 2 for length in runs)
    try:
        text = sample.decode("cp1252")
    except UnicodeDecodeError:
        return ""
    return "cp1252" if lonely >= 0.9 * len(runs) and not _SIGN_IN_WORD.search(text.replace("’", "")) else ""


def _other(sample: bytes) -> str:
    from charset_normalizer import from_bytes

    found = from_bytes(sample[: 2**16], cp_isolation=_SINGLE).best()
    return found.encoding if found else "cp1252"
