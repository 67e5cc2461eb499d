"""MCP roots: the folders that a client of the handshake era allows its servers to use. Later versions have none."""

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

from kho.doors.mcp.notifications import connection_of

Context = ServerRequestContext[Any, Any]

log = logging.getLogger("kho.mcp")

PATIENCE = 5.0
"""Timeout in seconds for the client's answer, which it has at hand."""
UNABLE = (types.METHOD_NOT_FOUND, types.INVALID_REQUEST)
"""Error codes by which a client, or the transport to it, says that it does not support the request."""


class StatedRoots:
    """Asks a client for its roots once, and again when it notifies that they changed."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Connection, list[str]] = WeakKeyDictionary()

    async def of(self, ctx: Context) -> Sequence[str] | None:
        """Return the client's roots; None if it does not support them. A client that does but fails to answer gets an
        empty list."""
        if ctx.protocol_version not in HANDSHAKE_PROTOCOL_VERSIONS or not _states_roots(ctx):
            return None
        connection = connection_of(ctx.session)
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
        self._known.pop(connection_of(ctx.session), None)


def _states_roots(ctx: Context) -> bool:
    return ctx.session.check_client_capability(types.ClientCapabilities(roots=types.RootsCapability()))
