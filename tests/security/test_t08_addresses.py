"""T8: a caller has the hub fetch an address of its own machine or network. Nothing is connected to: what a connection is
asked for is recorded, and refused."""

import sys
from typing import Any

import pytest
from tests.doors.doors import Served

pytestmark = pytest.mark.anyio

ADDRESSES = (
    "http://127.0.0.1/", "http://127.1/", "http://2130706433/", "http://0x7f000001/", "http://0177.0.0.1/", "http://0/",
    "http://localhost/", "http://[::1]/", "http://[::]/", "http://[::ffff:127.0.0.1]/", "http://[::ffff:7f00:1]/",
    "http://[2002:7f00:1::]/", "http://[2002:a9fe:a9fe::]/", "http://[64:ff9b::7f00:1]/", "http://[64:ff9b::a9fe:a9fe]/",
    "http://169.254.169.254/latest/meta-data/", "http://10.0.0.1/", "http://172.16.0.1/", "http://192.168.1.1/",
    "http://100.64.0.1/", "http://224.0.0.1/", "http://255.255.255.255/", "http://[fe80::1]/", "http://[fc00::1]/",
    "http://[ff02::1]/", "http://[fec0::1]/", "http://[3fff::1]/", "http://192.88.99.1/", "http://１２７.0.0.1/", "http://user@127.0.0.1/", "http://example.org:22/", "file:///etc/passwd",
    "gopher://127.0.0.1/", "ftp://127.0.0.1/",
)  # fmt: skip
watching: list[Any] | None = None


class NotHere(OSError):
    """A connection was asked for."""


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    if watching is not None and event == "socket.connect" and arguments[1][1] in (80, 443, 22, 8080, 8443):
        watching.append(arguments[1])
        raise NotHere(f"a connection to {arguments[1]}")


sys.addaudithook(watch)


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    asked: list[Any] = []
    monkeypatch.setattr(sys.modules[__name__], "watching", asked)
    return asked


@pytest.mark.parametrize("url", ADDRESSES)
async def test_t08_no_address_inside_is_fetched(hub: Served, connections: list[Any], url: str) -> None:
    answer = await hub.act("fetch_url", {"url": url})
    assert connections == []
    assert answer.status_code != 200, answer.text


async def test_t08_the_watch_sees_a_connection(connections: list[Any]) -> None:
    """Or the tests above could not fail."""
    import socket

    with socket.socket() as one, pytest.raises(NotHere):
        one.connect(("127.0.0.1", 80))
    assert connections == [("127.0.0.1", 80)]
