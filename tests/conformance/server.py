"""The hub as `kho serve` runs it, with the conformance suite's fixtures, on a free port: server.py FOLDER-FOR-ITS-DATA

Prints its address once it answers, then serves until it is told to stop.
"""

import socket
import sys
from pathlib import Path

import fixtures
import mcp_types as types
import uvicorn
from mcp import MCPError
from mcp.server.context import CallNext, HandlerResult
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import PromptsListChanged

from kho.app import open_hub
from kho.doors import logs
from kho.doors.http.app import Application
from kho.doors.http.uvicorn_protocols import guarded_protocol
from kho.doors.mcp.server import Context, McpDoor
from kho.settings import Settings


class Extras:
    """What the suite asks of a server and Kho does not offer: it is deprecated, or no operation of Kho needs it."""

    def __init__(self) -> None:
        self._doors: list[McpDoor] = []

    def add_to(self, door: McpDoor) -> None:
        self._doors.append(door)
        server = door.server
        server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, self._accept)
        server.add_request_handler("resources/subscribe", types.SubscribeRequestParams, self._accept)
        server.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, self._accept)
        server.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience="kho"))
        server.middleware.append(self._need_sampling)

    async def prompts_changed(self) -> None:
        for door in self._doors:
            await door.notices.publish(PromptsListChanged())

    async def _accept(self, ctx: Context, params: types.RequestParams) -> types.EmptyResult:
        return types.EmptyResult()

    async def _need_sampling(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        if ctx.method == "tools/call" and (ctx.params or {}).get("name") == fixtures.NEEDS_SAMPLING:
            needed = types.ClientCapabilities(sampling=types.SamplingCapability())
            if not ctx.session.check_client_capability(needed):
                data = types.MissingRequiredClientCapabilityErrorData(required_capabilities=needed)
                raise MCPError(
                    types.MISSING_REQUIRED_CLIENT_CAPABILITY,
                    "This tool samples.",
                    data.model_dump(mode="json", by_alias=True, exclude_none=True),
                )
        return await call_next(ctx)


class Server(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and sockets:
            sys.stdout.write(f"http://127.0.0.1:{sockets[0].getsockname()[1]}/mcp\n")
            sys.stdout.flush()


def serve(home: Path) -> None:
    settings = Settings(home=home, database_url=None)
    logs.set_up("INFO", "text")
    extras = Extras()
    capability = fixtures.capability(extras.prompts_changed)
    application = Application(
        lambda: open_hub(settings, (capability,)), settings.http, settings.mcp, customise=extras.add_to
    )
    config = uvicorn.Config(
        application,
        http=guarded_protocol(settings.http.header_timeout, settings.http.body_timeout),
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_graceful_shutdown=2,
    )
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        Server(config).run([listener])


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
