"""Parameter types that several slices share."""

from typing import Annotated, Any

import orjson
from pydantic import BeforeValidator, Field, StringConstraints, ValidatorFunctionWrapHandler, WrapValidator

from kho.kernel import values
from kho.kernel.errors import InvalidParams
from kho.kernel.validation import in_words
from kho.lib import jsonrpc


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
