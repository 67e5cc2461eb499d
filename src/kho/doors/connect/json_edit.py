"""Edits of JSON and JSONC text that keep every other byte: comments, trailing commas, indentation, line ends.

A new member goes before the first one of its object, so that what is cut to undo it is exactly what was inserted. No
library does this: those that keep comments reformat the neighbours, or do not insert at all.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

from kho.doors.connect.errors import CannotConnect

BLANK = re.compile(r"(?:[ \t\r\n]+|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
SCALAR = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null")
REST_OF_LINE = re.compile(r"[ \t]*(?://[^\r\n]*|/\*[^\r\n]*?\*/[ \t]*)?(?=\r?\n)")
LINE_START = re.compile(r"(?:\r?\n)?[ \t]*\Z")
INDENT = re.compile(r'^([ \t]+)["{\[]', re.MULTILINE)
MAX_DEPTH = 200

Path = Sequence[str | int]


class Member(NamedTuple):
    """A member of an object, or an element of an array, which has no key."""

    key: str | None
    start: int
    node: "Node"
    comma: int | None
    """Position of the comma behind it."""


class Node(NamedTuple):
    start: int
    end: int
    value: Any
    members: list[Member]


class Edit(NamedTuple):
    text: str
    fragment: str
    """What was inserted; empty if a value was replaced."""


class InvalidJson(CannotConnect):
    code = "INVALID_JSON"


def parse(text: str) -> Node:
    """The tree of values with their positions."""
    node = _value(text, _skip(text, 0), 0)
    rest = _skip(text, node.end)
    if rest != len(text):
        raise _invalid(text, rest)
    return node


def find(text: str, path: Path) -> Any:
    """The value at `path`; None if there is none."""
    node: Node | None = parse(text) if text.strip() else None
    for step in path:
        node = _below(node, step) if node else None
    return node.value if node else None


def put(text: str, path: Sequence[str], value: Any) -> Edit:
    """Sets the member at `path`; objects that are missing on the way are made."""
    if not text.strip():
        whole = render(_nested(path, value), "  ", "\n", "") + "\n"
        return Edit(whole, whole)
    node = parse(text)
    for depth, key in enumerate(path):
        if not isinstance(node.value, dict):
            raise CannotConnect(f"{'.'.join(path[:depth]) or 'The whole file'} is not an object.")
        below = _below(node, key)
        if below is None:
            return _insert(text, node, key, _nested(path[depth + 1 :], value))
        node = below
    if node.value == value:
        return Edit(text, "")
    rendered = render(value, *_style(text, node), _indent_at(text, node.start))
    return Edit(text[: node.start] + rendered + text[node.end :], "")


def add(text: str, path: Sequence[str], element: Any) -> Edit:
    """Adds an element to the array at `path`, before the others; the array is made if it is missing."""
    found = find(text, path)
    if found is None:
        return put(text, path, [element])
    if not isinstance(found, list):
        raise CannotConnect(f"{'.'.join(path)} is not a list.")
    node = parse(text)
    for key in path:
        below = _below(node, key)
        assert below is not None
        node = below
    return _insert(text, node, None, element)


def remove(text: str, path: Path, depth: int = 1_000) -> str:
    """Cuts the member at `path`, and objects around it from `depth` on that are empty then."""
    node = parse(text)
    for step in path[:-1]:
        below = _below(node, step)
        if below is None:
            return text
        node = below
    member = _member(node, path[-1])
    if member is None:
        return text
    text = _cut(text, node, member)
    if len(path) > max(depth, 1) and find(text, path[:-1]) in ({}, []):
        return remove(text, path[:-1], depth)
    return text


def trailing_commas(text: str) -> int:
    """How many there are: cutting something must not leave one more, which strict readers refuse."""
    return sum(node.members[-1].comma is not None for node in _nodes(parse(text)) if node.members)


def render(value: Any, unit: str, newline: str, indent: str) -> str:
    """JSON over several lines, lists of plain values on one. Without a `newline` all of it is on one line; without a
    `unit` of indentation there are no blanks in it either."""
    if not newline:
        return json.dumps(value, ensure_ascii=False, separators=None if unit else (",", ":"))
    below = indent + unit
    if isinstance(value, dict) and value:
        members = cast(dict[str, Any], value).items()
        items = [f"{json.dumps(key, ensure_ascii=False)}: {render(one, unit, newline, below)}" for key, one in members]
    elif isinstance(value, list) and any(isinstance(one, dict | list) for one in cast(list[Any], value)):
        items = [render(one, unit, newline, below) for one in cast(list[Any], value)]
    else:
        return json.dumps(value, ensure_ascii=False)
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return opening + ",".join(f"{newline}{below}{item}" for item in items) + newline + indent + closing


def _insert(text: str, node: Node, key: str | None, value: Any) -> Edit:
    unit, newline = _style(text, node)
    inside, indent = node.start + 1, _indent_at(text, node.start)
    if node.members:
        below = _indent_at(text, node.members[0].start)
        at, before, after = _brace_line_end(text, inside), newline + below, ","
    elif "\n" in text[inside : node.end]:
        below = indent + unit
        at, before, after = _brace_line_end(text, inside), newline + below, ""
    else:
        below = indent + unit
        at, before, after = inside, newline + below, newline + indent
    if not newline:
        gap = len(text[inside:]) - len(text[inside:].lstrip(" \t"))
        at, below, before, after = inside + gap, "", "", ("," + unit[:1]) if node.members else ""
    label = "" if key is None else json.dumps(key, ensure_ascii=False) + (": " if unit else ":")
    fragment = before + label + render(value, unit, newline, below) + after
    return Edit(text[:at] + fragment + text[at:], fragment)


def _cut(text: str, container: Node, member: Member) -> str:
    """Without the member and the line end before it, unless that line end is needed: it may end a comment."""
    place = container.members.index(member)
    previous = container.members[place - 1] if place else None
    begins = container.start + 1 if previous is None else (previous.comma or previous.node.end) + 1
    same_line = "\n" not in text[begins : member.start]
    start, end = member.start, member.node.end if member.comma is None else member.comma + 1
    if same_line and previous is None:
        if member.comma is not None and text[end : end + 1] == " " and _spaced(text):
            end += 1
    elif found := LINE_START.search(text[begins:start]):
        start = begins + found.start()
    needless = previous.comma if previous is not None and member.comma is None else None
    for first in (start, member.start):
        head = text[:first] if needless is None else text[:needless] + text[needless + 1 : first]
        if _is_valid(head + text[end:]):
            return head + text[end:]
    raise CannotConnect("it has this entry in a form that cannot be edited safely: change it by hand.")


def _is_valid(text: str) -> bool:
    try:
        parse(text)
    except InvalidJson:
        return False
    return True


def _style(text: str, node: Node) -> tuple[str, str]:
    """The unit of indentation and the line end for what goes into `node` or in its place."""
    whole = text.strip()
    first = node.members[0].start if node.members else None
    one_line = "\n" not in whole and bool(whole[1:-1].strip())
    if one_line or (first is not None and "\n" not in text[node.start : first]):
        return " " if _spaced(text) else "", ""
    found = INDENT.search(text)
    return found[1] if found else "  ", "\r\n" if "\r\n" in text else "\n"


def _spaced(text: str) -> bool:
    """True unless the file is written without blanks: the first colon tells."""
    root = parse(text)
    if not root.members or root.members[0].key is None:
        return True
    first = root.members[0]
    return text[first.node.start - 1] != ":"


def _brace_line_end(text: str, inside: int) -> int:
    """Behind a comment on the line of the opening brace, which stays there; else right behind the brace."""
    found = REST_OF_LINE.match(text, inside)
    return found.end() if found else inside


def _indent_at(text: str, position: int) -> str:
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _nested(path: Sequence[str], value: Any) -> Any:
    for key in reversed(path):
        value = {key: value}
    return value


def _member(node: Node, step: str | int) -> Member | None:
    if isinstance(step, int):
        return node.members[step] if isinstance(node.value, list) and step < len(node.members) else None
    # Of equal keys the last one counts, for every reader of JSON.
    return next((one for one in reversed(node.members) if one.key == step), None)


def _below(node: Node, step: str | int) -> Node | None:
    member = _member(node, step)
    return member.node if member else None


def _nodes(node: Node) -> Iterator[Node]:
    yield node
    for member in node.members:
        yield from _nodes(member.node)


def _skip(text: str, at: int) -> int:
    found = BLANK.match(text, at)
    assert found is not None  # it matches nothing, too
    return found.end()


def _value(text: str, at: int, depth: int) -> Node:
    if depth > MAX_DEPTH:
        raise _invalid(text, at)
    if text[at : at + 1] in ("{", "["):
        return _container(text, at, depth)
    found = STRING.match(text, at) or SCALAR.match(text, at)
    if not found:
        raise _invalid(text, at)
    try:
        return Node(at, found.end(), json.loads(found[0]), [])
    except ValueError:
        raise _invalid(text, at) from None


def _container(text: str, start: int, depth: int) -> Node:
    is_object = text[start] == "{"
    closing, members = "}" if is_object else "]", list[Member]()
    at = _skip(text, start + 1)
    while text[at : at + 1] != closing:
        if members and members[-1].comma is None:
            raise _invalid(text, at)
        begins, key = at, None
        if is_object:
            found = STRING.match(text, at)
            colon = _skip(text, found.end()) if found else at
            if not found or text[colon : colon + 1] != ":":
                raise _invalid(text, colon)
            key, at = _key(text, found), _skip(text, colon + 1)
        node = _value(text, at, depth + 1)
        at = _skip(text, node.end)
        comma = at if text[at : at + 1] == "," else None
        members.append(Member(key, begins, node, comma))
        if comma is not None:
            at = _skip(text, at + 1)
    value: Any = {one.key: one.node.value for one in members} if is_object else [one.node.value for one in members]
    return Node(start, at + 1, value, members)


def _key(text: str, found: re.Match[str]) -> str:
    try:
        return json.loads(found[0])
    except ValueError:
        raise _invalid(text, found.start()) from None


def _invalid(text: str, at: int) -> InvalidJson:
    line = text.count("\n", 0, at) + 1
    column = at - text.rfind("\n", 0, at)
    return InvalidJson(f"it is not valid JSON: line {line}, column {column}.")
