"""Hints: sentences that hold operations and arguments as data, so that each door can write them in its own syntax.

    Hint("Bring it back with ", Op("restore_document", document_id=id), " first.")

is `restore_document(document_id="a")` over MCP, the method at /jsonrpc, the action at /actions, and
`kho docs restore a` on the command line. `tests/test_hints.py` reads every `Op` and `Arg` in the source and checks that
the operation exists and takes these arguments, and that no other text names an operation.
"""

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Annotated, Any

import orjson
from pydantic import GetCoreSchemaHandler
from pydantic_core import core_schema

from kho.kernel.operation import Operation
from kho.lib.dataclass import dataclass
from kho.lib.markdown import line

OPEN = "…"
"""Placeholder for a value that the reader fills in."""


class Op:
    """A call that the reader can make: an operation, by its tool name, and arguments."""

    __slots__ = ("arguments", "name")

    def __init__(self, name: str, /, **arguments: Any) -> None:
        self.name = name
        self.arguments = arguments

    def called(self, name: str) -> str:
        """Return the call with a door's name for the operation: `name(id="a", force=true)`."""
        given = ", ".join(f"{key}={orjson.dumps(value).decode()}" for key, value in self.arguments.items())
        return f"{name}({given})" if given else name

    def __str__(self) -> str:
        return self.called(self.name)


@dataclass(frozen=True, slots=True)
class Arg:
    """An argument of the operation that was just called, in the form in which it is passed: `overwrite=true`."""

    name: str
    value: Any

    def __str__(self) -> str:
        value = self.value if isinstance(self.value, str) else orjson.dumps(self.value).decode()
        return f"`{self.name}={value}`"


Reference = Op | Arg
Spell = Callable[[Reference], str]
"""Renders a reference in a door's syntax."""


class Hint(str):
    """A sentence with references. Its string value is what MCP clients read; other doors render the references
    again."""

    parts: tuple[str | Reference, ...]
    __slots__ = ("parts",)

    def __new__(cls, *parts: str | Reference) -> "Hint":
        flat = [one for part in parts for one in (part.parts if isinstance(part, Hint) else (part,))]
        self = super().__new__(cls, "".join(map(str, flat)))
        self.parts = tuple(flat)
        return self

    @classmethod
    def of(cls, sentences: Iterable[str]) -> "Hint":
        """Join several sentences, some of which may be hints."""
        first, *more = sentences
        return cls(first, *(part for one in more for part in (" ", one)))

    def spelt(self, spell: Spell, text: Callable[[str], str] = str) -> str:
        """Render the references with `spell`, and the text between them with `text`."""
        return "".join(text(part) if isinstance(part, str) else spell(part) for part in self.parts)


def spelt(sentence: str, spell: Spell) -> str:
    """Render a sentence that may be a hint."""
    return sentence.spelt(spell) if isinstance(sentence, Hint) else sentence


class _KeepsHints:
    """Keeps a `Hint` during validation, for the presenter; pydantic would convert it to a plain string."""

    @staticmethod
    def __get_pydantic_core_schema__(source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_wrap_validator_function(
            lambda value, read: value if isinstance(value, Hint) else read(value), handler(source)
        )


Sentence = Annotated[str, _KeepsHints]
"""Text in a result that may be a hint."""

_WIRES: dict[str, Callable[[Operation], str | None]] = {
    "jsonrpc": lambda operation: operation.rpc,
    "actions": lambda operation: operation.action,
}


def at_wire(door: str, find: Callable[[str], Operation | None]) -> Spell | None:
    """Return how a door renders references; None for doors that use the tool names."""
    wire = _WIRES.get(door)
    if wire is None:
        return None

    def spell(reference: Reference) -> str:
        if not isinstance(reference, Op) or (operation := find(reference.name)) is None:
            return str(reference)
        return reference.called(wire(operation) or reference.name)

    return spell


_presenting: ContextVar[Spell] = ContextVar("presenting", default=str)


@contextmanager
def presenting(spell: Spell) -> Generator[None]:
    """Context in which a result is rendered as Markdown: `say` renders references with `spell`."""
    token = _presenting.set(spell)
    try:
        yield
    finally:
        _presenting.reset(token)


def say(*parts: str | Reference) -> str:
    """Render a sentence as one line of Markdown, for presenters. The text is escaped, and so are references unless they
    are code."""
    spell = _presenting.get()

    def reference(one: Reference) -> str:
        shown = spell(one)
        return shown if shown.startswith("`") else line(shown)

    return Hint(*parts).spelt(reference, _between).strip()


def _between(text: str) -> str:
    """Apply `line`, but keep the blanks between text and references, which it strips."""
    inner = line(text)
    return " " * text[:1].isspace() + inner + " " * text[-1:].isspace() if inner else text[:1]
