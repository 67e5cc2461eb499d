"""What a slice serves over HTTP in addition to its operations: pages, event streams and WebSockets.

Operations are for callers with a credential. These are for the rest: a board that asks for its settings, a photo that
it uploads, its permanent connection. A slice describes them here without a web framework and lists them in its
capability; the HTTP door adapts them.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol

from kho.kernel.access import Access, Open, Scope
from kho.kernel.call import Call, Principal
from kho.kernel.errors import KhoError
from kho.lib.dataclass import dataclass

SMALL_BODY = 256 * 1024
MAX_MESSAGE = 1024 * 1024
"""Limit for WebSocket messages. A slice cannot allow more: the server itself stops reading there."""


@dataclass(frozen=True, slots=True)
class WebRequest:
    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Header names are in lower case."""
    body: bytes = b""
    peer: str = ""
    """Client address without the port."""
    scheme: str = "http"
    principal: Principal | None = None
    """Principal of the credential; None at an open page, which does its own checks."""


@dataclass(frozen=True, slots=True)
class WebReply:
    status: int = 200
    body: bytes = b""
    mime_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Page:
    path: str
    answer: Callable[[WebRequest], Awaitable[WebReply]]
    """A `KhoError` that it raises is answered as JSON with its status."""
    methods: Sequence[str] = ("GET",)
    summary: str = ""
    scope: Access = field(kw_only=True)
    """Scope that the credential must have. `OPEN` and `OWN_CREDENTIALS` need none; even then, a hub without keys
    answers only its own machine."""
    upload: bool = False
    """True if the body need not be JSON."""
    max_body: int = SMALL_BODY
    admits: Callable[[WebRequest], Awaitable[str]] | None = None
    """Checks the page's own credential by what comes before the body, and returns its tenant. What it refuses with a
    `KhoError` is not read."""
    refused: Callable[[KhoError], WebReply] | None = None
    """Renders an error for callers that expect their own format."""


@dataclass(frozen=True, slots=True)
class Stream:
    """Server-sent events: (event name, data) pairs for as long as the client listens."""

    path: str
    events: Callable[[Call, WebRequest], AsyncGenerator[tuple[str, Any], None]]
    summary: str = ""
    scope: Scope = field(kw_only=True)


class Channel(Protocol):
    """One WebSocket, before and after it is accepted."""

    @property
    def query(self) -> Mapping[str, str]: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    @property
    def peer(self) -> str: ...

    @property
    def scheme(self) -> str:
        """'http' or 'https', as for a request."""
        ...

    async def accept(self) -> None: ...

    async def refuse(self, error: KhoError) -> None:
        """Refuse instead of `accept`: answers the error as JSON with its status."""
        ...

    async def receive(self) -> str | bytes | None:
        """Return the next message; None once the connection is closed by either side."""
        ...

    async def send(self, text: str) -> None:
        """Raises `ChannelClosed` if the other side is gone or has stopped reading."""
        ...

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Does nothing if already closed."""
        ...


class ChannelClosed(ConnectionError):
    """The other side is gone, or has not read for too long."""


@dataclass(frozen=True, slots=True)
class Socket:
    path: str
    serve: Callable[[Channel], Awaitable[None]]
    """Accepts or refuses, and returns when the connection has ended. It checks the credential itself."""
    summary: str = ""
    max_message: int = MAX_MESSAGE
    """A longer message closes the connection with 1009."""
    scope: Open = field(kw_only=True)
    """Never a key's scope, because it would not be checked again while the connection lasts."""


Served = Page | Stream | Socket
