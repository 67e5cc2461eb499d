"""Which brokers a hub serves boards at, as its settings say, and what boards are told of them."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from kho.devices import mqtt_client, mqtt_topics
from kho.devices.broker import KEEP_ALIVE, BoardBroker
from kho.devices.live import Live
from kho.devices.mqtt import MqttDoor
from kho.devices.mqtt_client import Address
from kho.devices.mqtt_holder import Held, Holder
from kho.devices.mqtt_lease import Lease
from kho.devices.ota import HUB, Approving, Mqtt
from kho.devices.registrations import Registrations
from kho.devices.session import Photos
from kho.devices.store import Device
from kho.devices.tokens import Tokens
from kho.devices.vision import PATH as VISION_PATH
from kho.kernel.background import Background
from kho.kernel.ports import Database
from kho.lib.clock import Clock

EVERYWHERE = ("0.0.0.0", "::")


@dataclass(frozen=True, slots=True)
class Brokers:
    url: str = ""
    """One that is there already, with the hub's own name and password."""
    boards_url: str = ""
    """The same as boards are to use it, with theirs. Without it they are sent to the WebSocket."""
    listen: str = ""
    """Where a broker of our own listens."""


def need(chosen: Brokers) -> None:
    """Raises KhoError if what the settings ask for is not installed."""
    if chosen.url:
        mqtt_client.need("aiomqtt")
    if chosen.listen:
        mqtt_client.need("amqtt")


class MqttServed:
    """`work` is what runs while the hub serves."""

    def __init__(
        self,
        chosen: Brokers,
        db: Database,
        background: Background,
        clock: Clock,
        live: Live,
        registrations: Registrations,
        tokens: Tokens,
        approval: Approving,
        public_url: str = "",
    ) -> None:
        self._clock = clock
        self._tokens = tokens
        self._public_url = public_url.rstrip("/")
        self._told = mqtt_client.address(chosen.boards_url) if chosen.boards_url else None
        self.broker: BoardBroker | None = None
        self.door: MqttDoor | None = None
        parts = live, registrations, tokens, clock
        self.holders: list[Holder] = []
        if chosen.listen:
            where = mqtt_client.address(chosen.listen)
            self.broker = BoardBroker(where, *parts, vision=self._vision, udp_host=self._host(where))
            self._hold(self.broker, Lease(db, clock, "devices.broker", live), background)
        if chosen.url:
            where = mqtt_client.address(chosen.url)
            host = self._host(where)
            self.door = MqttDoor(where, db, *parts, approval=approval, vision=self._vision, udp_host=host)
            self._hold(self.door, Lease(db, clock, "devices.mqtt", live), background)

    @property
    def work(self) -> Sequence[Callable[[], Awaitable[None]]]:
        return [holder.run for holder in self.holders]

    @property
    def told(self) -> Mqtt | None:
        """What boards are told when they ask for their settings; None if they are not to use MQTT."""
        if self._told is not None:
            return self._elsewhere
        return None if self.broker is None else self._here

    def _hold(self, held: Held, lease: Lease, background: Background) -> None:
        self.holders.append(Holder(held, lease, background))

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


def _block(board: Device, endpoint: str, user: str, password: str) -> dict[str, Any]:
    return {
        "endpoint": endpoint,
        "client_id": mqtt_topics.client_id(board.id, board.client),
        "username": user,
        "password": password,
        "keepalive": KEEP_ALIVE,
        "publish_topic": mqtt_topics.up(board.id),
        "subscribe_topic": mqtt_topics.down(board.id),
    }
