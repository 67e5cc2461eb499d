"""MCP messages that come as plain text (stdio, WebSockets): those of too many values are refused unparsed."""

from functools import partial

import mcp_types as types
from mcp.shared.message import SessionMessage

from kho.kernel import large
from kho.lib import jsonrpc
from kho.lib.lazy_regex import pattern

_ID = pattern(r'"id"\s*:\s*(?:(-?\d{1,18})|"([^"\\]{1,200})")\s*(?:,|$)')


async def refusal(text: bytes | str) -> SessionMessage | None:
    """The answer to a message that holds too many values; None for any other. The SDK would parse it on the event loop,
    and answer nothing."""
    try:
        await large.read(len(text), partial(jsonrpc.check_size, text))
    except jsonrpc.ParseError as problem:
        error = types.ErrorData(code=jsonrpc.INVALID_REQUEST, message=str(problem))
        return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=_id(text), error=error))
    return None


def _id(text: bytes | str) -> int | str | None:
    """The request's id, without which its sender would wait for ever. Clients write it before what the message holds,
    or behind: elsewhere nobody looks for it."""
    message = (text if isinstance(text, str) else text.decode("utf-8", "replace")).strip()[1:-1]
    before = message.partition("{")[0].partition("[")[0]
    behind = message.rpartition("}")[2].rpartition("]")[2]
    found = _ID.search(before) or _ID.search(behind)
    if found is None:
        return None
    return found[2] if found[1] is None else int(found[1])
