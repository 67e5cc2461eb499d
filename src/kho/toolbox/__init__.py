"""Server-side tools: web search and web pages (contract 002). A tool is one file; this list names them."""

from collections.abc import Awaitable, Callable, Sequence

from kho.kernel.capability import Capability
from kho.toolbox import duckduckgo, fetch_url
from kho.toolbox.duckduckgo import DuckDuckGo
from kho.toolbox.duckduckgo import Settings as SearchSettings
from kho.toolbox.errors import ToolFailed
from kho.toolbox.fetch_url import Read
from kho.toolbox.service import Box
from kho.toolbox.tool import Tool
from kho.toolbox.web import Web

__all__ = ["DuckDuckGo", "Read", "SearchSettings", "ToolFailed", "Web", "capability"]


def capability(
    search: DuckDuckGo,
    web: Web,
    read: Read,
    more: Sequence[Tool] = (),
    stop: Sequence[Callable[[], Awaitable[None]]] = (),
) -> Capability:
    """`read` turns a page's bytes into text, and `stop` lets go of what it needs; `more` tools are for programs that
    embed Kho."""
    box = Box([duckduckgo.tool(search), fetch_url.tool(web, read), *more])
    return Capability(
        "toolbox", "tool-server", box.operations, "Tools that run on the server: web search and web pages.", stop=stop
    )
