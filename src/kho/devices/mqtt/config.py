"""Which brokers a hub serves boards at, as its settings say, and what boards are told of them."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

from kho.devices.connections.boards import ConnectedBoards
from kho.devices.http.ota import HUB, Mqtt
from kho.devices.http.vision import PATH as VISION_PATH
from kho.devices.mqtt import topics
from kho.devices.mqtt.bridge import MqttDoor
from kho.devices.mqtt.broker import KEEP_ALIVE, BoardBroker
from kho.devices.mqtt.leader import Holder, LeaderTask
from kho.devices.mqtt.lease import broker_lease
from kho.devices.pairing.registrations import Approving, Registrations
from kho.devices.pairing.tokens import Tokens
from kho.devices.protocol.session import Photos
from kho.devices.settings import DeviceSettings
from kho.devices.store import Device
from kho.kernel.errors import KhoError
from kho.lib import mqtt_client
from kho.lib.mqtt_client import Address, Unusable
from kho.search.core import Core

EVERYWHERE = ("0.0.0.0", "::")


def need(settings: DeviceSettings) -> None:
    """Raises KhoError if what the settings ask for is not installed."""
    try:
        if settings.mqtt_url:
            mqtt_client.need("aiomqtt")
        if settings.mqtt_broker:
            mqtt_client.need("amqtt")
    except Unusable as problem:
        raise KhoError(str(problem)) from None


class MqttServed:
    """`work` is what runs while the hub serves."""

    def __init__(
        self,
        core: Core,
        settings: DeviceSettings,
        live: ConnectedBoards,
        registrations: Registrations,
        tokens: Tokens,
        approval: Approving,
    ) -> None:
        self._clock = core.clock
        self._tokens = tokens
        self._public_url = settings.public_url.rstrip("/")
        self._told = _address(settings.mqtt_boards_url) if settings.mqtt_boards_url else None
        self.broker: BoardBroker | None = None
        self.door: MqttDoor | None = None
        parts = live, registrations, tokens, core.clock
        held: dict[str, LeaderTask] = {}
        if settings.mqtt_broker:
            where = _address(settings.mqtt_broker)
            self.broker = BoardBroker(where, *parts, vision=self._vision, udp_host=self._host(where))
            held["devices.broker"] = self.broker
        if settings.mqtt_url:
            where = _address(settings.mqtt_url)
            host = self._host(where)
            self.door = MqttDoor(where, core.db, *parts, approval=approval, vision=self._vision, udp_host=host)
            held["devices.mqtt"] = self.door
        self.holders = [
            Holder(one, broker_lease(core.db, core.leases, name, live), core.background) for name, one in held.items()
        ]

    @property
    def work(self) -> Sequence[Callable[[], Awaitable[None]]]:
        return [holder.run for holder in self.holders]

    @property
    def told(self) -> Mqtt | None:
        """What boards are told when they ask for their settings; None if they are not to use MQTT."""
        if self._told is not None:
            return self._elsewhere
        return None if self.broker is None else self._here

    def _here(self, board: Device, now: int, host: str) -> dict[str, Any]:
        assert self.broker is not None
        password = self._tokens.issue(board.tenant, board.id, board.client, "mqtt", now)
        return _block(board, f"{host}:{self.broker.port}", board.id, password)

    def _elsewhere(self, board: Device, now: int, host: str) -> dict[str, Any]:
        assert self._told is not None
        return _block(board, str(self._told), self._told.user or "", self._told.password or "")

    def _vision(self, board: Device) -> Photos | None:
        """Where photos go: to the configured address, or to the one at which the board asked for its settings."""
        hub = self._public_url or board.info.get(HUB)
        if not hub:
            return None
        token = self._tokens.issue(board.tenant, board.id, board.client, "vision", self._clock())
        return hub + VISION_PATH, token

    def _host(self, where: Address) -> str:
        return urlsplit(self._public_url).hostname or ("127.0.0.1" if where.host in EVERYWHERE else where.host)


def _address(text: str) -> Address:
    try:
        return mqtt_client.address(text)
    except Unusable as problem:
        raise KhoError(str(problem)) from None


def _block(board: Device, endpoint: str, user: str, password: str) -> dict[str, Any]:
    return {
        "endpoint": endpoint,
        "client_id": topics.client_id(board.id, board.client),
        "username": user,
        "password": password,
        "keepalive": KEEP_ALIVE,
        "publish_topic": topics.up(board.id),
        "subscribe_topic": topics.down(board.id),
    }
