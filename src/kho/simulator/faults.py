"""Faults that a virtual board's answers can have on demand."""

from typing import Literal, get_args

Fault = Literal["drop", "delay", "malformed", "duplicate", "wrong id", "silence"]
FAULTS: tuple[Fault, ...] = get_args(Fault)
