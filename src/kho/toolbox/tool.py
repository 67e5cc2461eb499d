"""Definition of a tool: its parameters, and a function that returns text. Each tool is one file of this folder."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import Any

from pydantic import BaseModel

from kho.kernel.call import Call
from kho.kernel.json_schema import JsonSchema
from kho.lib.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    description: str
    """Description for models and programmers."""
    params: type[BaseModel]
    input_schema: JsonSchema
    """JSON Schema of the parameters, sent unchanged: a contract may prescribe it."""
    run: Callable[[Any, Call], Awaitable[str]]
    """Runs the tool. Raises ToolFailed with a reason that says what to do."""
    example: Mapping[str, Any] = field(default_factory=dict[str, Any])
    open_world: bool = True
    """True if it connects to other machines."""
    title: str = ""
    """Name for people; made of `name` if empty."""
