"""Fetch pages from the public internet only: callers must not reach internal addresses through this machine (SSRF).

A host name is resolved once, all its addresses must be public, and the connection goes to a checked address, so that a
second look-up cannot return another one (DNS rebinding). Redirects follow the same rules.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urljoin, urlsplit, urlunsplit

from kho.lib.dataclass import dataclass
from kho.toolbox.errors import ToolFailed

if TYPE_CHECKING:
    import httpx2

REDIRECTS = 5
AGENT = "kho"
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]


@dataclass(frozen=True, slots=True)
class Fetched:
    url: str
    """The final URL, after redirects."""
    content_type: str
    content: bytes


def is_public(address: Address) -> bool:
    """True for an address on the public internet: not this machine or a private network, nor an IPv6 form of such an
    IPv4 address (mapped, 6to4, Teredo, NAT64)."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if inner is not None:
            return is_public(inner)
        if address in _NAT64:
            return is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return address.is_global and not address.is_multicast and not address.is_reserved


_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


async def resolve(host: str, port: int) -> Sequence[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(one[4][0]) for one in found]


@dataclass(frozen=True, slots=True)
class Web:
    timeout: float = 20.0
    max_bytes: int = 5 * 1024 * 1024
    """Maximum bytes of a page."""
    ports: frozenset[int] = frozenset({80, 443, 8080, 8443})
    allowed: Callable[[Address], bool] = is_public
    resolve: Resolve = resolve

    async def fetch(self, url: str, timeout: float) -> Fetched:
        import httpx2  # imported late: a hub starts faster without it

        try:
            async with asyncio.timeout(min(timeout, self.timeout)), httpx2.AsyncClient(trust_env=False) as client:
                for _ in range(REDIRECTS + 1):
                    answer = await self._get(client, url)
                    if isinstance(answer, Fetched):
                        return answer
                    url = answer
                raise ToolFailed(f"The page was redirected more than {REDIRECTS} times.")
        except TimeoutError:
            raise ToolFailed(f"The page was not received within {min(timeout, self.timeout):g} s.") from None

    async def _get(self, client: "httpx2.AsyncClient", url: str) -> Fetched | str:
        """Return the page, or the URL that it redirects to."""
        import httpx2

        parts = self._checked(url)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        address = await self._address(host, port)
        bracketed = f"[{address}]" if ":" in address else address
        there = urlunsplit((parts.scheme, f"{bracketed}:{port}", parts.path or "/", parts.query, ""))
        headers = {
            "host": parts.netloc.rpartition("@")[2],
            "user-agent": AGENT,
            "accept": "text/html,text/*;q=0.9,*/*;q=0.1",
        }
        try:
            async with client.stream("GET", there, headers=headers, extensions={"sni_hostname": host}) as response:
                if response.is_redirect and response.headers.get("location"):
                    return urljoin(url, response.headers["location"])
                if not response.is_success:
                    raise ToolFailed(f"The page answered with {response.status_code}.")
                content = bytearray()
                async for chunk in response.aiter_bytes():
                    content += chunk
                    if len(content) > self.max_bytes:
                        raise ToolFailed(f"The page is larger than {self.max_bytes // (1024 * 1024)} MB.")
                return Fetched(url, response.headers.get("content-type", ""), bytes(content))
        except (httpx2.HTTPError, httpx2.InvalidURL) as problem:
            raise ToolFailed(
                f"The page cannot be fetched ({type(problem).__name__}). Is this machine online?"
            ) from None

    def _checked(self, url: str) -> SplitResult:
        try:
            parts = urlsplit(url.strip())
            port = parts.port
        except ValueError:
            raise ToolFailed("That is not a valid address.") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ToolFailed("Only addresses that begin with http:// or https:// are fetched.")
        if parts.username or parts.password:
            raise ToolFailed("An address with a user name or password is not fetched.")
        if port is not None and port not in self.ports:
            raise ToolFailed(f"Port {port} is not allowed; only {', '.join(map(str, sorted(self.ports)))}.")
        return parts

    async def _address(self, host: str, port: int) -> str:
        try:
            found = await self.resolve(host, port)
        except (OSError, UnicodeError):
            raise ToolFailed("There is no such host, or this machine is offline.") from None
        for one in found:
            if not self.allowed(ipaddress.ip_address(one.partition("%")[0])):
                raise ToolFailed("That address is not on the open internet, so it is not fetched.")
        if not found:
            raise ToolFailed("There is no such host, or this machine is offline.")
        return found[0]
