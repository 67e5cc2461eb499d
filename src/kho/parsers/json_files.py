"""Makes JSON readable: one value per line, and letters instead of their escapes.

Works on tokens without parsing: nothing is lost or reordered, broken JSON is shown too, and nesting can be of any
depth.
"""

import json
import re
from collections.abc import Iterator

_ESCAPED = re.compile(r"\\u[0-9a-fA-F]{4}")
_STRING = re.compile(r'"(?:[^"\\\n]++|\\.)*+"?')
"""A string that does not end goes on to the end of its line: looked for from every quotation mark, its end would take
quadratic time."""
_TOKEN = re.compile(rf'{_STRING.pattern}|[\[\]{{}},:]|[^\s"\[\]{{}},:]+')
_LONG_LINE = 400
"""Average line length in characters above which the JSON is reformatted."""
_MAX_INDENT = 4
"""Maximum indentation levels: a file of nothing but brackets would grow by the indentation of each."""


def readable_json(text: str) -> str:
    if _ESCAPED.search(text):
        text = _STRING.sub(lambda found: _unescaped(found.group()), text)
    head = text[:200_000]
    return "".join(_pretty(text)) if len(head) > _LONG_LINE * (head.count("\n") + 1) else text


def readable_lines(text: str) -> str:
    """Unescape JSON Lines: each line stays a line."""
    return _STRING.sub(lambda found: _unescaped(found.group()), text) if _ESCAPED.search(text) else text


def _unescaped(string: str) -> str:
    if "\\u" not in string:
        return string
    try:
        return json.dumps(json.loads(string), ensure_ascii=False)
    except ValueError:
        return string


def _pretty(text: str) -> Iterator[str]:
    depth = 0
    last = ""
    for found in _TOKEN.finditer(text):
        token = found.group()
        if token in "]}":
            depth = max(0, depth - 1)
        if (last and last in "[{" and token not in "]}") or last == "," or (token in "]}" and last not in "[{"):
            yield "\n" + "  " * min(depth, _MAX_INDENT)
        yield token + (" " if token == ":" else "")
        if token in "[{":
            depth += 1
        last = token
    yield "\n"
