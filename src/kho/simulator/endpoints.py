"""How virtual boards reach a hub, and in which words they say why they do not."""

from typing import Any
from urllib.parse import urlsplit

from websockets.exceptions import ConnectionClosed

from kho.kernel.errors import KhoError
from kho.lib import mqtt_client
from kho.lib.mqtt_client import Address, Unusable

OTA_PATH = "/xiaozhi/ota/"
"""Where a board asks a hub for its settings."""
REPLACED = "A newer connection of this device took its place."
"""What a hub says when it closes a connection for that."""
OTHERS = " ('kho devices simulate --first N' gives others)"
PERHAPS = f"; perhaps another board with this id connected{OTHERS}"


class Away(ConnectionError):
    """The hub, or the connection to it, is not there."""


class Replaced(Away):
    """Another board with this id took its place, or may have: the broker of others does not say."""


def base(hub: str) -> str:
    """`http://host:port` of a hub, whichever of its addresses was given."""
    parts = urlsplit(hub)
    scheme = {"ws": "http", "wss": "https"}.get(parts.scheme, parts.scheme)
    if scheme not in ("http", "https") or not parts.netloc:
        raise KhoError("The address of a hub is written ws://HOST:PORT/xiaozhi/v1/ or http://HOST:PORT.")
    return f"{scheme}://{parts.netloc}"


def socket(hub: str) -> str:
    """The WebSocket, if that was given."""
    parts = urlsplit(hub)
    return hub if parts.scheme in ("ws", "wss") and parts.path.strip("/") else ""


def broker(text: str) -> Address:
    """Where a broker is. Raises KhoError: that is no address, or what MQTT needs is not installed."""
    try:
        where = mqtt_client.address(text)
        mqtt_client.need("aiomqtt")
    except Unusable as problem:
        raise KhoError(str(problem)) from None
    return where


def topics(device: str, client: str) -> tuple[str, str, str]:
    """Where a board that was not told otherwise publishes and listens, and what it calls itself to the broker."""
    written = device.replace(":", "_")
    return f"devices/{written}/up", f"devices/p2p/{written}", f"GID_kho@@@{written}@@@{client}"


def reason(answer: Any) -> str:
    match answer:
        case {"error": {"message": str() as message}}:
            return message
        case _:
            return "the hub gave no reason"


def cut_off(why: str) -> Away:
    return (
        Replaced(f"was cut off: another board with this id connected{OTHERS}")
        if why == REPLACED
        else Away(f"was cut off: {why}")
    )


def told(end: ConnectionClosed) -> str:
    return end.rcvd.reason or str(end.rcvd.code) if end.rcvd else "without a word"
