"""MQTT topics and client ids of boards, and who sent a message.

Boards publish to `devices/<id>/up` if the hub gave them that topic, or all of them to `device-server`, as the open
gateway does. Answers go to `devices/p2p/<id>`. In a topic the colons of a MAC are underscores.
"""

from typing import Any

from kho.devices.pairing.headers import normal
from kho.lib.lazy_regex import pattern

SHARED = "device-server"
EVERYBODY = "devices/+/up"
_UP = pattern(r"devices/([A-Za-z0-9._:-]{1,128})/up")
_MAC = pattern(r"[0-9a-f]{2}(_[0-9a-f]{2}){5}")
_ID = pattern(r"[a-z0-9._:-]{1,128}")
_NAMES = ("mac", "mac_address", "device_id", "device-id", "client_id")
"""Fields in which messages at the shared topic may name their sender."""
_BETWEEN = "@@@"


def written(device: str) -> str:
    return device.replace(":", "_")


def read(name: str) -> str:
    """Return a board's id from a topic or a client id."""
    name = normal(name)
    return name.replace("_", ":") if _MAC.fullmatch(name) else name


def up(device: str) -> str:
    return f"devices/{written(device)}/up"


def down(device: str) -> str:
    return f"devices/p2p/{written(device)}"


def client_id(device: str, client: str) -> str:
    """Return the client id in the open gateway's form: a group, the board, and the firmware's client id."""
    return _BETWEEN.join(("GID_kho", written(device), client))


def by_topic(topic: str) -> str | None:
    found = _UP.fullmatch(topic)
    return None if found is None else read(found[1])


def by_message(frame: dict[str, Any]) -> str | None:
    """Return the sender that a message claims. Not authenticated."""
    for name in _NAMES:
        value = frame.get(name)
        if isinstance(value, str) and value:
            parts = value.split(_BETWEEN)
            device = read(parts[1] if len(parts) == 3 else value)
            return device if _ID.fullmatch(device) else None
    return None
