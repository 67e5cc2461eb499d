"""A fuse: nothing that a test starts may send a packet beyond this machine.

It listens to Python's audit events, so it sees every socket of the process, whichever library made it: a connection, a
datagram and the look-up of a name that is not this machine's own. Each is refused, and written to a file that fails the
test, also if the code under test takes the refusal for a network that is down. In other processes of Python the folder
is on PYTHONPATH, and `sitecustomize` puts it in. uvloop, on which `kho serve` runs, connects in C: the methods of its
loop that do are wrapped when it is imported. What other C code connects by itself (libpq) is not seen.
"""

import functools
import importlib.abc
import importlib.machinery
import os
import socket
import sys
from typing import Any

REPORT = "LOOPBACK_ONLY_REPORT"
"""Names the file."""
HERE = frozenset({"", "localhost", "0.0.0.0", "::", "::1", "ip6-localhost"})


def is_here(host: Any) -> bool:
    """True for this machine. An address of another one may be asked for in a look-up, which needs no packet."""
    if isinstance(host, bytes | bytearray):
        host = host.decode("latin-1")
    if host is None:
        return True
    host = str(host).lower()
    return host in HERE or host.startswith(("127.", "::ffff:127.")) or host.endswith(".localhost")


def is_literal(host: Any) -> bool:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, str(host).partition("%")[0])
        except OSError:
            continue
        return True
    return False


def beyond(event: str, arguments: tuple[Any, ...]) -> str:
    """Return what would leave this machine; empty if nothing would."""
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        own, address = arguments[0], arguments[1]
        if not isinstance(address, tuple) or is_here(address[0]):  # a unix socket; or sendmsg to whom it is connected
            return ""
        if event == "socket.connect" and own.type == socket.SOCK_DGRAM:  # sends nothing
            return ""
        return f"{event} {address[0]}:{address[1]}"
    if event in ("socket.getaddrinfo", "socket.gethostbyname"):
        host = arguments[0]
        return "" if is_here(host) or is_literal(host) or host == _NAME else f"{event} {host!r}"
    return ""


_NAME = socket.gethostname()


def refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if not event.startswith("socket."):
        return
    told = beyond(event, arguments)
    if told:
        line = os.open(os.environ[REPORT], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(line, f"{told} in {' '.join(sys.orig_argv)[:200]}\n".encode())
        os.close(line)
        raise ConnectionRefusedError(f"{told}: tests send nothing beyond this machine")


class _Own:
    """What `beyond` asks of the socket of a connection."""

    type = socket.SOCK_STREAM


def _of_connection(factory: Any, host: Any = None, port: Any = None, **more: Any) -> None:
    refuse("socket.connect", (_Own, (host, port)))


def _of_datagrams(factory: Any, local_addr: Any = None, remote_addr: Any = None, **more: Any) -> None:
    if remote_addr is not None:
        refuse("socket.sendto", (_Own, remote_addr))


def _of_look_up(host: Any, port: Any = None, **more: Any) -> None:
    refuse("socket.getaddrinfo", (host,))


def _of_socket(sock: Any, address: Any) -> None:
    refuse("socket.connect", (sock, address))


CONNECTING = {
    "create_connection": _of_connection,
    "create_datagram_endpoint": _of_datagrams,
    "getaddrinfo": _of_look_up,
    "sock_connect": _of_socket,
}
"""Methods of an event loop that reach somewhere, and what each would do."""


def guard(loop: Any) -> None:
    """Wrap the methods of a loop's class."""
    for name, look in CONNECTING.items():
        setattr(loop, name, _guarded(getattr(loop, name), look))


def _guarded(method: Any, look: Any) -> Any:
    @functools.wraps(method)
    async def guarded(self: Any, *arguments: Any, **more: Any) -> Any:
        look(*arguments, **more)
        return await method(self, *arguments, **more)

    return guarded


class _Uvloop(importlib.abc.MetaPathFinder):
    """Finds uvloop as Python does, and wraps its loop once it has run."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if fullname != "uvloop":
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def wrapped(module: Any) -> None:
                run(module)
                guard(module.Loop)

            spec.loader.exec_module = wrapped
        return spec


def install() -> None:
    """Cannot be undone, as audit hooks cannot."""
    sys.addaudithook(refuse)
    if "uvloop" in sys.modules:
        guard(sys.modules["uvloop"].Loop)
    else:
        sys.meta_path.insert(0, _Uvloop())
