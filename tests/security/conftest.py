"""No test here looks up a name of another machine: the resolver knows the loopback alone."""

import socket
import uuid
from itertools import count
from typing import Any

import pytest
from tests.doors.conftest import both_settings as both_settings
from tests.doors.conftest import home as home
from tests.doors.conftest import settings as settings

from kho.experiences import service as experiences

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@pytest.fixture(autouse=True)
def loopback_only(monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.getaddrinfo

    def resolve(host: Any, *more: Any, **named: Any) -> Any:
        if host not in (None, *LOOPBACK):
            raise socket.gaierror(socket.EAI_NONAME, "the tests know no such name")
        return real(host, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)


@pytest.fixture
def the_same_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hubs that are asked the same answer the same: new ids sort as they were made, and uses of records are counted
    when the hub stops, not some time after the answer."""
    numbers = count(0x20000000 << 96, 1 << 80)
    monkeypatch.setattr(experiences, "COUNT_INTERVAL", 3_600)  # uses that are counted meanwhile would move the rank
    monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=next(numbers), version=4))
