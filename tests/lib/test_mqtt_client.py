"""The small MQTT client; what it does at a broker is shown in tests/devices/mqtt."""

import asyncio
import socket

import pytest

from kho.lib.mqtt_client import SocketLoop


async def test_a_socket_that_was_closed_meanwhile_is_no_error() -> None:
    real = asyncio.get_running_loop()
    loop = SocketLoop(real)
    ours, theirs = socket.socketpair()
    with theirs:
        open_number = ours.fileno()
        written = asyncio.Event()
        loop.add_writer(open_number, written.set)
        await written.wait()
        loop.remove_writer(open_number)
        ours.close()
        with pytest.raises(OSError):  # noqa: PT011 - which error depends on the system
            real.add_writer(open_number, written.set)
        for add in (loop.add_reader, loop.add_writer):
            add(open_number, written.set)
            add(-1, written.set)
