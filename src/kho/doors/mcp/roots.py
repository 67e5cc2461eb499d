"""The folders that a client of the handshake era opens to its servers (MCP roots). Later ones have none."""

import logging
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import mcp_types as types
from mcp import MCPError
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import ValidationError

Context = ServerRequestContext[Any, Any]

log = logging.getLogger("kho.mcp")

PATIENCE = 5.0
"""Seconds for the client's answer. It has them at hand."""
UNABLE = (types.METHOD_NOT_FOUND, types.INVALID_REQUEST)
"""How a client, or the wire to it, says that it does not know the question."""


class StatedRoots:
    """Asks a client once, and again when it says that they changed."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Connection, list[str]] = WeakKeyDictionary()

    async def of(self, ctx: Context) -> Sequence[str] | None:
        """None if the client states none at all. One that promised to and gives no answer has opened nothing."""
        if ctx.protocol_version not in HANDSHAKE_PROTOCOL_VERSIONS or not _states_roots(ctx):
            return None
        connection = _connection(ctx)
        if connection not in self._known:
            try:
                answer = await ctx.session.send_request(
                    types.ListRootsRequest(),
                    types.ListRootsResult,
                    PATIENCE,
                    ServerMessageMetadata(related_request_id=ctx.request_id),  # over HTTP: in the call's own stream
                )
            except MCPError as problem:
                log.warning("the client did not say which folders it opens: %s", problem.error.message)
                return None if problem.error.code in UNABLE else []
            except ValidationError:
                log.warning("the client's answer to which folders it opens is malformed")
                return []
            self._known[connection] = [str(root.uri) for root in answer.roots]
        return self._known[connection]

    async def changed(self, ctx: Context, params: types.NotificationParams) -> None:
        self._known.pop(_connection(ctx), None)


def _states_roots(ctx: Context) -> bool:
    return ctx.session.check_client_capability(types.ClientCapabilities(roots=types.RootsCapability()))


def _connection(ctx: Context) -> Connection:
    # A session is one request's; what lasts as long as the client is inside.
    return ctx.session._connection  # pyright: ignore[reportPrivateUsage]
