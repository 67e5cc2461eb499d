"""Toolsets: which tools a client lists when it does not choose by name."""

from typing import Literal, NamedTuple, get_args

Toolset = Literal["minimal", "default", "all"]
"""Each contains the one before."""
TOOLSETS: tuple[Toolset, ...] = get_args(Toolset)


class Instructions(NamedTuple):
    """What a slice says to models before they choose among its tools: a sentence or two."""

    text: str = ""
    toolset: Toolset = "default"
    """Smallest set whose clients are given it: one that lists the tools that it names."""
