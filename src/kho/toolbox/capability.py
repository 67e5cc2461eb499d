"""Wiring of the server-side tools into the hub."""

from collections.abc import Awaitable, Callable, Sequence

from kho.kernel.capability import Capability
from kho.lib.addresses import SYSTEM, Network
from kho.toolbox import duckduckgo, fetch_url
from kho.toolbox.duckduckgo import DuckDuckGo
from kho.toolbox.errors import ToolFailed
from kho.toolbox.fetch_url import Read
from kho.toolbox.service import Toolbox
from kho.toolbox.settings import ToolboxSettings
from kho.toolbox.tool import Tool
from kho.toolbox.web import Web


def capability(
    settings: ToolboxSettings,
    *,
    search: DuckDuckGo,
    read: Read,
    more: Sequence[Tool] = (),
    stop: Sequence[Callable[[], Awaitable[None]]] = (),
    network: Network = SYSTEM,
) -> Capability:
    """Wire the slice. `read` converts a page's bytes to text, `stop` releases what `read` uses; `more` are extra tools
    of programs that embed Kho."""
    web = Web(settings.fetch_timeout, settings.fetch_max_bytes, network=network)
    return described(duckduckgo.tool(search), fetch_url.tool(web, read), *more, stop=stop)


def described(*tools: Tool, stop: Sequence[Callable[[], Awaitable[None]]] = ()) -> Capability:
    """Return the capability's description and operations. Without tools it is for help texts only: the default tools
    are described but not meant to be called."""

    async def unread(content: bytes, name: str) -> str:
        raise ToolFailed

    known = (duckduckgo.tool(DuckDuckGo(ToolboxSettings())), fetch_url.tool(Web(), unread))
    return Capability(
        "toolbox",
        "tool-server",
        Toolbox(tools or known).operations,
        "Tools that run on the server: web search and web pages.",
        stop=stop,
    )
