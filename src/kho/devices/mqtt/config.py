"""Sets up the brokers from the settings, and the MQTT settings sent to boards."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from kho.devices.http.ota import Mqtt
from kho.devices.mqtt import topics
from kho.devices.mqtt.board import MqttHub
from kho.devices.mqtt.bridge import MqttDoor
from kho.devices.mqtt.broker import KEEP_ALIVE, BoardBroker
from kho.devices.mqtt.leader import Leader, LeaderTask, broker_lease
from kho.devices.settings import DeviceSettings
from kho.devices.store import Device
from kho.kernel import Background, KhoError, Leases
from kho.lib import mqtt_client
from kho.lib.mqtt_client import Address, Unusable


def need(settings: DeviceSettings) -> None:
    """Raise KhoError if a package that the settings require is not installed."""
    try:
        if settings.mqtt_url:
            mqtt_client.need("aiomqtt")
        if settings.mqtt_broker:
            mqtt_client.need("amqtt")
    except Unusable as problem:
        raise KhoError(str(problem)) from None


class MqttServed:
    """The MQTT side of the hub. `work` runs while the hub serves."""

    def __init__(self, hub: MqttHub, settings: DeviceSettings, leases: Leases, background: Background) -> None:
        self._tokens = hub.tokens
        self._told = _address(settings.mqtt_boards_url) if settings.mqtt_boards_url else None
        self.broker: BoardBroker | None = None
        self.door: MqttDoor | None = None
        held: dict[str, LeaderTask] = {}
        if settings.mqtt_broker:
            held["devices.broker"] = self.broker = BoardBroker(where=_address(settings.mqtt_broker), hub=hub)
        if settings.mqtt_url:
            held["devices.mqtt"] = self.door = MqttDoor(where=_address(settings.mqtt_url), hub=hub)
        self.leaders = [
            Leader(task=task, lease=broker_lease(hub.registrations.db, leases, name, hub.live), background=background)
            for name, task in held.items()
        ]

    @property
    def work(self) -> Sequence[Callable[[], Awaitable[None]]]:
        return [leader.run for leader in self.leaders]

    @property
    def told(self) -> Mqtt | None:
        """Function that returns the `mqtt` block for boards; None if they are not to use MQTT."""
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
