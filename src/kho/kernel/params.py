"""Base classes of params and results. Validators are built on first use, because a stdio client waits for the start."""

import re
import unicodedata
from collections.abc import Mapping
from typing import Annotated, Any, Self, cast

import orjson
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    StringConstraints,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic_core import PydanticCustomError

from kho.kernel.errors import InvalidParams
from kho.kernel.validation import check_values, in_words
from kho.kernel.vocabulary import Kind, split_passage
from kho.lib import jsonrpc
from kho.lib.clock import as_iso, from_iso, iso
from kho.lib.dataclass import dataclass


class Params(BaseModel):
    """An operation's parameters. A name that is not known is an error, not a typo that goes unnoticed."""

    model_config = ConfigDict(extra="forbid", defer_build=True)


class Result(BaseModel):
    """An operation's result, or a part of one. It can be validated from a row: `Record.model_validate(experience)`."""

    model_config = ConfigDict(defer_build=True, from_attributes=True)

    @classmethod
    def of(cls, row: object, **more: Any) -> Self:
        """Build from a row that has most of the fields as attributes; `more` are the others."""
        taken = {name: getattr(row, name) for name in cls.model_fields if name not in more and hasattr(row, name)}
        return cls.model_validate({**taken, **more})


Time = Annotated[str, BeforeValidator(as_iso)]
"""ISO 8601 time; also accepts a row's microseconds."""


TIME_FORM = "must be a time such as 2025-09-16T03:00:00Z, or a day such as 2025-09-16"


def _moment(value: Any) -> int:
    try:
        return from_iso(value)
    except (TypeError, ValueError):
        raise PydanticCustomError("time", TIME_FORM) from None


Moment = Annotated[
    int,
    BeforeValidator(_moment, json_schema_input_type=str),
    PlainSerializer(iso),
    Field(description="A time, as in 2025-09-16T03:00:00Z; UTC where it names no zone."),
]
"""Time that a caller writes in ISO 8601, as microseconds."""


def _whole(value: Any, read: ValidatorFunctionWrapHandler) -> int:
    """Reject booleans (JSON's true is not 1) and numbers beyond 64 bits, which no column holds. Numbers may come as
    text."""
    if isinstance(value, bool):
        raise ValueError("must be a whole number, not true or false")
    number: int = read(value)
    if not -(2**63) <= number < 2**63:
        raise ValueError("must fit in 64 bits")
    return number


def _json_list(value: Any) -> Any:
    """Accept a list as JSON text, which some clients send."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            jsonrpc.check_size(value)  # its size was not checked while it was one string
            value = orjson.loads(value)
            check_values(value)
        except orjson.JSONDecodeError:
            return value
        except jsonrpc.ParseError as problem:
            raise ValueError(str(problem)) from None
        except InvalidParams as problem:
            raise ValueError(problem.message) from None
    return value


Whole = WrapValidator(_whole)
"""Put it after the limits of an integer, so that the schema states them: `Annotated[int, Field(ge=1), Whole]`."""
JSON_LIST = BeforeValidator(_json_list)
EmptyIsAbsent = BeforeValidator(lambda value: None if value == "" else value)
"""For an optional field that callers fill in with an empty text where they have none."""
Strings = Annotated[list[str], JSON_LIST]
ID = in_words(
    r"^[A-Za-z0-9._:/-]{1,128}$", "must be 1 to 128 letters without accents, digits or characters of . _ : / -"
)
Id = Annotated[str, StringConstraints(pattern=ID), Field(description="An id from an earlier answer.")]


def of_kind(prefix: str) -> BeforeValidator:
    """Let a parameter take global ids of its kind: `Annotated[Id, of_kind("fact")]` takes `fact:…` for the bare id. The
    id of another kind is refused with what it is and which tool reads it; the registry says which kinds there are."""

    def own(value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, list):
            return [own(one, info) for one in cast(list[Any], value)]
        if not isinstance(value, str) or not (found := _GLOBAL.fullmatch(value)):
            return value
        if found[1] == prefix:
            return split_passage(found[2])[0]
        kinds: Mapping[str, Kind] = info.context or {}
        if kind := kinds.get(found[1]):
            readers = " or ".join(f"'{name}'" for name in dict.fromkeys(("fetch", kind.tool)))
            said = {"kind": kind.name, "readers": readers}
            raise PydanticCustomError("kind", "is an id of another kind ({kind}), which {readers} reads", said)
        return value

    return BeforeValidator(own)


_GLOBAL = re.compile(r"([a-z]+):(\S+)")
MAX_FOREIGN_ID = 256


def _foreign_id(value: str) -> str:
    value = unicodedata.normalize("NFC", value)
    if not (value.strip() and len(value) <= MAX_FOREIGN_ID and value.isprintable()):
        raise PydanticCustomError("id", "must be 1 to 256 printable characters")
    return value


ForeignId = Annotated[
    str, Field(json_schema_extra={"minLength": 1, "maxLength": MAX_FOREIGN_ID}), AfterValidator(_foreign_id)
]
"""An id that another system made, such as 'whatsapp:+84…' or 'lan@example.com'."""
Cursor = Annotated[str, Field(max_length=2_000, description="The next_cursor of the previous page.")]


@dataclass(frozen=True, slots=True)
class NotScreened:
    """Put it on a parameter that the sanitizer leaves alone: one that is a secret by design, or a file's bytes, whose
    text is looked at once it is read."""


Reason = Annotated[str, Field(max_length=2_000, description="Why; kept in the audit log.")]
"""Every operation that deletes takes one."""
