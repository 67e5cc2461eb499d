"""Export and import as JSON lines, for every slice: build a line from a row, and validate it on import.

Each slice defines its lines (`Line`) and stores them. An export of everything has lines of several kinds, one kind
after the other (`Part`), in an order that does not change: exported again from another store, the file is the same.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Protocol, TypeVar, cast

from pydantic import ValidationError

from kho.kernel import paging, validation
from kho.kernel.call import Call
from kho.kernel.errors import KhoError, about
from kho.kernel.params import Params, Result
from kho.kernel.ports import Tx, Value
from kho.lib import extras
from kho.lib.dataclass import dataclass
from kho.lib.sql import Table, marks

EVERYTHING = "Also what belongs to them, with the names of who said it: admins only."
PAGE_BYTES = 4_000_000
"""Maximum characters on a page of an export of everything, if it has more than one line: a page is in memory."""
Refuse = Callable[[str, str], KhoError]
"""Makes the error for an invalid line, from a sentence and the field, such as `0.created_at`."""


class Line(Params):
    """One line. Times are microseconds here and ISO 8601 in the file (`kernel.params.Moment`)."""

    with_nulls: ClassVar[bool] = False
    """True to write null fields, too."""

    @classmethod
    def of(cls, row: object, **more: Any) -> dict[str, Any]:
        """Return the line for a row that has most of the fields as attributes; `more` are the others."""
        taken = {name: getattr(row, name) for name in cls.model_fields if name not in more and hasattr(row, name)}
        return cls.model_construct(**taken, **more).model_dump(mode="json", exclude_none=not cls.with_nulls)

    def values(self, *without: str, **instead: Any) -> dict[str, Any]:
        """Return the fields as a dict, for a row."""
        held = {name: getattr(self, name) for name in type(self).model_fields if name not in without}
        return {**held, **instead}


L = TypeVar("L", bound=Line)


class ExportedLines(Result):
    lines: list[dict[str, Any]]
    next_cursor: str | None = None


def keeps_names(call: Call) -> bool:
    """True if an import takes from its lines who wrote what; else that is the caller."""
    return call.principal.allows("admin")


Place = Sequence[Value]
"""Where a line stands among those of its kind; () is before the first."""


class Page(Protocol):
    """Yields up to `limit` lines of a tenant behind a place, each with its own place."""

    def __call__(self, tx: Tx, tenant: str, after: Place, limit: int, /) -> Iterable[tuple[Place, dict[str, Any]]]: ...


@dataclass(frozen=True, slots=True)
class Part:
    """The lines of one kind."""

    kind: str
    key: tuple[type, ...]
    """Types of the values of a place."""
    page: Page


def part(kind: str, table: Table[Any], key: Mapping[str, type], line: Callable[[Any], dict[str, Any]]) -> Part:
    """Return the part of a table's rows, in the order of a key."""
    columns = ", ".join(key)

    def page(tx: Tx, tenant: str, after: Place, limit: int) -> Iterable[tuple[Place, dict[str, Any]]]:
        behind = f" AND ({columns}) > ({marks(len(after), 2)})" if after else ""
        condition = f"tenant = $1{behind} ORDER BY {columns} LIMIT ${2 + len(after)}"
        rows = table.all(tx, condition, tenant, *after, limit)
        return (([getattr(row, name) for name in key], line(row)) for row in rows)

    return Part(kind, (*key.values(),), page)


def page(tx: Tx, tenant: str, parts: Sequence[Part], cursor: str | None, limit: int) -> ExportedLines:
    """Return a page of the parts, one after the other."""
    first, after = _place(parts, cursor)
    lines, room = list[dict[str, Any]](), PAGE_BYTES
    for number in range(first, len(parts)):
        for place, line in parts[number].page(tx, tenant, after, limit - len(lines) + 1):
            room -= sum(len(value) for value in line.values() if isinstance(value, str))
            if lines and (len(lines) == limit or room < 0):
                return ExportedLines(lines=lines, next_cursor=paging.encode([number, *after]))
            lines.append(line)
            after = place
        after = ()
    return ExportedLines(lines=lines)


def _place(parts: Sequence[Part], cursor: str | None) -> tuple[int, Place]:
    if cursor is None:
        return 0, ()
    found = paging.decode(cursor)
    number, *after = cast(list[Any], found) if isinstance(found, list) and found else [-1]
    known = type(number) is int and 0 <= number < len(parts)
    if not known or (after and [type(value) for value in after] != [*parts[number].key]):
        raise paging.foreign()
    return number, after


def parsed(
    lines: Sequence[Mapping[str, Any]],
    kinds: type[L] | Mapping[str, type[L]],
    refuse: Refuse,
    *,
    by: str = "kind",
    called: str = "Line",
) -> list[L]:
    """Validate exported lines. If there are several kinds, the field `by` selects one; '' is that of lines without."""
    return [_parsed(f"{called} {number}", number - 1, line, kinds, refuse, by) for number, line in enumerate(lines, 1)]


def _parsed(
    called: str, place: int, line: Mapping[str, Any], kinds: type[L] | Mapping[str, type[L]], refuse: Refuse, by: str
) -> L:
    if isinstance(kinds, Mapping):
        kind = kinds.get(str(line.get(by, "")))
        if kind is None:
            known = " or ".join(filter(None, kinds))
            newer = f" Kho {extras.version()}, which this is, knows no others; a newer one may have written them."
            raise refuse(f"{called}: '{by}' must be {known}.{newer}", f"{place}.{by}")
    else:
        kind = kinds
    try:
        return kind.model_validate(line)
    except ValidationError as failure:
        first = validation.found(failure)[0]
        said = about(f"'{first.field}'", first.message).rstrip(".")
        raise refuse(f"{called}: {said}.", f"{place}.{first.field}") from None
