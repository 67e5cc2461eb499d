"""Modules that are imported on first use, as PEP 810 will do with `lazy import`.

A command uses one slice of seven and one database of two, and importing takes longer than most commands. A composition
root imports its parts for the type checker under `if TYPE_CHECKING:` and gets them from here at run time.
"""

from collections.abc import Iterator
from importlib import import_module
from typing import Any


class LazyModule:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._name), name)


def lazy(*names: str) -> Iterator[Any]:
    """Yield a stand-in for each of the modules."""
    return map(LazyModule, names)
