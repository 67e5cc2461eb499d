"""A section of a Markdown file between two marks, which can be found, replaced and cut again."""

import re

from kho.doors.connect.json_edit import Edit

BEGIN = "<!-- kho: begin (made by 'kho connect --rules', removed by 'kho disconnect') -->"
END = "<!-- kho: end -->"
SECTION = re.compile(r"(?:\r?\n)?<!-- kho: begin[^\n]*\n.*?<!-- kho: end -->(?:\r?\n)?", re.DOTALL)


def find(text: str) -> str | None:
    found = SECTION.search(text)
    return found[0] if found else None


def put(text: str, body: str) -> Edit:
    newline = "\r\n" if "\r\n" in text else "\n"
    section = newline.join([BEGIN, *body.strip().splitlines(), END]) + newline
    if there := SECTION.search(text):
        begins = re.match(r"\r?\n", there[0])
        return Edit(text[: there.start()] + (begins[0] if begins else "") + section + text[there.end() :], "")
    apart = "" if not text else newline if text.endswith("\n") else newline * 2
    return Edit(text + apart + section, apart + section)


def remove(text: str) -> str:
    return SECTION.sub("", text, count=1)
