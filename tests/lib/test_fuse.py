"""The fuse of the suite blows: here, in processes that are started, and although the code under test looks away."""

import asyncio
import contextlib
import socket
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
from tests import conftest

CONNECT = "import socket; socket.create_connection(('192.0.2.1', 80), timeout=1)"
ELSEWHERE = [("192.0.2.1", 80), ("2001:db8::1", 80)]


def reported() -> str:
    """Take what was reported, so that the test itself does not fail."""
    told = conftest.FUSE_REPORT.read_text() if conftest.FUSE_REPORT.exists() else ""
    conftest.FUSE_REPORT.unlink(missing_ok=True)
    return told


@pytest.mark.parametrize("address", ELSEWHERE)
def test_a_connection_beyond_this_machine_is_refused_and_reported(address: tuple[str, int]) -> None:
    with pytest.raises(ConnectionRefusedError, match="nothing beyond this machine"):
        socket.create_connection(address, timeout=1)
    assert f"socket.connect {address[0]}:80" in reported()


def test_a_datagram_is_refused_and_a_datagram_socket_that_sends_nothing_is_not() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        with pytest.raises(ConnectionRefusedError):
            sender.sendto(b"x", ("192.0.2.1", 53))
        assert "socket.sendto 192.0.2.1:53" in reported()
        with contextlib.suppress(OSError):  # there may be no way to it
            sender.connect(("192.0.2.1", 9))
    assert reported() == ""


async def test_a_name_is_not_looked_up_beyond_this_machine() -> None:
    with pytest.raises(ConnectionRefusedError, match="nothing beyond"):
        await asyncio.get_running_loop().getaddrinfo("example.org", 80)
    assert "socket.getaddrinfo 'example.org'" in reported()
    assert await asyncio.get_running_loop().getaddrinfo("localhost", 80)


async def test_a_client_that_swallows_the_refusal_is_reported_all_the_same() -> None:
    async with httpx2.AsyncClient(trust_env=False, verify=False) as client:
        with contextlib.suppress(httpx2.HTTPError):
            await client.get("http://192.0.2.1/")
    assert "socket.connect 192.0.2.1:80" in reported()


def test_another_process_is_under_the_same_fuse(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", CONNECT], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert ended.returncode != 0
    assert "nothing beyond this machine" in ended.stderr
    assert "socket.connect 192.0.2.1:80" in reported()


UVLOOP = """
import asyncio, socket, uvloop

async def main():
    loop = asyncio.get_running_loop()
    assert type(loop).__module__.startswith("uvloop")
    sender = socket.socket()
    sender.setblocking(False)
    for work in (
        lambda: loop.create_connection(asyncio.Protocol, "192.0.2.1", 80),
        lambda: loop.create_connection(asyncio.Protocol, "example.org", 81),
        lambda: loop.getaddrinfo("example.net", 82),
        lambda: loop.sock_connect(sender, ("192.0.2.1", 83)),
        lambda: loop.create_datagram_endpoint(asyncio.DatagramProtocol, remote_addr=("192.0.2.1", 84)),
    ):
        try:
            await asyncio.wait_for(work(), 5)
        except ConnectionRefusedError as error:
            print(error)
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    for host in ("127.0.0.1", "localhost"):
        reader, writer = await asyncio.open_connection(host, server.sockets[0].getsockname()[1])
        assert await reader.read() == b""

uvloop.run(main())
"""


def test_uvloop_which_connects_in_c_is_under_the_same_fuse(tmp_path: Path) -> None:
    script = tmp_path / "reaches_out.py"
    script.write_text(UVLOOP)
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert ended.returncode == 0, ended.stderr
    told = reported()
    for one in (
        "socket.connect 192.0.2.1:80",
        "socket.connect example.org:81",
        "socket.getaddrinfo 'example.net'",
        "socket.connect 192.0.2.1:83",
        "socket.sendto 192.0.2.1:84",
    ):
        assert one in told
        assert one in ended.stdout
    assert len(told.splitlines()) == 5


def test_a_test_that_would_have_sent_something_fails(pytester_path: Path) -> None:
    """The whole way: a suite of one test that swallows the refusal, below this suite's conftest."""
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(conftest.ROOT), "-c",
         str(conftest.ROOT / "pyproject.toml"), "--confcutdir", str(conftest.ROOT), "-p", "tests.conftest",
         str(pytester_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=conftest.ROOT,
    )  # fmt: skip
    assert ended.returncode == 1
    assert "This would have left the machine" in ended.stdout
    assert "ERROR" in ended.stdout


@pytest.fixture
def pytester_path(tmp_path: Path) -> Path:
    path = tmp_path / "test_swallows.py"
    path.write_text(
        f"def test_x():\n    try:\n        {CONNECT.replace('; ', chr(10) + '        ')}\n    except OSError:\n        pass\n"
    )
    return path
