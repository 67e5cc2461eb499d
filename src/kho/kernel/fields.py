"""Parameter types that several slices share."""

from typing import Annotated, Any

import orjson
from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from kho.kernel import values
from kho.kernel.errors import InvalidParams


def _no_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("must be a whole number, not true or false")
    return value


def _fits(value: int) -> int:
    if not -(2**63) <= value < 2**63:
        raise ValueError("must fit in 64 bits")
    return value


def _json_list(value: Any) -> Any:
    """Some clients send a list as its JSON text."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = orjson.loads(value)
            values.check(value)  # until now it was one harmless text
        except orjson.JSONDecodeError:
            return value
        except InvalidParams as problem:
            raise ValueError(problem.message) from None
    return value


Whole = Annotated[int, BeforeValidator(_no_bool), AfterValidator(_fits)]
Strings = Annotated[list[str], BeforeValidator(_json_list)]
Id = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._:/-]{1,128}$"), Field(description="An id that Kho gave.")]
