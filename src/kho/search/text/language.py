"""Detects Vietnamese, Chinese and English, and Vietnamese typed without its marks, as on a phone or a terminal.

A Vietnamese syllable is an onset and a rhyme, and there are not many of either: nearly every word of such a text fits,
while English words mostly do not. Some do (`the, man, hot`); they count for neither side.
"""

import re
from functools import cache

from kho.lib.lazy_regex import pattern

LOOKED_AT = 400
"""Number of characters that are enough to detect the language."""

_HAN = pattern(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_KANA_OR_HANGUL = pattern(r"[\u3040-\u30ff\uac00-\ud7af]")
_LATIN = pattern(r"[^\W\d_\u0250-\U0010ffff]|[\u1e00-\u1eff]")
# Letters that hardly any other language uses: đ, ă, ơ, ư with and without a tone, and letters with two marks.
_VIETNAMESE = pattern(r"[đĐăĂơƠưƯ\u1ea0-\u1ef9]")


def language(text: str) -> str:
    """Return "zh", "vi", "en" for any other text in Latin letters, or "" for the rest."""
    text = text[:LOOKED_AT]
    if text.isascii():
        return "vi" if typed_without_marks(text) else "en" if _LATIN.search(text) else ""
    han, latin = len(_HAN.findall(text)), len(_LATIN.findall(text))
    if len(_KANA_OR_HANGUL.findall(text)) > han:
        return ""
    # A Han character carries about as much as three letters.
    if han * 3 > latin:
        return "zh"
    if len(_VIETNAMESE.findall(text)) * 20 > latin:
        return "vi"
    return "en" if latin else ""


_SAMPLE = 2_000
_WORDS = re.compile(r"[^\W\d_]+")
_FITTING = 0.6
"""Minimum share of words that must be possible syllables. Names and loan words need not be."""

_ONSETS = "b c ch d g gh gi h k kh l m n ng ngh nh p ph r s t th tr v x".split()
_RHYMES = """
    a ac ach ai am an ang anh ao ap at au ay e ec ech em en eng enh eo ep et eu
    i ia ich iec iem ien ieng iep iet ieu im in inh ip it iu o oc oi om on ong op ot
    oa oac oach oai oam oan oang oanh oao oap oat oay oe oen oeo oet ooc oong
    u ua uac uach uan uang uanh uat uay uc ue uech uenh ui um un ung uo uoc uoi uom uon uong uop uot uou up ut uu
    uy uya uych uyen uyet uynh uyp uyt uyu y yem yen yeng yet yeu
""".split()

# English words that are also possible syllables. They count for neither side.
_EITHER = frozenset(
    "a an at bat be ben bin bit bong boo but can cat chat chi chin chop cop cot cut dam dan den dim din dip do dot "
    "gap gem get gin go got gun gut ham han hat he hen him hip hit ho hop hot hum hung hut i in it kin kit la lap lay "
    "let lip lit long lot ma man map mat may me men met mom mop my nap net no not nun nut o on pan pat pay pen pet phi "
    "phone pi pin ping pit pop pot pro put quay quit ram ran rang rap rat ray rim rip rot run rung sac sang sat say "
    "set shin sin sing sip sit so son song sum sun sung tan tang tap tat tea ten than that the them then thin thing "
    "this to tom ton tong too top toy trap tray trip try tun up van vat vet via vim xi".split()
)
# Words that occur in no Vietnamese text, but in most English ones.
_ENGLISH = frozenset(
    "of is was were are what which who whose when where how why and or for with from by as this his her their does did "
    "has have had will would should could been being it its if use used not only more most other after before".split()
)
# Syllables of every Vietnamese text that are not common English words.
_COMMON = frozenset(
    "ai anh bao bi ca cac cai cho chua chung co con cong cua cung da dang dau day de den dieu duoc duong em gi gia gio "
    "giua hang hanh hoac hoc hon khac khi khong kien lai lam loai luong minh moi mot nam nao nay ngay nghia nguoi "
    "nha nhan nhat nhieu nhu nhung noi nuoc phai phap quan quoc rat sao sau se su tai ten theo thi thoi thu thuoc tien "
    "tieng tinh toi tren trong truong tu va vao vay ve vi viec viet voi xin".split()
)


@cache
def syllables() -> frozenset[str]:
    """Return every syllable that Vietnamese spelling allows, without marks."""
    found = {rhyme for rhyme in _RHYMES if rhyme not in ("ooc", "oong")}
    for onset in _ONSETS:
        # Before e, i and y the spelling is k, gh, ngh; before other vowels c, g, ng.
        front = {"c": "aou", "g": "aoui", "ng": "aou", "k": "eiy", "gh": "ei", "ngh": "ei"}.get(onset, "aeiouy")
        found |= {onset + rhyme for rhyme in _RHYMES if rhyme[0] in front}
    found |= {"qu" + rhyme for rhyme in _RHYMES if rhyme[0] in "aeiy" or rhyme in ("o", "oc", "ot")}
    return frozenset(found)


def typed_without_marks(text: str) -> bool:
    """True if a text has no marks but reads as Vietnamese."""
    words = _WORDS.findall(text[:_SAMPLE])
    if not words or not all(word.isascii() for word in words):
        return False
    spelt = syllables()
    fitting = evidence = names = 0
    for written in words:
        word = written.lower()
        if word in spelt:
            fitting += 1
            evidence += 2 if word in _COMMON else 0 if word in _EITHER else 1
        elif word in _ENGLISH:
            evidence -= 2
        elif written[0].isupper():
            names += 1
        else:
            evidence -= 1
    return evidence > 0 and fitting >= _FITTING * (len(words) - names)
