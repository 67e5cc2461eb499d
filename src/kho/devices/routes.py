"""HTTP routes of the slice besides its operations."""

from kho.devices import events
from kho.devices.connections.boards import ConnectedBoards
from kho.devices.events import Events
from kho.devices.http.ota import Mqtt, Ota
from kho.devices.http.vision import Seer, VisionPage
from kho.devices.http.websocket import HELLO_WITHIN, WebSocketDoor
from kho.devices.pairing.headers import normal
from kho.devices.pairing.registrations import Registrations
from kho.devices.pairing.tokens import Tokens
from kho.kernel.limits.limiter import Limiter
from kho.kernel.web import Served


def served(
    registrations: Registrations,
    tokens: Tokens,
    live: ConnectedBoards,
    happening: Events,
    *,
    seer: Seer | None = None,
    public_url: str = "",
    mqtt: Mqtt | None = None,
    hello_within: float = HELLO_WITHIN,
    limiter: Limiter | None = None,
) -> tuple[Served, ...]:
    """Return the routes. `public_url` is the address at which boards reach the hub, if it differs from the one they
    request. With `mqtt`, boards are sent to a broker. `limiter` counts the
    photos of each board."""
    ota = Ota(registrations=registrations, tokens=tokens, public_url=public_url, mqtt=mqtt)
    photos = VisionPage(registrations=registrations, tokens=tokens, seer=seer, limiter=limiter)
    sockets = WebSocketDoor(
        registrations=registrations, tokens=tokens, boards=live, public_url=public_url, hello_within=hello_within
    )
    return (*ota.pages, *sockets.sockets, photos.page, events.stream(happening, normal))
