"""HTTP to addresses that others name: the one way out for them.

A host name is resolved once, all its addresses must be allowed, and the connection goes to a checked one, so that a
second look-up cannot return another (DNS rebinding). Host and the name in TLS stay the host's. Redirects are followed
by the same rules, one by one. Proxies of the environment are not used: they would resolve the name again.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import field
from functools import cache
from types import TracebackType
from typing import Self
from urllib.parse import urljoin, urlsplit

import httpx2

from kho.lib.addresses import SYSTEM, AddressRules, Network, Target, as_address, is_public
from kho.lib.dataclass import dataclass

AGENT = "kho"
MAX_TRIED = 4
"""Addresses of one host that are tried, one after the other."""
DECODED = frozenset({"", "identity", "gzip", "deflate"})
"""Content encodings that are read. Never two of them at once, which would grow a thousand times twice."""


class Unreachable(Exception):
    """The host does not exist or does not answer as it should; the message is for users."""


class TooLarge(Exception):
    """The answer is longer than was asked for."""


class TooManyRedirects(Exception):
    """The redirects do not end."""


@dataclass(frozen=True, slots=True)
class Reply:
    url: str
    """The final URL, after redirects."""
    status: int
    content_type: str
    content: bytes
    public: bool
    """True if it came from the open internet, and not from an address that was allowed besides."""


@dataclass(slots=True)
class SafeHttp:
    """A session. Use it as a context manager; a connection is used again for the same host alone, because another host
    at the same address has another certificate."""

    rules: AddressRules
    network: Network = SYSTEM
    timeout: float = 10.0
    _clients: dict[tuple[str, str, int], httpx2.AsyncClient] = field(
        default_factory=dict[tuple[str, str, int], httpx2.AsyncClient]
    )
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def get(self, url: str, *, accept: str, max_bytes: int, redirects: int) -> Reply:
        """Raises AddressRefused, Unreachable, TooLarge, TooManyRedirects, TimeoutError."""
        for _ in range(redirects + 1):
            target = self.rules.target(url)
            async with self._answer("GET", target, {"accept": accept, "accept-encoding": "gzip, deflate"}) as (
                response,
                public,
            ):
                to = response.headers.get("location")
                if response.is_redirect and to:
                    url = urljoin(target.url, to)
                    continue
                kind = response.headers.get("content-type", "")
                content = await _content(response, max_bytes) if response.is_success else b""
                return Reply(target.url, response.status_code, kind, content, public)
        raise TooManyRedirects

    async def post(self, url: str, body: bytes, headers: Mapping[str, str], *, max_read: int) -> Reply:
        """Send a body; redirects are not followed, and no more of the answer is read than it takes to use the
        connection again. Raises AddressRefused, Unreachable, TimeoutError."""
        target = self.rules.target(url)
        async with self._answer("POST", target, headers, body) as (response, public):
            read = 0
            async for chunk in response.aiter_raw():
                read += len(chunk)
                if read > max_read:
                    break
            return Reply(target.url, response.status_code, "", b"", public)

    @asynccontextmanager
    async def _answer(
        self, method: str, target: Target, headers: Mapping[str, str], body: bytes | None = None
    ) -> AsyncGenerator[tuple[httpx2.Response, bool], None]:
        """Connect to the first address that accepts, and yield its answer with whether the address is public."""
        found = (await self._addresses(target))[:MAX_TRIED]
        client = await self._client(target)
        given = {"user-agent": AGENT, **headers, "host": target.netloc}
        try:
            for address in found:
                request = client.build_request(
                    method, target.at(address), content=body, headers=given, extensions={"sni_hostname": target.host}
                )
                try:
                    response = await client.send(request, stream=True)
                except httpx2.ConnectError:
                    if address == found[-1]:
                        raise
                    continue
                async with aclosing(response):
                    literal = as_address(address)
                    yield response, literal is not None and is_public(literal)
                return
        except httpx2.TimeoutException:
            raise TimeoutError from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as problem:
            raise Unreachable(type(problem).__name__) from None

    async def _addresses(self, target: Target) -> Sequence[str]:
        if target.literal is not None:  # checked with the text
            return [str(target.literal)]
        try:
            found = await self.network.resolve(target.host, target.port)
        except (OSError, UnicodeError):
            found = ()
        if not found:
            raise Unreachable("no such host")
        self.rules.check(target, found)
        return found

    async def _client(self, target: Target) -> httpx2.AsyncClient:
        key = target.scheme, target.host, target.port
        if key not in self._clients:
            if self.network.connect is not None:
                transport = self.network.connect()
            else:
                verify = await asyncio.to_thread(_certificates) if target.scheme == "https" else False
                transport = httpx2.AsyncHTTPTransport(verify=verify, trust_env=False)
            client = httpx2.AsyncClient(
                transport=transport, trust_env=False, follow_redirects=False, timeout=self.timeout
            )
            self._clients[key] = await self._stack.enter_async_context(client)
        return self._clients[key]


@cache
def _certificates() -> ssl.SSLContext:
    """Loaded once, when first needed: it takes a while."""
    return httpx2.create_ssl_context()


async def _content(response: httpx2.Response, max_bytes: int) -> bytes:
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding not in DECODED:
        raise Unreachable(f"it is encoded as {encoding[:40]}")
    content = bytearray()
    async for chunk in response.aiter_bytes():
        content += chunk
        if len(content) > max_bytes:
            raise TooLarge
    return bytes(content)


def operator_client(url: str, headers: Mapping[str, str], timeout: float) -> httpx2.AsyncClient:
    """Return a client for a server that the settings name, which may be anywhere. Redirects are not followed: they are
    the server's words, not the operator's, and a key that is sent is for this host only."""
    return httpx2.AsyncClient(
        headers=dict(headers),
        timeout=timeout,
        follow_redirects=False,
        trust_env=not _is_this_machine(url),  # a proxy cannot reach this machine's servers
        verify=url.startswith("https"),  # loading the certificates is slow, so only if needed
    )


async def ask_operator(
    client: httpx2.AsyncClient,
    method: str,
    url: str,
    body: bytes,
    headers: Mapping[str, str] | None = None,
    *,
    seconds: float,
    most: int,
) -> tuple[httpx2.Response, bytes]:
    """Return the answer of such a server, and its body. The time is for all of it: a server that sends a byte now and
    then would hold its caller for ever. Raises TimeoutError, TooLarge, Unreachable and what the client raises."""
    async with (
        asyncio.timeout(seconds),
        client.stream(method, url, content=body, headers=headers) as response,
    ):
        return response, await _content(response, most)


def _is_this_machine(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    literal = as_address(host)
    return host == "localhost" or (literal is not None and literal.is_loopback)
