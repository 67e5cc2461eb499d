"""Errors with the codes of contract 003. A class docstring is the default message sent to the caller."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kho.kernel.errors import KhoError
from kho.kernel.operation import Problem


class ExperienceRefused(KhoError):
    """The request was refused."""

    rpc = -32602
    status = 400

    def __init__(self, message: str | None = None, problems: Sequence[dict[str, Any]] = (), **details: Any) -> None:
        super().__init__(message, **details)
        self.problems = list(problems)

    def mask(self, change: Callable[[str], str]) -> None:
        super().mask(change)
        self.problems = [
            {**one, "field": change(one["field"]), "message": change(one["message"])} for one in self.problems
        ]


class InvalidKeywords(ExperienceRefused):
    """'keywords' must be a text that is not empty, or a list of such texts."""

    code = "INVALID_KEYWORDS"


class InvalidLimit(ExperienceRefused):
    """'limit' must be a whole number from 1 to 50."""

    code = "INVALID_LIMIT"


class Invalid(ExperienceRefused):
    """Validation failed"""

    code = "VALIDATION_ERROR"


class InvalidTitle(ExperienceRefused):
    """'title' must have 1 to 500 characters."""

    code = "INVALID_TITLE"


class MissingFields(ExperienceRefused):
    """Required fields are missing or empty."""

    code = "MISSING_REQUIRED_FIELDS"


class NotSanitized(ExperienceRefused):
    """The text holds secrets or personal data. Replace them by placeholders and submit again."""

    code = "CONTEXT_NOT_SANITIZED"


def not_sanitized(problems: Sequence[dict[str, Any]], masked: Mapping[str, str]) -> KhoError:
    if not masked:
        return NotSanitized(problems=problems)
    return NotSanitized(
        "Nothing was stored. 'details.sanitized' holds the masked text: check it and submit it again.",
        problems,
        sanitized=dict(masked),
    )


REQUIRED = ("title", "problem_description", "solution")


def _as_dicts(problems: Sequence[Problem]) -> list[dict[str, Any]]:
    return [{"field": problem.field, "message": problem.message} for problem in problems]


def invalid_query(problems: Sequence[Problem]) -> KhoError:
    for problem in problems:
        if problem.field.split(".")[0] == "keywords":
            return InvalidKeywords(problems=_as_dicts(problems))
    for problem in problems:
        if problem.field == "limit":
            return InvalidLimit(problems=_as_dicts(problems))
    return Invalid(problems=_as_dicts(problems))


def invalid_record(problems: Sequence[Problem]) -> KhoError:
    """Choose the error for an invalid record. Missing fields are reported before malformed ones."""
    blank = {"missing", "blank", "null"}
    missing = [p.field for p in problems if p.field in REQUIRED and p.kind in blank]
    if missing:
        return MissingFields(f"Required fields are missing or empty: {', '.join(missing)}.", _as_dicts(problems))
    if any(p.field == "title" and p.kind == "length" for p in problems):
        return InvalidTitle(problems=_as_dicts(problems))
    return Invalid(problems=_as_dicts(problems))


def invalid(problems: Sequence[Problem]) -> KhoError:
    return Invalid(problems=_as_dicts(problems))
