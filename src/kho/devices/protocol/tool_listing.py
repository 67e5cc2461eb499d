"""Reads and validates the tools that a board lists: names, descriptions and schemas are untrusted, and reach models,
databases and strict clients."""

import unicodedata
from dataclasses import field
from typing import Any, cast

import orjson

from kho.lib.dataclass import dataclass
from kho.lib.jsonrpc import deeper_than

MAX_TOOLS = 256
MAX_PAGES = 64
MAX_CURSOR = 256
MAX_NAME = 128
MAX_DESCRIPTION = 1000
MAX_SCHEMA_BYTES = 16 * 1024
MAX_SCHEMA_DEPTH = 12
MAX_PROPERTIES = 64
MAX_TEXT = 300
"""Characters of each text in a schema."""
VALUES = frozenset(("enum", "const", "default", "examples", "pattern", "required"))
"""Keywords whose texts are right as they are, or not at all."""

ANYTHING: dict[str, Any] = {"type": "object"}
"""Replaces an unusable schema: any object."""


@dataclass(frozen=True, slots=True)
class BoardTool:
    name: str
    description: str
    schema: dict[str, Any]
    user_only: bool
    """The board reserves it for people: models do not see it."""
    flawed: bool = False
    """Its schema was unusable and was replaced by ANYTHING; arguments are sent unchecked."""


def clean(text: str, longest: int = MAX_DESCRIPTION) -> str:
    """Put a text on one line without control and invisible characters, which people do not see but models read."""
    plain = " ".join(unicodedata.normalize("NFC", text[: longest * 5 // 4]).split())
    if not plain.isprintable():
        unseen = {sign for sign in set(plain) if not sign.isprintable()}
        plain = " ".join("".join([sign for sign in plain if sign not in unseen]).split())
    return plain if len(plain) <= longest else plain[: longest - 1].rstrip() + "…"


def read(value: Any) -> BoardTool | None:
    """Read an entry of a page; None if it has no valid name."""
    match value:
        case {"name": str() as name} if _callable(name):
            found = cast(dict[str, Any], value)
        case _:
            return None
    description = found.get("description")
    schema = _schema(found.get("inputSchema"))
    return BoardTool(
        name=name,
        description=clean(description) if isinstance(description, str) else "",
        schema=ANYTHING if schema is None else schema,
        user_only=_for_people(found.get("annotations")),
        flawed=schema is None,
    )


def _callable(name: str) -> bool:
    return 1 <= len(name) <= MAX_NAME and name == name.strip() and name.isprintable()


def _for_people(annotations: Any) -> bool:
    """True if the tool is for the user and not for the assistant."""
    match annotations:
        case {"audience": audience} if isinstance(audience, list):
            named = cast(list[Any], audience)
            return "user" in named and "assistant" not in named
        case {"audience": "user"}:
            return True
        case _:
            return False


def _schema(value: Any) -> dict[str, Any] | None:
    """Return a valid object schema, or None if it is unusable. A missing one means no arguments."""
    if value is None:
        return {"type": "object", "properties": {}}
    if not isinstance(value, dict):
        return None
    schema = cast(dict[str, Any], value)
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if schema.get("type", "object") != "object" or not isinstance(properties, dict) or not isinstance(required, list):
        return None
    named = cast(dict[str, Any], properties)
    sound = (
        len(named) <= MAX_PROPERTIES
        and all(isinstance(one, dict) for one in named.values())
        and all(isinstance(one, str) for one in cast(list[Any], required))
        and not deeper_than(schema, MAX_SCHEMA_DEPTH)
        and len(orjson.dumps(schema)) <= MAX_SCHEMA_BYTES
    )
    if not sound or not _names_are_plain(schema):
        return None
    return {**cast(dict[str, Any], _cleaned(schema)), "type": "object", "properties": _properties(named)}


def _names_are_plain(schema: Any) -> bool:
    """True if all names of properties, at any depth, can be shown to models as they are: the board knows them by no
    other."""
    match schema:
        case dict():
            parts = cast(dict[str, Any], schema)
            named = parts.get("properties")
            plain = not isinstance(named, dict) or all(map(_callable, cast(dict[str, Any], named)))
            return plain and all(map(_names_are_plain, parts.values()))
        case list():
            return all(map(_names_are_plain, cast(list[Any], schema)))
        case _:
            return True


def _cleaned(schema: Any) -> Any:
    """Clean and cut every text, and leave out what points elsewhere (`$ref`, `$schema`, `$id` and the like) and values
    that a model could not send back as they are."""
    if isinstance(schema, list):
        return [_cleaned(one) for one in cast(list[Any], schema)]
    if isinstance(schema, str):
        return clean(schema, MAX_TEXT)
    if not isinstance(schema, dict):
        return schema
    kept: dict[str, Any] = {}
    for name, value in cast(dict[str, Any], schema).items():
        if name.startswith("$") or not _callable(name):
            continue
        if name == "properties" and isinstance(value, dict):
            kept[name] = _properties(cast(dict[str, Any], value))
        elif name not in VALUES:
            kept[name] = _cleaned(value)
        elif isinstance(value, list) and name != "default":
            kept |= {name: values} if (values := [one for one in cast(list[Any], value) if _is_clean(one)]) else {}
        elif _is_clean(value):
            kept[name] = value
    return kept


def _properties(named: dict[str, Any]) -> dict[str, Any]:
    return {name: _cleaned(schema) for name, schema in named.items()}


def _is_clean(value: Any) -> bool:
    match value:
        case str():
            return clean(value, MAX_TEXT) == value
        case dict():
            return all(_callable(name) and _is_clean(one) for name, one in cast(dict[str, Any], value).items())
        case list():
            return all(map(_is_clean, cast(list[Any], value)))
        case _:
            return True


@dataclass(slots=True)
class Listing:
    """The pages of tools/list received so far."""

    with_user_tools: bool
    cursor: str = ""
    """Cursor of the next page."""
    more: bool = True
    tools: dict[str, BoardTool] = field(default_factory=dict[str, BoardTool])
    _seen: set[str] = field(default_factory=set[str])

    def take(self, result: Any) -> list[str]:
        """Add a page and return what was odd about it. Stops following a board whose cursors repeat."""
        page = cast(dict[str, Any], result) if isinstance(result, dict) else {}
        entries, cursor = page.get("tools"), page.get("nextCursor")
        odd = self._add(cast(list[Any], entries)) if isinstance(entries, list) else ["page without tools"]
        self.more = isinstance(cursor, str) and cursor != ""
        if isinstance(cursor, str) and self.more:
            self._seen.add(self.cursor)
            full = len(self._seen) >= MAX_PAGES or len(self.tools) >= MAX_TOOLS
            if full or cursor in self._seen or len(cursor) > MAX_CURSOR:
                self.more = False
                odd.append("endless pages")
            self.cursor = cursor
        return odd

    def _add(self, entries: list[Any]) -> list[str]:
        odd: list[str] = []
        for entry in entries[: 2 * MAX_TOOLS]:
            if len(self.tools) >= MAX_TOOLS:
                return [*odd, "too many tools"]
            tool = read(entry)
            if tool is None:
                odd.append("tool without a name")
            elif self.tools.setdefault(tool.name, tool) is not tool:
                odd.append("tool listed twice")
            elif tool.flawed:
                odd.append("broken schema")
        return odd
