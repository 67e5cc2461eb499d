"""Fetches web pages, from the open internet only: callers must not reach internal addresses through this machine."""

import asyncio
from typing import TYPE_CHECKING

from kho.lib.addresses import SYSTEM, AddressRefused, AddressRules, NamedBy, Network
from kho.lib.dataclass import dataclass
from kho.lib.lazy_module import lazy
from kho.toolbox.errors import ToolFailed

if TYPE_CHECKING:
    from kho.lib import safe_http
else:
    (safe_http,) = lazy("kho.lib.safe_http")  # a hub starts faster without it

REDIRECTS = 5
ACCEPT = "text/html,text/*;q=0.9,*/*;q=0.1"
RULES = AddressRules(NamedBy.CALLER, ports=frozenset({80, 443, 8080, 8443}))


@dataclass(frozen=True, slots=True)
class Fetched:
    url: str
    """The final URL, after redirects."""
    content_type: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Web:
    timeout: float = 20.0
    max_bytes: int = 5 * 1024 * 1024
    """Maximum bytes of a page."""
    rules: AddressRules = RULES
    network: Network = SYSTEM

    async def fetch(self, url: str, timeout: float) -> Fetched:
        timeout = min(timeout, self.timeout)
        try:
            async with (
                asyncio.timeout(timeout),
                safe_http.SafeHttp(self.rules, self.network, timeout) as session,
            ):
                page = await session.get(url.strip(), accept=ACCEPT, max_bytes=self.max_bytes, redirects=REDIRECTS)
        except AddressRefused as refused:
            raise ToolFailed(str(refused), guidance="Name another address.") from None
        except TimeoutError:
            raise ToolFailed(f"The page was not received within {timeout:g} s.") from None
        except safe_http.TooManyRedirects:
            raise ToolFailed(f"The page was redirected more than {REDIRECTS} times.") from None
        except safe_http.TooLarge:
            raise ToolFailed(f"The page is larger than {self.max_bytes // (1024 * 1024)} MB.") from None
        except safe_http.Unreachable as problem:
            raise ToolFailed(f"The page cannot be fetched ({problem}). Is this machine online?") from None
        if not 200 <= page.status < 300:
            raise ToolFailed(f"The page answered with {page.status}.")
        return Fetched(page.url, page.content_type, page.content)
