"""Makes control characters visible: stored text was written by others, and a terminal obeys what stands in it. ESC
sequences clear the screen, set the title and fill the clipboard; CR overwrites what stands before it; bidirectional
controls show a line in another order than it is stored in."""

from kho.lib.lazy_regex import pattern

_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_UNSAFE = pattern(rf"[\x00-\x08\x0b-\x1f\x7f-\x9f{_BIDI}]")
_NOT_OF_ONE_LINE = pattern(rf"[\x00-\x1f\x7f-\x9f\u2028\u2029{_BIDI}]")
_NOT_ESCAPED = pattern(rf"[\x7f-\x9f{_BIDI}]")
_PICTURES = 0x2400
"""Unicode's pictures of control characters: U+241B is that of ESC."""


def visible(text: str) -> str:
    """Show every control character but tab and line feed as a sign. Lines that end in CR LF are plain lines."""
    return _UNSAFE.sub(lambda found: _sign(found[0]), text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """Show every control character as an escape, line breaks too, so that nobody can begin a line of their own."""
    return _NOT_OF_ONE_LINE.sub(lambda found: _escape(found[0]), text)


def escaped(json: str) -> str:
    """Escape the control characters that JSON allows in a text as they are. It means the same."""
    return _NOT_ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", json)


def _sign(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(_PICTURES + code)
    return "\u2421" if code == 0x7F else f"<U+{code:04X}>"


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
