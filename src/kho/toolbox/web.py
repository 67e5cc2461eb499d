"""Fetching from the open web and nowhere else: whoever names the address must not reach what only this machine can.

A name is looked up once, every address it has must be public, and the connection goes to the very address that was
checked, so that a second look-up cannot lead elsewhere. Redirects are followed by the same rules.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urljoin, urlsplit, urlunsplit

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
    """Where it was in the end."""
    content_type: str
    content: bytes


def is_public(address: Address) -> bool:
    """Whether it is out on the internet: not this machine, this network, or a wrapping of either."""
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
    """Bytes of a page."""
    ports: frozenset[int] = frozenset({80, 443, 8080, 8443})
    allowed: Callable[[Address], bool] = is_public
    resolve: Resolve = resolve

    async def fetch(self, url: str, timeout: float) -> Fetched:
        import httpx2  # not before it is needed: a hub starts without it

        try:
            async with asyncio.timeout(min(timeout, self.timeout)), httpx2.AsyncClient(trust_env=False) as client:
                for _ in range(REDIRECTS + 1):
                    answer = await self._get(client, url)
                    if isinstance(answer, Fetched):
                        return answer
                    url = answer
                raise ToolFailed(f"The page was redirected more than {REDIRECTS} times.")
        except TimeoutError:
            raise ToolFailed(f"The page did not come within {min(timeout, self.timeout):g} s.") from None

    async def _get(self, client: "httpx2.AsyncClient", url: str) -> Fetched | str:
        """The page, or where it says to look instead."""
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
            raise ToolFailed(f"The page cannot be had ({type(problem).__name__}). Is this machine online?") from None

    def _checked(self, url: str) -> SplitResult:
        try:
            parts = urlsplit(url.strip())
            port = parts.port
        except ValueError:
            raise ToolFailed("That is no address.") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ToolFailed("Only addresses that begin with http:// or https:// are fetched.")
        if parts.username or parts.password:
            raise ToolFailed("An address with a user name or password is not fetched.")
        if port is not None and port not in self.ports:
            raise ToolFailed(f"Port {port} is not fetched from; only {', '.join(map(str, sorted(self.ports)))}.")
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
