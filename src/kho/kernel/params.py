"""The bases of what goes in and out. Validators are built on first use: a stdio client waits for the first answer."""

from typing import Annotated, Any, Self

import orjson
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from kho.kernel import values
from kho.kernel.errors import InvalidParams
from kho.kernel.validation import in_words
from kho.lib import jsonrpc
from kho.lib.clock import iso


class Params(BaseModel):
    """An operation's parameters. A name that is not known is an error, not a typo that goes unnoticed."""

    model_config = ConfigDict(extra="forbid", defer_build=True)


class Result(BaseModel):
    """An operation's result, or a part of one. It can be validated from a row: `Record.model_validate(experience)`."""

    model_config = ConfigDict(defer_build=True, from_attributes=True)

    @classmethod
    def of(cls, row: object, **more: Any) -> Self:
        """From a row that has most of the fields, under their names; `more` are the others."""
        taken = {name: getattr(row, name) for name in cls.model_fields if name not in more and hasattr(row, name)}
        return cls.model_validate({**taken, **more})


def _shown(value: Any) -> Any:
    return iso(value) if isinstance(value, int) else value


Time = Annotated[str, BeforeValidator(_shown)]
"""A time in ISO 8601, also from a row's microseconds."""


def _whole(value: Any, read: ValidatorFunctionWrapHandler) -> int:
    """JSON's true is no 1, and no column holds more than 64 bits (a client may write its number as text, too)."""
    if isinstance(value, bool):
        raise ValueError("must be a whole number, not true or false")
    number: int = read(value)
    if not -(2**63) <= number < 2**63:
        raise ValueError("must fit in 64 bits")
    return number


def _json_list(value: Any) -> Any:
    """Some clients send a list as its JSON text."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            jsonrpc.check_size(value)  # until now it was one harmless text
            value = orjson.loads(value)
            values.check(value)
        except orjson.JSONDecodeError:
            return value
        except jsonrpc.ParseError as problem:
            raise ValueError(str(problem)) from None
        except InvalidParams as problem:
            raise ValueError(problem.message) from None
    return value


Whole = WrapValidator(_whole)
"""Behind the limits of a whole number, so that its schema states them: `Annotated[int, Field(ge=1), Whole]`."""
Strings = Annotated[list[str], BeforeValidator(_json_list)]
ID = in_words(
    r"^[A-Za-z0-9._:/-]{1,128}$", "must be 1 to 128 letters without accents, digits or characters of . _ : / -"
)
Id = Annotated[str, StringConstraints(pattern=ID), Field(description="An id that Kho gave.")]
