"""Minimal MQTT client for what boards need. The library is an optional extra and is imported when used."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote, urlsplit

from kho.lib import extras
from kho.lib.dataclass import dataclass

if TYPE_CHECKING:
    import aiomqtt

PORT, TLS_PORT = 1883, 8883
KEEP_ALIVE = 60
MAX_WAITING = 10_000
"""Messages that wait to be processed. Further ones are dropped to limit memory."""


class Unusable(ValueError):
    """MQTT cannot be used as configured. The message tells the administrator what to do."""


class Disconnected(ConnectionError):
    """There is no connection to the broker, or no longer."""


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: bool = False

    def __str__(self) -> str:
        """Leave out the credentials."""
        return f"{self.host}:{self.port}"


def address(text: str) -> Address:
    """Parse `mqtt://name:password@host:port`, `mqtts://…` or `host:port`. Raises Unusable."""
    parts = urlsplit(text if "://" in text else f"mqtt://{text}")
    try:
        port = parts.port
    except ValueError:
        port = -1
    if parts.scheme not in ("mqtt", "mqtts") or not parts.hostname or port == -1:
        raise Unusable("The address of a broker has the form mqtt://HOST:PORT, or mqtts://NAME:PASSWORD@HOST:PORT.")
    tls = parts.scheme == "mqtts"
    user = None if parts.username is None else unquote(parts.username)
    password = None if parts.password is None else unquote(parts.password)
    usual = TLS_PORT if tls else PORT
    return Address(parts.hostname, usual if port is None else port, user, password, tls)


def need(package: str) -> None:
    """Raise Unusable, with what to install, if the package is missing."""
    if find_spec(package) is None:
        raise Unusable(f"MQTT needs two more packages: {extras.install('mqtt')}")


class Client:
    def __init__(self, inner: "aiomqtt.Client") -> None:
        self._inner = inner

    async def publish(self, topic: str, text: str) -> None:
        """Raises Disconnected."""
        from aiomqtt import MqttError

        try:
            await _or_cancelled(self._inner.publish(topic, text.encode()))
        except MqttError as problem:
            raise Disconnected(str(problem)) from None

    async def messages(self) -> AsyncIterator[tuple[str, bytes]]:
        """Yield topic and payload of each message. Raises Disconnected at the end."""
        from aiomqtt import MqttError

        try:
            async for message in self._inner.messages:
                yield message.topic.value, message.payload
        except MqttError as problem:
            raise Disconnected(str(problem)) from None


class SocketLoop:
    """The event loop as the library uses it. The library registers a socket a moment after it was told to, and a broker
    that goes away may have closed it by then. There is nothing left to read or write, so that is no error."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def add_reader(self, fd: int, callback: Callable[[], object]) -> None:
        with suppress(OSError, ValueError):  # closed just now, or before its number was read
            self._loop.add_reader(fd, callback)

    def add_writer(self, fd: int, callback: Callable[[], object]) -> None:
        with suppress(OSError, ValueError):
            self._loop.add_writer(fd, callback)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)


@asynccontextmanager
async def connected(
    where: Address, identifier: str, topics: Sequence[str] = (), will: tuple[str, str] | None = None
) -> AsyncGenerator[Client, None]:
    """Connect, subscribe, and disconnect at the end. Raises Disconnected if there is no broker, or it refuses. `will`
    is the topic and the text that the broker publishes if this connection breaks."""
    from aiomqtt import Client as Inner
    from aiomqtt import MqttError, Will

    inner = Inner(
        where.host,
        where.port,
        username=where.user,
        password=where.password,
        identifier=identifier,
        will=Will(will[0], will[1].encode()) if will else None,
        keepalive=KEEP_ALIVE,
        max_queued_incoming_messages=MAX_WAITING,
        tls_context=ssl.create_default_context() if where.tls else None,
    )
    inner._loop = cast(Any, SocketLoop(asyncio.get_running_loop()))  # pyright: ignore[reportPrivateUsage]
    try:
        await inner.__aenter__()
    except MqttError as problem:
        raise Disconnected(str(problem)) from None
    try:
        if topics:
            await _or_cancelled(inner.subscribe([(topic, 0) for topic in topics]))
        yield Client(inner)
    except MqttError as problem:
        raise Disconnected(str(problem)) from None
    finally:
        with suppress(MqttError):  # already disconnected
            await inner.__aexit__(None, None, None)
        over = inner._disconnected  # pyright: ignore[reportPrivateUsage]
        if over.done() and not over.cancelled():
            over.exception()  # retrieve it, else asyncio logs that it was never retrieved


async def _or_cancelled(work: Awaitable[object]) -> None:
    """Await the work, and raise a cancellation that came together with its end. Python 3.11's `wait_for`, which the
    library uses, loses it, and the task that cancelled would wait for ever."""
    task = asyncio.current_task()
    before = task.cancelling() if task else 0
    await work
    if task and task.cancelling() > before:
        raise asyncio.CancelledError
