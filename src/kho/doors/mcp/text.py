"""MCP messages received as plain text (stdio, WebSockets): those with too many values are refused unparsed."""

from functools import partial

import mcp_types as types
from mcp.shared.message import SessionMessage

from kho.kernel import validation
from kho.lib import jsonrpc
from kho.lib.lazy_regex import pattern

_ID = pattern(r'"id"\s*:\s*(?:(-?\d{1,18})|"([^"\\]{1,200})")\s*(?:,|$)')


async def refusal(text: bytes | str) -> SessionMessage | None:
    """Return the error for a message that holds too many values; None for any other. The SDK would parse it on the
    event loop, and not answer."""
    try:
        await validation.read_large(len(text), partial(jsonrpc.check_size, text))
    except jsonrpc.ParseError as problem:
        error = types.ErrorData(code=jsonrpc.INVALID_REQUEST, message=str(problem))
        return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=_id(text), error=error))
    return None


def _id(text: bytes | str) -> int | str | None:
    """Return the request's id, without which its sender would wait for ever. Clients write it before or after the
    message's contents, so only these two places are searched."""
    message = (text if isinstance(text, str) else text.decode("utf-8", "replace")).strip()[1:-1]
    before = message.partition("{")[0].partition("[")[0]
    behind = message.rpartition("}")[2].rpartition("]")[2]
    found = _ID.search(before) or _ID.search(behind)
    if found is None:
        return None
    return found[2] if found[1] is None else int(found[1])
