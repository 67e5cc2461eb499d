"""The tools that run on the server, as the hub plugs them in."""

from collections.abc import Awaitable, Callable, Sequence

from kho.kernel.capability import Capability
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
) -> Capability:
    """`read` turns a page's bytes into text, and `stop` lets go of what it needs; `more` tools are for programs that
    embed Kho."""
    web = Web(settings.fetch_timeout, settings.fetch_max_bytes)
    return described(duckduckgo.tool(search), fetch_url.tool(web, read), *more, stop=stop)


def described(*tools: Tool, stop: Sequence[Callable[[], Awaitable[None]]] = ()) -> Capability:
    """What it offers; without tools, for help texts: nothing is searched or read then."""

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
