"""A tool: one file of this folder that says what it takes and gives back a text."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from kho.kernel.call import Call
from kho.kernel.json_schema import JsonSchema


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    description: str
    """What a model, or a programmer, needs to know to use it well."""
    params: type[BaseModel]
    input_schema: JsonSchema
    """Sent as it is: a contract may print it."""
    run: Callable[[Any, Call], Awaitable[str]]
    """Raises ToolFailed, with a reason that says what to do."""
    example: Mapping[str, Any] = field(default_factory=dict[str, Any])
    open_world: bool = True
    """Whether it reaches out of this machine."""
