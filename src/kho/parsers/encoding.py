"""Decodes bytes to text: by byte order mark, then strict UTF-8, then the encoding that the file declares, then a
guess."""

import codecs
import re

from kho.lib.dataclass import dataclass
from kho.parsers.legacy_encodings import guess, wide
from kho.parsers.model import UnreadableFile

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_DECLARED = re.compile(
    rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w.:-]{2,40})"""
    rb"""|<\?xml[^>]{0,200}?encoding\s*=\s*["']([\w.:-]{2,40})""",
    re.IGNORECASE,
)
_CODING = re.compile(rb"^[ \t\f]*(?:#|//|/\*|;|--|%).*?coding[:=][ \t]*([-\w.]{2,40})")
_WIDER = {"iso8859-1": "cp1252", "ascii": "cp1252", "gb2312": "gb18030", "gbk": "gb18030", "big5": "big5hkscs"}
"""Codecs used for declared names in practice, as browsers do."""
_TEXT_CODECS = {
    "gb18030", "big5hkscs", "cp950", "shift_jis", "cp932", "euc_jp", "euc_kr", "cp949", "johab", "koi8-r", "koi8-u",
    "mac-roman", "mac-cyrillic", "tis-620", *(f"cp125{number}" for number in range(9)), "cp437", "cp850", "cp866",
    "cp874", *(f"iso8859-{number}" for number in range(2, 17)),
}  # fmt: skip
_NAMES = {"gb18030": "gb18030", "big5hkscs": "big5"} | {f"cp125{number}": f"windows-125{number}" for number in range(9)}
_CONTROLS = bytes(set(range(32)) - {7, 8, 9, 10, 11, 12, 13, 26, 27}) + b"\x7f"
_SAMPLE = 2**18


@dataclass(frozen=True, slots=True)
class Decoded:
    text: str
    encoding: str
    notes: tuple[str, ...] = ()


def decode(data: bytes) -> Decoded:
    """Decode a file. Raises UnreadableFile if it is not text."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _marked(data[len(mark) :], encoding)
    if b"\0" in data or _is_noise(data[:_SAMPLE]):
        return _wide(data)
    try:
        return Decoded(data.decode("utf-8"), "utf-8")
    except UnicodeDecodeError:
        return _declared(data) or _nearly_utf8(data) or _guessed(data)


def _marked(data: bytes, encoding: str) -> Decoded:
    text = data.decode(encoding, "replace")
    broken = text.count("\ufffd")
    if broken > max(8, len(text) // 20):
        raise UnreadableFile(f"its first bytes say {encoding.upper()}, but the rest is not valid in that encoding")
    return Decoded(text, encoding, _broken(broken))


def _wide(data: bytes) -> Decoded:
    """Decode text with NULs or many control bytes: UTF-16 or UTF-32, or not text at all."""
    name = wide(data)
    if name:
        text = data.decode(name, "replace")
        if _is_plain(text[:_SAMPLE]):
            return Decoded(text, name, (f"The encoding {name} was guessed.",))
    rest = data.replace(b"\0", b"")
    if (len(data) - len(rest)) * 1000 > len(data) or _is_noise(rest[:_SAMPLE]):
        raise UnreadableFile("it is binary, not text")
    kept = decode(rest)
    return Decoded(kept.text, kept.encoding, (*kept.notes, "NUL characters were left out."))


def _is_plain(text: str) -> bool:
    """True if a decoded text has next to no characters that do not occur in normal text."""
    odd = sum(text.count(sign) for sign in "\0\ufffd\ufffe\uffff\x01\x02\x03\x04\x05\x06")
    odd += len(re.findall("[\ue000-\uf8ff\ud800-\udfff]", text))
    return odd * 50 <= len(text)


def _is_noise(sample: bytes) -> bool:
    kept = len(sample.translate(None, _CONTROLS))
    return (len(sample) - kept) * 50 > len(sample)


def _declared(data: bytes) -> Decoded | None:
    head = data[:4096]
    found = _DECLARED.search(head)
    named = next(filter(None, found.groups()), b"") if found else b""
    for line in head.split(b"\n", 2)[:2]:
        coding = None if named else _CODING.match(line)
        named = coding.group(1) if coding else named
    if not named:
        return None
    try:
        name = codecs.lookup(named.decode("ascii", "replace")).name
        name = _WIDER.get(name, name)
        return Decoded(data.decode(name), _NAMES.get(name, name)) if name in _TEXT_CODECS else None
    except (LookupError, UnicodeDecodeError):
        return None


def _nearly_utf8(data: bytes) -> Decoded | None:
    """Decode UTF-8 with a few broken places: a stray byte, or an end cut off. None if there are too many."""
    text = data.decode("utf-8", "replace")
    broken = text.count("\ufffd")
    whole = len(re.findall("[\x80-\ufffc\U00010000-\U0010ffff]", text))
    return Decoded(text, "utf-8", _broken(broken)) if whole >= 4 * broken else None


def _broken(count: int) -> tuple[str, ...]:
    return (f"{count} broken characters were replaced.",) if count else ()


def _guessed(data: bytes) -> Decoded:
    name = guess(data)
    text = data.decode(name, "replace")
    broken = text.count("\ufffd")
    if broken * 10 > len(text):
        raise UnreadableFile("it is binary, or text in an encoding that is not known", "Save it as UTF-8.")
    shown = _NAMES.get(name, name)
    return Decoded(text, shown, (f"The encoding {shown} was guessed.", *_broken(broken)))
