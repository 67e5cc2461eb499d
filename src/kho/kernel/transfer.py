"""Export and import as JSON lines, for every slice: build a line from a row, and validate it on import.

Each slice defines its lines (`Line`) and stores them; it also decides the order of a page and its cursor.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from pydantic import ValidationError

from kho.kernel import validation
from kho.kernel.errors import KhoError, about
from kho.kernel.params import Params, Result

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


def parsed(
    lines: Sequence[Mapping[str, Any]],
    kinds: type[L] | Mapping[str, type[L]],
    refuse: Refuse,
    *,
    by: str = "kind",
    called: str = "Line",
) -> list[L]:
    """Validate exported lines. If there are several kinds, the field `by` selects one."""
    return [_parsed(f"{called} {number}", number - 1, line, kinds, refuse, by) for number, line in enumerate(lines, 1)]


def _parsed(
    called: str, place: int, line: Mapping[str, Any], kinds: type[L] | Mapping[str, type[L]], refuse: Refuse, by: str
) -> L:
    if isinstance(kinds, Mapping):
        kind = kinds.get(str(line.get(by)))
        if kind is None:
            raise refuse(f"{called}: '{by}' must be {' or '.join(kinds)}.", f"{place}.{by}")
    else:
        kind = kinds
    try:
        return kind.model_validate(line)
    except ValidationError as failure:
        first = validation.found(failure)[0]
        said = about(f"'{first.field}'", first.message).rstrip(".")
        raise refuse(f"{called}: {said}.", f"{place}.{first.field}") from None
