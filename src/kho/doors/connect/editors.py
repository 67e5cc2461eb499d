"""The three kinds of things that are put into other programs' files, and taken out again: the entry of the server, a
section of rules, hooks."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, cast

from kho.doors.connect import hooks, json_edit, marked_section, rules, toml_edit
from kho.doors.connect.errors import CannotConnect
from kho.lib.dataclass import dataclass

Kind = Literal["server", "rules", "hooks"]


class Editor(Protocol):
    def has(self, text: str) -> bool:
        """True if ours is in the text."""
        ...

    def put(self, text: str) -> tuple[str, list[str]]:
        """The text with ours in it, and the fragments that were inserted; none if something was replaced."""
        ...

    def remove(self, text: str, before: str) -> str:
        """The text without ours. What `before` had in its place comes back."""
        ...

    def is_sound(self, text: str, edited: str) -> bool:
        """True if cutting the fragments left a file that the client reads as before."""
        ...

    def is_empty(self, text: str) -> bool:
        """True if nobody has anything in the text: a file that was made for ours can go."""
        ...


@dataclass(frozen=True, slots=True)
class JsonEntry:
    """The entry of the server in a JSON file. `entry` makes it from the one that is there, if one is."""

    path: tuple[str, str]
    entry: Callable[[Mapping[str, Any]], dict[str, Any]] = dict

    def value(self, text: str) -> Mapping[str, Any] | None:
        found = json_edit.find(text, self.path)
        return None if found is None else _mapping(found)

    def has(self, text: str) -> bool:
        return json_edit.find(text, self.path) is not None

    def put(self, text: str) -> tuple[str, list[str]]:
        edit = json_edit.put(text, self.path, self.entry(self.value(text) or {}))
        return edit.text, [edit.fragment] if edit.fragment else []

    def remove(self, text: str, before: str) -> str:
        if (old := json_edit.find(before, self.path)) is not None:
            return json_edit.put(text, self.path, old).text
        return json_edit.remove(text, self.path, 2 if json_edit.find(before, self.path[:1]) is not None else 1)

    def is_sound(self, text: str, edited: str) -> bool:
        return _is_sound_json(text, edited)

    def is_empty(self, text: str) -> bool:
        return not text.strip() or json_edit.parse(text).value == {}


@dataclass(frozen=True, slots=True)
class TomlEntry:
    path: tuple[str, str]
    entry: Callable[[Mapping[str, Any]], dict[str, Any]] = dict

    def value(self, text: str) -> Mapping[str, Any] | None:
        found = toml_edit.find(text, self.path)
        return None if found is None else _mapping(found)

    def has(self, text: str) -> bool:
        return toml_edit.find(text, self.path) is not None

    def put(self, text: str) -> tuple[str, list[str]]:
        edit = toml_edit.put(text, self.path, self.entry(self.value(text) or {}))
        return edit.text, [edit.fragment] if edit.fragment else []

    def remove(self, text: str, before: str) -> str:
        if (old := toml_edit.find(before, self.path)) is not None:
            return toml_edit.put(text, self.path, _mapping(old)).text
        return toml_edit.remove(text, self.path)

    def is_sound(self, text: str, edited: str) -> bool:
        return toml_edit.is_valid(edited)

    def is_empty(self, text: str) -> bool:
        return not text.strip()


@dataclass(frozen=True, slots=True)
class Rules:
    head: str = ""

    def has(self, text: str) -> bool:
        return marked_section.find(text) is not None

    def put(self, text: str) -> tuple[str, list[str]]:
        edit = marked_section.put(text or self.head, rules.BODY)
        return edit.text, [edit.fragment] if edit.fragment else []

    def remove(self, text: str, before: str) -> str:
        return marked_section.remove(text)

    def is_sound(self, text: str, edited: str) -> bool:
        return True

    def is_empty(self, text: str) -> bool:
        return text.strip() in ("", self.head.strip())


@dataclass(frozen=True, slots=True)
class Hooks:
    wanted: Mapping[str, dict[str, Any]]

    def has(self, text: str) -> bool:
        return any(self._places(text, event) for event in hooks.EVENTS)

    def put(self, text: str) -> tuple[str, list[str]]:
        fragments: list[str] = []
        for event, element in reversed([*self.wanted.items()]):  # each goes before the others
            if json_edit.find(text, ("hooks", event)) == [element]:
                continue
            there = self._places(text, event)
            if any(cast(list[Any], json_edit.find(text, ("hooks", event)))[place] == element for place in there):
                continue
            for place in reversed(there):
                text = json_edit.remove(text, ("hooks", event, place))
            edit = json_edit.add(text, ("hooks", event), element)
            text = edit.text
            fragments.append(edit.fragment)
        return text, [] if "" in fragments else fragments

    def remove(self, text: str, before: str) -> str:
        for event in hooks.EVENTS:
            were = [path for path in (("hooks",), ("hooks", event)) if json_edit.find(before, path) is not None]
            depth = len(were) + 1
            for place in reversed(self._places(text, event)):
                text = json_edit.remove(text, ("hooks", event, place), depth)
        return text

    def is_sound(self, text: str, edited: str) -> bool:
        return _is_sound_json(text, edited)

    def is_empty(self, text: str) -> bool:
        return not text.strip() or json_edit.parse(text).value == {}

    def _places(self, text: str, event: str) -> list[int]:
        found = json_edit.find(text, ("hooks", event))
        elements: Sequence[Any] = cast(list[Any], found) if isinstance(found, list) else ()
        return [place for place, element in enumerate(elements) if hooks.is_ours(event, element)]


def _mapping(value: Any) -> Mapping[str, Any]:
    if value is not None and not isinstance(value, dict):
        raise CannotConnect("its entry for Kho is not an object: remove it first.")
    return cast(dict[str, Any], value or {})


def _is_sound_json(text: str, edited: str) -> bool:
    try:
        return json_edit.trailing_commas(edited) <= json_edit.trailing_commas(text)
    except json_edit.InvalidJson:
        return False
