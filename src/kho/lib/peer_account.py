"""The account of this machine that a loopback connection comes from, as the kernel says (Linux only).

One netlink question about one connection: 28 µs, however many there are. `/proc/net/tcp` says the same, but has to be
read whole, which takes 44 ms with 8,000 connections.
"""

import atexit
import os
import socket
import struct
from functools import cache
from itertools import count
from threading import Lock

Address = tuple[str, int]

ROOT = 0
"""May read every file of the machine, so there is nothing to keep from it."""
_SOCK_DIAG = 4
_BY_FAMILY = 20
_REQUEST = 1
_HEADER = struct.Struct("=IHHII")
_QUESTION = struct.Struct("=BBBBI")
_CONNECTION = struct.Struct("!HH16s16s")
_ANY = struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)
"""Any network interface, any cookie."""
_UID_AND_INODE = struct.Struct("=II")
_UID_AT = _HEADER.size + 4 + _CONNECTION.size + len(_ANY) + 12
_MAX_REPLY = 8192
_ONE_AT_A_TIME = Lock()
_NUMBERS = count(1)
_TIMEOUT = 1.0
"""Seconds. The kernel answers at once; a sandbox may swallow the question."""


@cache
def known() -> bool:
    """False where the kernel cannot tell: on other systems, or in a sandbox without netlink. Asks about a connection of
    our own, because where a module or a right is missing the answer is wrong, or none."""
    if not hasattr(socket, "AF_NETLINK"):
        return False
    try:
        with (
            socket.create_server(("127.0.0.1", 0)) as server,
            socket.create_connection(server.getsockname()) as far,
            server.accept()[0] as near,
        ):
            owner = _owner(near.getpeername(), near.getsockname())
            return owner == (os.geteuid(), os.fstat(far.fileno()).st_ino)
    except OSError:
        return False


def is_own(peer: Address, own: Address) -> bool:
    """True if the other end of a connection belongs to this account or to root. False for an end that is closed
    already, because the kernel no longer knows whose it was, and where it does not answer."""
    try:
        uid, inode = _owner(peer, own)
    except OSError:
        return False
    return bool(inode) and uid in (os.geteuid(), ROOT)


def _owner(peer: Address, own: Address) -> tuple[int, int]:
    """Return the account and the inode of the socket at the other end; no inode if there is no such socket."""
    family, far = _packed(peer[0])
    question = _QUESTION.pack(family, socket.IPPROTO_TCP, 0, 0, 0xFFFFFFFF)
    body = question + _CONNECTION.pack(peer[1], own[1], far, _packed(own[0])[1]) + _ANY
    netlink = _netlink(os.getpid())
    with _ONE_AT_A_TIME:
        number = next(_NUMBERS) & 0xFFFFFFFF
        netlink.send(_HEADER.pack(_HEADER.size + len(body), _BY_FAMILY, _REQUEST, number, 0) + body)
        reply, kind, answered = b"", None, None
        while answered != number:  # it may be a late answer to a question that was given up
            reply = netlink.recv(_MAX_REPLY)
            _, kind, _, answered, _ = _HEADER.unpack_from(reply)
    if kind != _BY_FAMILY:
        return ROOT, 0
    return _UID_AND_INODE.unpack_from(reply, _UID_AT)


@cache
def _netlink(process: int) -> socket.socket:
    """Return the socket to the kernel, which stays open: when no more files can be opened, callers must still be told
    apart. Each process has its own, as answers go to whoever reads first."""
    netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _SOCK_DIAG)
    netlink.settimeout(_TIMEOUT)
    atexit.register(netlink.close)
    return netlink


def _packed(host: str) -> tuple[int, bytes]:
    host = host.removeprefix("::ffff:")  # IPv4 on a socket for both
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return family, socket.inet_pton(family, host)
