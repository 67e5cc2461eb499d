"""Blocks of program code in any language: a definition with its comments and decorators is one block."""

import re
from collections.abc import Iterator

from kho.lib.chunking.markdown_blocks import Block, SourceLine, lines

_OPENS = re.compile(
    r"(?:(?:export|default|public|private|protected|internal|static|final|abstract|async|pub(?:\([a-z]+\))?|unsafe|"
    r"extern|inline|virtual|const|open|override|sealed|partial)\s+){0,6}"
    r"(?:def|class|func|function|fn|struct|enum|trait|impl|interface|type|namespace|module|mod|object|record|union|"
    r"template|macro_rules!|protocol|extension|begin)\b"
)
# A sentence of a comment may begin with "class" or "type": after the name of a definition comes a sign, or nothing.
_NAMED = re.compile(
    _OPENS.pattern + r"\s+(?:\([^()]{0,200}\)\s*)?((?!\d)\w+)"
    r"\s*(?:[(\[{<:=;!]|$|(?:extends|implements|struct|interface|for|where)\b)"
)
_NAME_PART = re.compile(r"[A-Z]+s?(?![a-z])|[A-Z]?[^\W\dA-Z_]+|\d+")
_HEAD = re.compile(r"(?:@|#\[|//|/\*|\*|--|#(?!include|define|if|endif|pragma|else))")
_CLOSES = re.compile(r"[)\]}]|(?:else|elif|except|finally|catch|end)\b")

_DEFINES = re.compile(
    r"^\s*(?:@\w|(?:async )?def \w+\(|class \w+[:({]|import [\w.{*]+|from \S+ import |func[ (]|fn \w+|pub |use \w+::"
    r"|#\s*(?:include|define|undef|if|ifdef|ifndef|endif)\b|package \w+;?$|(?:const|let|var) \w+ ?[=:]"
    r"|(?:export |async )?function\b|(?:public|private) |impl |struct \w)"
)
_SIGNS = re.compile(
    r"[;{}]\s*$|^\s*(?://|/\*|\}|\)|\])|^ \*(?: |/|$)|\):?\s*$|[({\[,]\s*$"
    r"|^\s*\w[\w.\[\]]* [-+*|]?= |^\s+(?:return|yield|if|for)\b"
)

_LONGEST = 500
"""Characters of a line in which a definition is looked for: lines of machine-made code have no end."""


def looks_like_code(text: str) -> bool:
    rows = [row[:300] for row in text[:20_000].splitlines() if row.strip()][:300]
    defining = sum(bool(_DEFINES.search(row)) for row in rows)
    signs = defining + sum(bool(_SIGNS.search(row)) for row in rows)
    return len(rows) > 1 and defining > 0 and signs >= 0.35 * len(rows)


def code(text: str, start: int = 0, end: int | None = None) -> Iterator[Block]:
    """Yield the parts at the outermost level of indentation: a part begins at a definition or after a blank line;
    comments and decorators belong to what follows them."""
    rows = lines(text, start, len(text) if end is None else end)
    filled = [row for row in rows if not row.blank]
    if not filled:
        return
    outer = min(_indent(row.text) for row in filled)
    begins: list[int] = []
    pending = -1
    after_blank = True
    for at, row in enumerate(rows):
        if row.blank:
            after_blank = True
            continue
        text_of_row = row.text.strip()
        if _indent(row.text) == outer and not _CLOSES.match(text_of_row):
            if _HEAD.match(text_of_row):
                pending = at if pending < 0 else pending
            elif _OPENS.match(text_of_row) or after_blank or pending >= 0:
                begins.append(pending if pending >= 0 else at)
                pending = -1
        after_blank = False
    if not begins or begins[0] > 0:
        begins.insert(0, 0)
    for one, other in zip(begins, [*begins[1:], len(rows)], strict=True):
        part = _trimmed(rows[one:other])
        if part:
            yield Block("code", part[0].start, part[-1].end, title=_signature(part))


def defined(text: str) -> str:
    """Return the names that a text defines, read as words: `parse_args` and `parseArgs` are "parse args"."""
    names = map(in_words, names_defined(text))
    return ", ".join(dict.fromkeys(name for name in names if name))


def names_defined(text: str) -> list[str]:
    """Return the names that a text defines, as they are written."""
    found = (_NAMED.match(row.strip()[:_LONGEST]) for row in text.splitlines())
    return [one[1] for one in found if one]


def in_words(name: str) -> str:
    """Return a name, or some words, as the words that it is made of."""
    parts: list[str] = _NAME_PART.findall(name)
    return " ".join(parts).lower()


def without_parameters(signature: str) -> str:
    """Return a signature up to the name: `class Shop(Base)` as `class Shop`."""
    found = _NAMED.match(signature)
    return signature[: found.end(1)] if found else signature


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


def _trimmed(rows: list[SourceLine]) -> list[SourceLine]:
    first, last = 0, len(rows)
    while first < last and rows[first].blank:
        first += 1
    while last > first and rows[last - 1].blank:
        last -= 1
    return rows[first:last]


def _signature(rows: list[SourceLine]) -> str:
    """Return the line that names the definition."""
    for row in rows[:50]:
        text = row.text.strip()
        if _OPENS.match(text):
            return text.rstrip(" :{").strip()[:120]
    return ""
