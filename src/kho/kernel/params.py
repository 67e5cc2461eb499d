"""The bases of what goes in and out. Validators are built on first use: a stdio client waits for the first answer."""

from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict

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
