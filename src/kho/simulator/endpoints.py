"""Addresses and topics by which virtual boards reach a hub, and the errors when they do not."""

from typing import Any
from urllib.parse import urlsplit

from websockets.exceptions import ConnectionClosed

from kho.kernel.errors import KhoError
from kho.lib import mqtt_client
from kho.lib.mqtt_client import Address, Unusable

OTA_PATH = "/xiaozhi/ota/"
"""Path where a board asks a hub for its settings."""
REPLACED = "A newer connection of this device took its place."
"""Reason that a hub gives when it closes a connection for this."""
OTHERS = " ('kho devices simulate --first N' gives others)"
PERHAPS = f"; perhaps another board with this id connected{OTHERS}"


class Away(ConnectionError):
    """The hub, or the connection to it, is not available."""


class Replaced(Away):
    """Another board with this id replaced it, or may have: an external broker does not say."""


def base(hub: str) -> str:
    """Return `http://host:port` of a hub, given any of its addresses."""
    parts = urlsplit(hub)
    scheme = {"ws": "http", "wss": "https"}.get(parts.scheme, parts.scheme)
    if scheme not in ("http", "https") or not parts.netloc:
        raise KhoError("The address of a hub has the form ws://HOST:PORT/xiaozhi/v1/ or http://HOST:PORT.")
    return f"{scheme}://{parts.netloc}"


def socket(hub: str) -> str:
    """Return the WebSocket URL if one was given, otherwise an empty string."""
    parts = urlsplit(hub)
    return hub if parts.scheme in ("ws", "wss") and parts.path.strip("/") else ""


def broker(text: str) -> Address:
    """Return the address of a broker. Raises KhoError if it is not one, or if the MQTT packages are not installed."""
    try:
        where = mqtt_client.address(text)
        mqtt_client.need("aiomqtt")
    except Unusable as problem:
        raise KhoError(str(problem)) from None
    return where


def topics(device: str, client: str) -> tuple[str, str, str]:
    """Return the default publish topic, subscribe topic and MQTT client id of a board."""
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
