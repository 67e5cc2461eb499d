"""Everything that devices serve over HTTP beside their operations."""

from kho.devices import events
from kho.devices.connections.boards import ConnectedBoards
from kho.devices.events import Events
from kho.devices.http.ota import Mqtt, Ota
from kho.devices.http.vision import Seer, Vision
from kho.devices.http.websocket import WebSocketDoor
from kho.devices.pairing.headers import normal
from kho.devices.pairing.rate_limit import RateLimit
from kho.devices.pairing.registrations import Approving, Registrations
from kho.devices.pairing.tokens import Tokens
from kho.kernel.web import Served
from kho.lib.clock import Clock


def served(
    registrations: Registrations,
    live: ConnectedBoards,
    happening: Events,
    tokens: Tokens,
    clock: Clock,
    approval: Approving,
    *,
    seer: Seer | None = None,
    public_url: str = "",
    mqtt: Mqtt | None = None,
) -> tuple[Served, ...]:
    """`public_url` is where boards reach the hub, when that is not the address they use to ask. With `mqtt` they are
    sent to a broker."""
    newcomers = RateLimit()
    ota = Ota(registrations, tokens, clock, newcomers, approval=approval, public_url=public_url, mqtt=mqtt)
    sockets = WebSocketDoor(registrations, tokens, live, clock, newcomers, approval=approval, public_url=public_url)
    photos = Vision(seer, registrations, tokens, clock)
    return (*ota.pages, *sockets.sockets, photos.page, events.stream(happening, normal))
