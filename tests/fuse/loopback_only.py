"""A fuse: nothing that a test starts may send a packet beyond this machine.

It listens to Python's audit events, so it sees every socket of the process, whichever library made it: a connection, a
datagram and the look-up of a name that is not this machine's own. Each is refused, and written to a file that fails the
test, also if the code under test takes the refusal for a network that is down. In other processes of Python the folder
is on PYTHONPATH, and `sitecustomize` puts it in. What C code connects by itself (libpq, uvloop) is not seen.
"""

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


def install() -> None:
    """Cannot be undone, as audit hooks cannot."""

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        if not event.startswith("socket."):
            return
        told = beyond(event, arguments)
        if told:
            line = os.open(os.environ[REPORT], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            os.write(line, f"{told} in {' '.join(sys.orig_argv)[:200]}\n".encode())
            os.close(line)
            raise ConnectionRefusedError(f"{told}: tests send nothing beyond this machine")

    sys.addaudithook(refuse)
