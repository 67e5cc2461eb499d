"""Errors of the tool server. A class docstring is the default message sent to the caller."""

from kho.kernel.errors import InvalidParams, KhoError


class ToolFailed(KhoError):
    """The tool could not do its work. Try again, or do without it."""

    code = "TOOL_FAILED"
    rpc = -32002
    status = 424
    guidance = "Try again later, or go on without this tool."


class UnknownTool(InvalidParams):
    """There is no tool of that name. tools/list names them all."""

    code = "UNKNOWN_TOOL"
    guidance = "Use a name from tools/list."
