"""Recall: one search over what all slices declare as searchable, and reading what it finds."""

from kho.kernel.toolset import Instructions

INSTRUCTIONS = Instructions(
    "Call search before you answer from memory or say that you do not know; fetch reads a result in full; recent shows "
    "what was worked on recently.",
    "minimal",
)
"""Instructions for models, read before they choose a tool. Kept in `__init__` so that MCP clients get them without
waiting for the rest of the slice to be imported."""
