"""What a slice serves over HTTP beside its operations: pages, event streams and WebSockets.

Operations are for callers that a credential names. These are for the rest: a board that asks for its settings, a photo
that it sends, its standing connection. A slice describes them here in neutral terms and lists them in its capability;
the HTTP door adapts them, and a slice never sees a web framework.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from kho.kernel.access import Access, Open, Scope
from kho.kernel.call import Call, Principal
from kho.kernel.errors import KhoError

SMALL_BODY = 256 * 1024
MAX_MESSAGE = 1024 * 1024
"""Of a WebSocket. No slice can allow more: the server itself stops reading there."""


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Names are in lower case."""
    body: bytes = b""
    peer: str = ""
    """The address it comes from, without the port."""
    scheme: str = "http"
    principal: Principal | None = None
    """Whom the credential names; None at an open page, which checks what it needs itself."""


@dataclass(frozen=True, slots=True)
class Reply:
    status: int = 200
    body: bytes = b""
    mime_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Page:
    path: str
    answer: Callable[[Request], Awaitable[Reply]]
    """A `KhoError` that it raises is told in JSON with its status."""
    methods: Sequence[str] = ("GET",)
    summary: str = ""
    scope: Access = field(kw_only=True)
    """What the credential must allow. `OPEN` and `OWN_CREDENTIALS` ask for none; a hub without keys still answers its
    own machine only."""
    upload: bool = False
    """Whether a body need not be JSON."""
    max_body: int = SMALL_BODY
    refused: Callable[[KhoError], Reply] | None = None
    """How this page tells of an error, where its callers expect a form of their own."""


@dataclass(frozen=True, slots=True)
class Stream:
    """Server-sent events: pairs of an event's name and its data, for as long as the other side listens."""

    path: str
    events: Callable[[Call, Request], AsyncGenerator[tuple[str, Any], None]]
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
        """'http' or 'https', as of a request."""
        ...

    async def accept(self) -> None: ...

    async def refuse(self, error: KhoError) -> None:
        """Instead of `accept`: the error in JSON, with its status."""
        ...

    async def receive(self) -> str | bytes | None:
        """The next message; None once the connection is gone, whoever ended it."""
        ...

    async def send(self, text: str) -> None:
        """Raises `ChannelClosed` when there is nobody left to read it, or nobody who reads."""
        ...

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Does nothing when it is closed already."""
        ...


class ChannelClosed(ConnectionError):
    """The other side is gone, or has not read for too long."""


@dataclass(frozen=True, slots=True)
class Socket:
    path: str
    serve: Callable[[Channel], Awaitable[None]]
    """Accepts or refuses, and comes back when the connection is over. It checks the credential itself."""
    summary: str = ""
    max_message: int = MAX_MESSAGE
    """A longer message closes the connection with 1009."""
    scope: Open = field(kw_only=True)
    """None that a key could have: it is not checked again while the connection lasts."""


Served = Page | Stream | Socket
