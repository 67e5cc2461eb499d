"""Boards (ESP32) that speak the xiaozhi protocol, and their tools (contract 001)."""

from kho.kernel.toolset import Instructions

INSTRUCTIONS = Instructions(
    "The user's boards: devices_list names them, device_tools what each can do; device_call does it.", "all"
)
"""Instructions for models, read before they choose a tool. Kept in `__init__` so that MCP clients get them without
waiting for the rest of the slice to be imported."""
