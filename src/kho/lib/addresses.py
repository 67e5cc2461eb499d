"""Which addresses Kho connects to, by who named them. Every outgoing connection is of one of two kinds: an operator's
address, from the settings or the command line, may be anywhere; a caller's, which also means a tenant's, a client's, a
board's and every redirect, must be on the open internet, because this machine reaches places that its callers cannot
(SSRF). `safe_http` asks here before each connection.
"""

import asyncio
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kho.lib.dataclass import dataclass

if TYPE_CHECKING:
    import httpx2

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Net = ipaddress.IPv4Network | ipaddress.IPv6Network
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns all addresses of a host name."""
Connect = Callable[[], "httpx2.AsyncBaseTransport"]
"""Makes what requests are sent with; their host is an address that was checked."""

_CLOSED_V4 = tuple(
    ipaddress.IPv4Network(one)
    for one in "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 "
    "192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.168.0.0/16 192.175.48.0/24 198.18.0.0/15 198.51.100.0/24 "
    "203.0.113.0/24 224.0.0.0/4 240.0.0.0/4 "
    "168.63.129.16/32".split()  # looks public, and is the host below a virtual machine of a large provider
)
_GLOBAL_V6 = ipaddress.IPv6Network("2000::/3")
_CLOSED_V6 = tuple(
    ipaddress.IPv6Network(one)
    for one in (
        "2001::/23",  # protocols: Teredo, benchmarks, ORCHID
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4: leads to whatever IPv4 address is inside
        "3fff::/20",  # documentation
    )
)
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_LOCAL_NAMES = ("localhost", "localdomain", "local", "internal", "intranet", "lan", "home.arpa")
"""Names, with all below them, that are never on the open internet."""
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"\d+|0x[0-9a-f]*")
_IN_BRACKETS = re.compile(r"\[[0-9a-fA-F:.]+\](?::\d+)?")
_USUAL = {"http": 80, "https": 443}


def is_public(address: Address) -> bool:
    """True for an address on the open internet. The tables are Kho's own: those of Python differ between its patch
    releases, and hold 6to4, site-local and other networks to be global."""
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in net for net in _CLOSED_V4)
    if address.ipv4_mapped is not None:
        return is_public(address.ipv4_mapped)
    if address in _NAT64:  # how a machine with IPv6 alone sees all of IPv4
        return is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return address.scope_id is None and address in _GLOBAL_V6 and not any(address in net for net in _CLOSED_V6)


class AddressRefused(Exception):
    """Kho does not connect there. The message is a sentence, for whoever named the address."""


class NamedBy(Enum):
    OPERATOR = "operator"
    """The settings or the command line: any address."""
    CALLER = "caller"
    """Anybody else: addresses on the open internet, and what the operator allows besides."""


@dataclass(frozen=True, slots=True)
class Target:
    """The parts of an address that is well-formed. Requests are made from these, never from the text, which another
    parser may understand differently."""

    scheme: str
    host: str
    """In ASCII, without brackets or a dot at the end."""
    port: int
    path: str

    @property
    def netloc(self) -> str:
        """For the header Host."""
        port = "" if self.port == _USUAL[self.scheme] else f":{self.port}"
        return f"{f'[{self.host}]' if ':' in self.host else self.host}{port}"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.netloc}{self.path}"

    def at(self, address: str) -> str:
        """Return the URL with the address in place of the name."""
        return f"{self.scheme}://{f'[{address}]' if ':' in address else address}:{self.port}{self.path}"

    @property
    def literal(self) -> Address | None:
        """The address, if it was not a name."""
        return as_address(self.host)


def parse(url: str) -> Target:
    """Raises AddressRefused for anything but a plain http:// or https:// address."""
    if not url.isprintable() or any(one.isspace() or one == "\\" for one in url):
        raise AddressRefused("That is not a valid address: it contains blanks, control characters or backslashes.")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise AddressRefused("That is not a valid address.") from None
    if parts.scheme not in _USUAL or not parts.hostname:
        raise AddressRefused("Only addresses that begin with http:// or https:// are called.")
    if "@" in parts.netloc:
        raise AddressRefused("An address with a user name or a password is not called. Leave it out.")
    if port == 0 or ("[" in parts.netloc and not _IN_BRACKETS.fullmatch(parts.netloc)):
        raise AddressRefused("That is not a valid address.")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.scheme, plain_host(parts.hostname), port or _USUAL[parts.scheme], path)


def plain_host(host: str) -> str:
    """Return a host in the one form that is compared and connected to. Raises AddressRefused for every other spelling
    of an IP address: what these mean differs from program to program."""
    if ":" in host:
        address = as_address(host)
        if address is None or "%" in host:
            raise AddressRefused("That is not a valid IPv6 address. Write it without a zone.")
        return str(address)
    host = _ascii(host.lower().removesuffix("."))
    if as_address(host) is not None:
        return host
    labels = host.split(".")
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise AddressRefused("That is not a valid host name.")
    if _NUMBER.fullmatch(labels[-1]):
        raise AddressRefused("That is not a usual way to write an IP address. Write four decimal numbers.")
    return host


def _ascii(host: str) -> str:
    if host.isascii():
        return host
    import idna  # a large table, for few names

    try:
        return idna.encode(host, uts46=True, std3_rules=True).decode()
    except idna.IDNAError:
        raise AddressRefused("That is not a valid host name.") from None


def as_address(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class Allowed:
    """Hosts and networks that an operator opens for callers, although they are not on the open internet."""

    hosts: frozenset[str] = frozenset()
    networks: tuple[Net, ...] = ()

    @classmethod
    def of(cls, named: Iterable[str]) -> "Allowed":
        """Raises ValueError for what is neither a host nor a network such as 10.1.0.0/16."""
        hosts, networks = set[str](), list[Net]()
        for one in named:
            if "/" in one or as_address(one) is not None:
                networks.append(ipaddress.ip_network(one))
                continue
            try:
                hosts.add(plain_host(one))
            except AddressRefused:
                raise ValueError(f"{one!r} is neither a host nor a network") from None
        return cls(frozenset(hosts), tuple(networks))

    def has(self, host: str, address: Address) -> bool:
        inner = getattr(address, "ipv4_mapped", None) or address
        return host in self.hosts or any(inner in net for net in self.networks)


NOTHING = Allowed()


@dataclass(frozen=True, slots=True)
class AddressRules:
    named_by: NamedBy
    allowed: Allowed = NOTHING
    ports: frozenset[int] | None = None
    """None: all."""
    setting: str = ""
    """Where an operator can allow more; for messages."""

    def target(self, url: str) -> Target:
        """Return the parts of an address that may be called as far as its text tells. Raises AddressRefused. Asks no
        name server: also used when an address is only stored."""
        target = parse(url)
        if self.ports is not None and target.port not in self.ports:
            known = ", ".join(map(str, sorted(self.ports)))
            raise AddressRefused(f"Port {target.port} is not allowed; only {known}.")
        if target.literal is not None:
            self.check(target, [str(target.literal)])
        elif self.named_by is NamedBy.CALLER and _is_local(target.host) and target.host not in self.allowed.hosts:
            raise self._refused()
        return target

    def check(self, target: Target, found: Sequence[str]) -> None:
        """Raise AddressRefused unless all addresses of the host may be called: one that may not could be the one that
        is connected to."""
        if self.named_by is NamedBy.OPERATOR:
            return
        for one in found:
            address = as_address(one)
            if address is None or not (is_public(address) or self.allowed.has(target.host, address)):
                raise self._refused()

    def _refused(self) -> AddressRefused:
        more = f" The hub's operator can allow it in {self.setting}." if self.setting else ""
        return AddressRefused(f"That address is not on the open internet, so it is not called.{more}")


def _is_local(host: str) -> bool:
    """True for names without a dot, too, which are completed with the domain of this machine."""
    return "." not in host or any(host == name or host.endswith(f".{name}") for name in _LOCAL_NAMES)


_LOOK_UPS = ThreadPoolExecutor(4, "kho-names")
"""Threads of their own: a name server that is slow on purpose holds one for half a minute, whether or not the caller
still waits, and must not hold those that all other work runs in."""


async def resolve(host: str, port: int) -> Sequence[str]:
    look_up = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    found = await asyncio.get_running_loop().run_in_executor(_LOOK_UPS, look_up)
    return list(dict.fromkeys(str(one[4][0]) for one in found))


@dataclass(frozen=True, slots=True)
class Network:
    """How names are resolved and connections are made: as the system does it. Tests bring their own, which record what
    would be connected to."""

    resolve: Resolve = resolve
    connect: Connect | None = None


SYSTEM = Network()
