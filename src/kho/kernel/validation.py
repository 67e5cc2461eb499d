"""What a validator found, in plain words.

Pydantic speaks to programmers ("Input should be a valid dictionary or instance of Envelope"); what Kho answers is read
by people and models that never saw its classes. This is the one place where the former becomes the latter.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

OBJECT, LIST, TEXT = "must be an object", 'must be a list, such as ["a", "b"]', "must be a text"
WHOLE, NUMBER, SWITCH = "must be a whole number", "must be a number", "must be true or false"

WORDS: Mapping[str, str] = {
    "missing": "is required",
    "extra_forbidden": "is not a known parameter",
    "model_type": OBJECT,
    "model_attributes_type": OBJECT,
    "dict_type": OBJECT,
    "mapping_type": OBJECT,
    "list_type": LIST,
    "tuple_type": LIST,
    "set_type": LIST,
    "string_type": TEXT,
    "int_type": WHOLE,
    "int_parsing": WHOLE,
    "int_parsing_size": WHOLE,
    "int_from_float": WHOLE,
    "float_type": NUMBER,
    "float_parsing": NUMBER,
    "finite_number": "must be a finite number",
    "bool_type": SWITCH,
    "bool_parsing": SWITCH,
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be {ge} or more",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be {le} or less",
    "too_short": "must have at least {min_length} items",
    "too_long": "must have at most {max_length} items",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "string_pattern_mismatch": "must be of the form {pattern}",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "none_required": "must be null",
    "value_error": "{error}",
}
"""By pydantic's type of error; what stands in braces is what it knows besides."""

_FORMS: dict[str, str] = {}


def in_words(pattern: str, words: str) -> str:
    """The pattern, to be given to a type. Whoever does not meet it reads the words instead."""
    _FORMS[pattern] = words
    return pattern


MAX_PROBLEMS = 1_000
"""Wrong values that are told one by one. 100,000 take pydantic 0.4 s to list, in which nobody else is answered."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with one parameter. `kind` is pydantic's error type ('missing', 'string_too_long', …)."""

    field: str
    kind: str
    message: str

    def as_dict(self) -> dict[str, str]:
        return {"field": self.field, "message": self.message}


def found(failure: ValidationError) -> list[Problem]:
    """What is wrong, without the values, which may be secret."""
    if (count := failure.error_count()) > MAX_PROBLEMS:
        why = f"{count:,} values are wrong; {MAX_PROBLEMS:,} would be named one by one. Compare them with the schema"
        return [Problem("", "too_many", why)]
    return [
        Problem(
            ".".join(map(str, error["loc"])), error["type"], _said(error["type"], error["msg"], error.get("ctx", {}))
        )
        for error in failure.errors(include_url=False, include_input=False)
    ]


def _said(kind: str, message: str, known: Mapping[str, Any]) -> str:
    if known.get("min_length") == 1:
        return "must not be empty"
    if known.get("pattern") in _FORMS:
        return _FORMS[known["pattern"]]
    try:
        return WORDS[kind].format_map(known)
    except KeyError:  # an error of our own, which brings its sentence along
        return message.replace("Input should be", "must be")
