"""Insert, then cut: not a byte of anybody else's changes."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kho.doors.connect import json_edit
from kho.doors.connect.errors import CannotConnect
from kho.doors.connect.json_edit import InvalidJson

PATH = ("mcpServers", "kho")
ENTRY = {"command": "/opt/kho", "args": ["stdio"], "env": {"KHO_HOME": "/data"}}

blanks = st.sampled_from(
    ["", " ", "  ", "\t", "\n", "\n  ", "\r\n", "\r\n\t", " // c\n", '// {"kho"\n', "/* , */", "\n/* a\n b */ "]
)
names = st.sampled_from(["a", "mcpServers", "kho", "x y", "é", "\\u0041", '\\"', "//", "/*"])
plain = st.sampled_from(
    ["1", "-0.5e3", "true", "null", '""', '"kho\\": "', '"// no comment"', '"/* none */"', "[]", "{}"]
)


@st.composite
def containers(draw: st.DrawFn, depth: int) -> str:
    is_object = draw(st.booleans())
    items: list[str] = []
    for _ in range(draw(st.integers(0, 3))):
        value = draw(containers(depth - 1)) if depth and draw(st.booleans()) else draw(plain)
        key = f'"{draw(names)}"{draw(blanks)}:{draw(blanks)}' if is_object else ""
        items.append(draw(blanks) + key + value + draw(blanks))
    end = "," + draw(blanks) if items and draw(st.booleans()) else "" if items else draw(blanks)
    inside = ",".join(items) + end
    return f"{{{inside}}}" if is_object else f"[{inside}]"


@st.composite
def texts(draw: st.DrawFn) -> str:
    """JSONC whose whole is an object, with all the freedom that comments, commas and line ends give."""
    inside: list[str] = []
    for _ in range(draw(st.integers(0, 4))):
        inside.append(f'{draw(blanks)}"{draw(names)}"{draw(blanks)}:{draw(blanks)}{draw(containers(2))}{draw(blanks)}')
    end = "," + draw(blanks) if inside and draw(st.booleans()) else "" if inside else draw(blanks)
    return f"{draw(blanks)}{{{','.join(inside)}{end}}}{draw(blanks)}"


def without_comments(text: str) -> str:
    """The same as strict JSON, by another way than the editor's: strings are matched first, so that they stay."""
    token = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\r\n]*|/\*.*?\*/', re.DOTALL)
    text = token.sub(lambda found: found[1] or " ", text)
    comma = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])')
    return comma.sub(lambda found: found[1] or " ", text)


@given(texts())
def test_positions_and_values_are_those_of_json(text: str) -> None:
    root = json_edit.parse(text)
    assert root.value == json.loads(without_comments(text))
    for member in root.members:
        assert json.loads(without_comments(text[member.node.start : member.node.end])) == member.node.value


@given(texts())
def test_what_is_inserted_can_be_cut_to_the_byte(text: str) -> None:
    before = json_edit.parse(text).value
    if not isinstance(before.get("mcpServers", {}), dict):
        with pytest.raises(CannotConnect):
            json_edit.put(text, PATH, ENTRY)
        return
    edited, fragment = json_edit.put(text, PATH, ENTRY)
    after = json_edit.parse(edited).value
    assert after["mcpServers"]["kho"] == ENTRY
    expected = {**before, "mcpServers": {**before.get("mcpServers", {}), "kho": ENTRY}}
    assert after == expected
    commas = json_edit.trailing_commas(text) - json_edit.trailing_commas(edited)
    assert commas == 0 or (commas > 0 and "kho" in before.get("mcpServers", {}))  # those of an entry that was replaced
    assert json_edit.put(edited, PATH, ENTRY).text == edited
    if fragment:
        at = edited.index(fragment)
        assert edited[:at] + edited[at + len(fragment) :] == text or edited.replace(fragment, "", 1) == text


@given(texts(), st.booleans())
def test_cutting_by_structure_leaves_what_others_have(text: str, first: bool) -> None:
    before = json_edit.parse(text).value
    if not isinstance(before.get("mcpServers", {}), dict) or "kho" in before.get("mcpServers", {}):
        return
    had_parent = "mcpServers" in before
    cut = json_edit.remove(json_edit.put(text, PATH, ENTRY).text, PATH, 2 if had_parent else 1)
    assert json_edit.parse(cut).value == before
    assert json_edit.trailing_commas(cut) == json_edit.trailing_commas(text)
    container = before.get("mcpServers") if had_parent else before
    if container:  # in an empty one, the blanks that were in it are not known any more
        assert cut == text


@given(texts(), st.integers(0, 5))
def test_any_member_can_be_cut(text: str, which: int) -> None:
    root = json_edit.parse(text)
    keys = [member.key for member in root.members]
    if len({*keys}) < len(keys) or not keys:
        return
    key = keys[which % len(keys)]
    assert key is not None
    cut = json_edit.remove(text, (key,))
    assert json_edit.parse(cut).value == {name: value for name, value in root.value.items() if name != key}
    assert json_edit.trailing_commas(cut) <= json_edit.trailing_commas(text)


@given(texts())
def test_an_element_is_added_before_the_others(text: str) -> None:
    before = json_edit.parse(text).value
    there = before.get("a")
    if there is not None and not isinstance(there, list):
        return
    edited, fragment = json_edit.add(text, ("a",), {"hooks": [1]})
    assert json_edit.find(edited, ("a",)) == [{"hooks": [1]}, *(there or [])]
    assert fragment in edited
    cut = json_edit.remove(edited, ("a", 0), 2 if there is not None else 1)
    assert json_edit.parse(cut).value == before
    if there:
        assert cut == text


@pytest.mark.parametrize(
    ("text", "edited"),
    [
        ("{}", '{\n  "mcpServers": {\n    "kho": 1\n  }\n}'),
        ("", '{\n  "mcpServers": {\n    "kho": 1\n  }\n}\n'),
        ("  \n", '{\n  "mcpServers": {\n    "kho": 1\n  }\n}\n'),
        ('{"a":1}', '{"mcpServers":{"kho":1},"a":1}'),
        ('{ "a": 1 }', '{ "mcpServers": {"kho": 1}, "a": 1 }'),
        ('{\n\t"a": 1\n}\n', '{\n\t"mcpServers": {\n\t\t"kho": 1\n\t},\n\t"a": 1\n}\n'),
        ('{\r\n    "a": 1\r\n}', '{\r\n    "mcpServers": {\r\n        "kho": 1\r\n    },\r\n    "a": 1\r\n}'),
        ('{ // mine\n  "mcpServers": {}\n}', '{ // mine\n  "mcpServers": {\n    "kho": 1\n  }\n}'),
        (
            '{\n  "mcpServers": { // all\n    // first\n    "x": {},\n  },\n}',
            '{\n  "mcpServers": { // all\n    "kho": 1,\n    // first\n    "x": {},\n  },\n}',
        ),
        ('{"mcpServers": {"kho": 0, "b": 2}}', '{"mcpServers": {"kho": 1, "b": 2}}'),
    ],
)  # fmt: skip
def test_it_is_written_as_the_file_is(text: str, edited: str) -> None:
    assert json_edit.put(text, PATH, 1).text == edited


@pytest.mark.parametrize(
    "text",
    ['{"a": }', '{"a" 1}', "{'a': 1}", "{a: 1}", '{"a": 1', '{"a": 1} x', '{"a": 01}', '{"a": "\n"}', "{,}", "[1,,2]", "/* ",
     '{"a": "\\x"}', "nul", "[" * 300 + "]" * 300, "{\u00a0}"],
)  # fmt: skip
def test_what_is_not_json_is_named_by_its_place(text: str) -> None:
    with pytest.raises(InvalidJson, match=r"line \d+, column \d+"):
        json_edit.put(text, PATH, ENTRY)


@pytest.mark.parametrize("text", ["[]", "1", '{"mcpServers": []}', '{"mcpServers": null}'])
def test_only_objects_take_members(text: str) -> None:
    with pytest.raises(CannotConnect, match="is not an object"):
        json_edit.put(text, PATH, ENTRY)
