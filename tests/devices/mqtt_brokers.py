"""A hub's devices over MQTT: with a broker of its own, or at one that is there already."""

# pyright: reportMissingTypeStubs=false

import asyncio
import json
import shutil
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amqtt.adapters import StreamReaderAdapter, StreamWriterAdapter
from amqtt.broker import Broker
from amqtt.contexts import BrokerConfig, ListenerConfig, ListenerType
from tests.devices.factories import PATIENCE, HubWorker, approved_by_code
from tests.devices.http_server import Served, web

from kho.devices.connections.connection import BoardConnection
from kho.devices.http.vision import Seer
from kho.devices.mqtt.board import MqttHub
from kho.devices.mqtt.bridge import Patience
from kho.devices.mqtt.config import MqttServed
from kho.devices.settings import DeviceSettings
from kho.lib import mqtt_client
from kho.lib.mqtt_client import Address, Client
from kho.simulator import simulator
from kho.simulator.board import Board, Say
from kho.simulator.simulator import Simulated

BROKERS = ["amqtt", "mosquitto"]
LOOK = 0.005
"""Seconds between two looks for what nobody tells. Without a pause they would keep a core from the broker, and the
threads in which this process connects to it from running: on a busy machine for longer than a connection may take."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def mosquitto() -> str | None:
    """From the system, if it is there."""
    return shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")


class _Copied(dict[str, Any]):
    """amqtt walks its subscriptions over waits, while other clients subscribe: what it walks is a copy."""

    def items(self) -> Any:
        return list(super().items())


class Amqtt:
    """A broker that anybody may use. Its sockets are served here: the library leaves some of them open."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._broker: Broker | None = None
        self._server: asyncio.Server | None = None
        self._writers: dict[asyncio.StreamWriter, asyncio.Task[Any] | None] = {}

    async def start(self) -> None:
        listeners = {"default": ListenerConfig(type=ListenerType.EXTERNAL)}
        plugins = {"amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}}
        plugins["tests.devices.open_broker_plugin.Anything"] = {}
        self._broker = Broker(BrokerConfig(listeners=dict(listeners), plugins=plugins))
        self._broker._subscriptions = _Copied()  # pyright: ignore[reportPrivateUsage]
        await self._broker.start()
        self._server = await asyncio.start_server(self._visited, "127.0.0.1", self.port)

    async def _visited(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        broker = self._broker
        if broker is None:  # who comes while it stops
            writer.close()
            return
        self._writers[writer] = asyncio.current_task()
        try:
            incoming, outgoing = StreamReaderAdapter(reader), StreamWriterAdapter(writer)
            await broker.external_connected(incoming, outgoing, "default")
        finally:
            writer.close()
            del self._writers[writer]

    async def stop(self) -> None:
        if self._broker is None or self._server is None:
            return
        broker, self._broker = self._broker, None
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        if tasks := [task for task in self._writers.values() if task is not None]:
            await asyncio.wait(tasks)
        await broker.shutdown()


class Mosquitto:
    def __init__(self, port: int, folder: Path) -> None:
        self.port = port
        self._folder = folder
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        config = self._folder / "mosquitto.conf"
        config.write_text(f"listener {self.port} 127.0.0.1\nallow_anonymous true\n")
        self._process = await asyncio.create_subprocess_exec(mosquitto() or "", "-c", str(config))
        await listening(self.port, self._process)

    async def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            await self._process.wait()
            self._process = None


AnyBroker = Amqtt | Mosquitto


async def listening(port: int, broker: asyncio.subprocess.Process | None = None) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionRefusedError:
                assert broker is None or broker.returncode is None, f"the broker ended with {broker.returncode}"
                await asyncio.sleep(LOOK)
                continue
            writer.close()
            await writer.wait_closed()
            return


def served_by(worker: HubWorker, *, public_url: str = "", **chosen: Any) -> MqttServed:
    """What a hub with these settings does over MQTT."""
    parts = worker.parts
    hub = MqttHub(live=parts.live, registrations=parts.registrations, tokens=parts.tokens, public_url=public_url)
    return MqttServed(hub, DeviceSettings(**chosen), worker.core.leases, worker.background)


@asynccontextmanager
async def mqtt(
    worker: HubWorker, *, by_code: bool = False, patience: Patience | None = None, **chosen: Any
) -> AsyncGenerator[MqttServed, None]:
    """The hub serves boards at a broker; ready when it does."""
    if by_code:
        worker.registrations.approval = approved_by_code
    served = served_by(worker, **chosen)
    if served.door is not None and patience is not None:
        served.door.patience = patience
    for leader in served.leaders:
        worker.background.add(leader.run)
    for leader in served.leaders:
        async with asyncio.timeout(PATIENCE):
            await leader.there.wait()
    yield served
    await worker.background.drain()


@dataclass(frozen=True)
class BrokerHub:
    """A hub with a broker of its own, and boards that ask it for their settings over HTTP."""

    worker: HubWorker
    hub: Served
    served: MqttServed
    simulate: Callable[..., Awaitable[Simulated]]

    @property
    def port(self) -> int:
        assert self.served.broker is not None
        return self.served.broker.port

    async def link(self, device: str) -> BoardConnection:
        return await linked(self.worker, device)

    async def credentials(self, device: str, client: str = "c-1") -> dict[str, Any]:
        return (await self.hub.ota(device, client))["mqtt"]


async def linked(worker: HubWorker, device: str) -> BoardConnection:
    async with asyncio.timeout(PATIENCE):
        while (link := worker.live.find(worker.tenant, device)) is None or link.session.state != "ready":  # noqa: ASYNC110 - nobody tells when a known board is ready again
            await asyncio.sleep(LOOK)
    return link


async def unlinked(worker: HubWorker, device: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while worker.live.find(worker.tenant, device) is not None:  # noqa: ASYNC110 - as above
            await asyncio.sleep(LOOK)


@asynccontextmanager
async def own_broker(worker: HubWorker, *, seer: Seer | None = None, **chosen: Any) -> AsyncGenerator[BrokerHub, None]:
    async with AsyncExitStack() as stack:
        served = await stack.enter_async_context(mqtt(worker, mqtt_broker="127.0.0.1:0", **chosen))
        hub = await stack.enter_async_context(web(worker, mqtt=served.told, seer=seer))
        http = await stack.enter_async_context(simulator.http())
        yield BrokerHub(worker, hub, served, await boards(stack, worker, hub.url, http))


async def boards(stack: AsyncExitStack, worker: HubWorker, url: str, http: Any) -> Callable[..., Awaitable[Simulated]]:
    """Makes virtual boards that live until the end of the test, or of `within`, and waits for each."""

    async def simulate(device: str | Board, within: AsyncExitStack = stack, **more: Any) -> Simulated:
        board = device if isinstance(device, Board) else Board(device)
        one = Simulated(board, url, http, first_pause=0.05, **more)
        life = asyncio.ensure_future(one.run())

        async def end() -> None:
            life.cancel()
            await asyncio.wait({life})

        within.push_async_callback(end)
        await linked(worker, board.id)
        return one

    return simulate


@asynccontextmanager
async def dialled(port: int, told: dict[str, Any], **other: Any) -> AsyncGenerator[Client, None]:
    """A client with a board's credentials, or with some of them changed."""
    told = {**told, **other}
    where = Address("127.0.0.1", port, told.get("username"), told.get("password"))
    async with mqtt_client.connected(where, told["client_id"], told.get("topics", ())) as client:
        yield client


@asynccontextmanager
async def client(broker: AnyBroker, *topics: str) -> AsyncGenerator[Client, None]:
    async with mqtt_client.connected(Address("127.0.0.1", broker.port), "a-board", topics) as found:
        yield found


async def heard(found: Client) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE):
        async for _, content in found.messages():
            return json.loads(content)
    raise AssertionError("nothing was said")


async def introduce(board: Board, found: Client, topic: str) -> None:
    """Answers what a hub asks a new board: who it is, and what it can do."""
    for method in ("initialize", "tools/list"):
        asked = await heard(found)
        assert asked["payload"]["method"] == method
        for said in board.hear(json.dumps(asked)):
            assert isinstance(said, Say)
            await found.publish(topic, said.text)


@asynccontextmanager
async def external(worker: HubWorker, broker: AnyBroker, **chosen: Any) -> AsyncGenerator[Any, None]:
    """A hub at the broker, and a maker of boards that are told of it."""
    url = f"mqtt://127.0.0.1:{broker.port}"
    async with AsyncExitStack() as stack:
        served = await stack.enter_async_context(mqtt(worker, mqtt_url=url, mqtt_boards_url=url, **chosen))
        hub = await stack.enter_async_context(web(worker, mqtt=served.told))
        http = await stack.enter_async_context(simulator.http())
        yield await boards(stack, worker, hub.url, http)
