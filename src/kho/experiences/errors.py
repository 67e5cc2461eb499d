"""The contract's error codes and its envelope: `{success: true, data}` or `{success: false, error}`."""

from collections.abc import Sequence
from typing import Any

from kho.kernel.errors import KhoError
from kho.kernel.json_schema import JsonSchema
from kho.kernel.operation import Problem, plain

_ERROR: JsonSchema = {
    "type": "object",
    "properties": {
        "code": {"type": "string"},
        "message": {"type": "string"},
        "validation_errors": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"field": {"type": "string"}, "message": {"type": "string"}},
                "required": ["field", "message"],
            },
        },
        "details": {"type": "object"},
    },
    "required": ["code", "message"],
}


class Refused(KhoError):
    """The request was refused."""

    rpc = -32602
    status = 400

    def __init__(self, message: str | None = None, problems: Sequence[dict[str, Any]] = (), **details: Any) -> None:
        super().__init__(message, **details)
        self.problems = list(problems)


class InvalidKeywords(Refused):
    """'keywords' must be a text that is not empty, or a list of such texts."""

    code = "INVALID_KEYWORDS"


class InvalidLimit(Refused):
    """'limit' must be a whole number from 1 to 50."""

    code = "INVALID_LIMIT"


class Invalid(Refused):
    """Validation failed"""

    code = "VALIDATION_ERROR"


class InvalidTitle(Refused):
    """'title' must have 1 to 500 characters."""

    code = "INVALID_TITLE"


class MissingFields(Refused):
    """Required fields are missing or empty."""

    code = "MISSING_REQUIRED_FIELDS"


class NotSanitized(Refused):
    """The text holds secrets or personal data. Replace them by placeholders and submit again."""

    code = "CONTEXT_NOT_SANITIZED"


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
    """Missing before malformed: the caller fills the gaps first."""
    blank = {"missing", "blank", "null"}
    missing = [p.field for p in problems if p.field in REQUIRED and p.kind in blank]
    if missing:
        return MissingFields(f"Required fields are missing or empty: {', '.join(missing)}.", _as_dicts(problems))
    if any(p.field == "title" and p.kind == "length" for p in problems):
        return InvalidTitle(problems=_as_dicts(problems))
    return Invalid(problems=_as_dicts(problems))


def invalid(problems: Sequence[Problem]) -> KhoError:
    return Invalid(problems=_as_dicts(problems))


def success(result: Any) -> dict[str, Any]:
    return {"success": True, "data": plain(result)}


def failure(error: KhoError) -> dict[str, Any]:
    body: dict[str, Any] = {"code": error.code, "message": error.message}
    if isinstance(error, Refused) and error.problems:
        body["validation_errors"] = error.problems
    if error.details:
        body["details"] = error.details
    return {"success": False, "error": body}


def envelope_schema(result: JsonSchema) -> JsonSchema:
    return {
        "type": "object",
        "properties": {"success": {"type": "boolean"}, "data": result, "error": _ERROR},
        "required": ["success"],
    }
