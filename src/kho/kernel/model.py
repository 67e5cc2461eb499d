"""The bases of what goes in and out. Validators are built on first use: a stdio client waits for the first answer."""

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    """An operation's parameters. A name that is not known is an error, not a typo that goes unnoticed."""

    model_config = ConfigDict(extra="forbid", defer_build=True)


class Result(BaseModel):
    model_config = ConfigDict(defer_build=True)
