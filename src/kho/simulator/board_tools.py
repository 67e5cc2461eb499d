"""Tools of a virtual board: those of real firmware, on state that really changes."""

import base64
import struct
import zlib
from collections.abc import Callable
from random import Random
from typing import Any, Literal

import orjson

from kho.lib.dataclass import dataclass

Kind = Literal["boolean", "integer", "string"]
STATE_CHANGED = "notifications/state_changed"


class ToolRefused(Exception):
    """The board refuses the call; the text is its message."""


@dataclass(frozen=True, slots=True)
class Picture:
    png: bytes

    @property
    def block(self) -> dict[str, str]:
        """An image as firmware writes it: JSON inside JSON."""
        inner = {"type": "image", "mimeType": "image/png", "data": base64.b64encode(self.png).decode()}
        return {"type": "image", "image": orjson.dumps(inner).decode()}


@dataclass(frozen=True, slots=True)
class Upload:
    """A POST that the board has to make before it can answer request `id`. Its driver performs it and reports the
    result."""

    id: int
    url: str
    token: str
    field: str
    question: str | None
    image: bytes


@dataclass(frozen=True, slots=True)
class Property:
    name: str
    kind: Kind
    default: Any = None
    low: int | None = None
    high: int | None = None

    @property
    def schema(self) -> dict[str, Any]:
        limits = {"default": self.default, "minimum": self.low, "maximum": self.high}
        return {"type": self.kind} | {key: value for key, value in limits.items() if value is not None}


class State:
    """State of a board until it is restarted."""

    def __init__(self, seed: int) -> None:
        chance = Random(seed)
        self.volume = 70
        self.brightness = 75
        self.theme = "light"
        self.battery = chance.randint(20, 100)
        self.signal = chance.choice(["strong", "medium", "weak"])
        self.temperature = chance.randint(30, 45)
        self.scene = chance.randrange(256)
        self.preview = ""
        self.download_url = ""
        self.photos = 0

    def status(self) -> dict[str, Any]:
        return {
            "audio_speaker": {"volume": self.volume},
            "screen": {"brightness": self.brightness, "theme": self.theme},
            "battery": {"level": self.battery, "charging": False},
            "network": {"type": "wifi", "ssid": "kho", "signal": self.signal},
            "chip": {"temperature": self.temperature},
        }

    def photo(self) -> bytes:
        """Return a gradient that differs from board to board and from photo to photo."""
        self.photos += 1
        shift = self.scene + 16 * self.photos
        return png(64, 48, lambda x, y: ((x * 4 + shift) % 256, (y * 5) % 256, (x + y + shift) % 256))

    def screen(self) -> bytes:
        """Return the theme's colour at the screen's brightness, with a bar whose length is the volume."""
        ground = (235 if self.theme == "light" else 25) * self.brightness // 100
        return png(100, 40, lambda x, y: (0, 160, 80) if y < 8 and x < self.volume else (ground, ground, ground))


Answer = bool | str | dict[str, Any] | Picture | Upload


@dataclass(frozen=True, slots=True)
class Context:
    """What a tool may use besides its arguments."""

    id: int
    state: State
    system: dict[str, Any]
    vision: tuple[str, str] | None
    online: bool
    """True if a driver performs the board's uploads."""


@dataclass(frozen=True, slots=True)
class FirmwareTool:
    name: str
    description: str
    properties: tuple[Property, ...]
    run: Callable[[Context, dict[str, Any]], Answer]
    user_only: bool = False

    @property
    def listed(self) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "object", "properties": {one.name: one.schema for one in self.properties}}
        if required := [one.name for one in self.properties if one.default is None]:
            schema["required"] = required
        entry: dict[str, Any] = {"name": self.name, "description": self.description, "inputSchema": schema}
        return entry | ({"annotations": {"audience": ["user"]}} if self.user_only else {})


def png(width: int, height: int, colour: Callable[[int, int], tuple[int, int, int]]) -> bytes:
    rows = b"".join(b"\0" + bytes(part for x in range(width) for part in colour(x, y)) for y in range(height))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def _set_volume(board: Context, given: dict[str, Any]) -> Answer:
    board.state.volume = given["volume"]
    return True


def _set_brightness(board: Context, given: dict[str, Any]) -> Answer:
    board.state.brightness = given["brightness"]
    return True


def _set_theme(board: Context, given: dict[str, Any]) -> Answer:
    if given["theme"] not in ("light", "dark"):
        return False
    board.state.theme = given["theme"]
    return True


def _take_photo(board: Context, given: dict[str, Any]) -> Answer:
    image = board.state.photo()
    if not board.online:
        return Picture(image)
    if board.vision is None:
        raise ToolRefused("Image explain URL or token is not set")
    url, token = board.vision
    return Upload(board.id, url, token, "file", given["question"], image)


def _snapshot(board: Context, given: dict[str, Any]) -> Answer:
    if not board.online:
        raise ToolRefused(f"Failed to open URL: {given['url']}")
    return Upload(board.id, given["url"], "", "file", None, board.state.screen())


def _preview(board: Context, given: dict[str, Any]) -> Answer:
    if not given["url"].startswith(("http://", "https://")):
        raise ToolRefused(f"Failed to open URL: {given['url']}")
    board.state.preview = given["url"]
    return True


def _set_download_url(board: Context, given: dict[str, Any]) -> Answer:
    board.state.download_url = given["url"]
    return True


_URL = (Property("url", "string"),)
_PERCENT = {"low": 0, "high": 100}

COMMON = (
    FirmwareTool(
        "self.get_device_status",
        "Tells how the device is: speaker, screen, battery, network. Call it before you change any of them.",
        (),
        lambda board, given: board.state.status(),
    ),
    FirmwareTool(
        "self.audio_speaker.set_volume",
        "Sets the volume of the speaker. If you do not know the current one, ask self.get_device_status first.",
        (Property("volume", "integer", **_PERCENT),),
        _set_volume,
    ),
    FirmwareTool(
        "self.screen.set_brightness",
        "Sets the brightness of the screen.",
        (Property("brightness", "integer", **_PERCENT),),
        _set_brightness,
    ),
    FirmwareTool(
        "self.screen.set_theme",
        "Sets the theme of the screen: `light` or `dark`.",
        (Property("theme", "string"),),
        _set_theme,
    ),
    FirmwareTool(
        "self.camera.take_photo",
        "Takes a photo and answers a question about it.",
        (Property("question", "string"),),
        _take_photo,
    ),
)
USER_ONLY = (
    FirmwareTool("self.get_system_info", "Tells about chip and firmware.", (), lambda board, given: board.system, True),
    FirmwareTool("self.reboot", "Restarts the device.", (), lambda board, given: True, True),
    FirmwareTool(
        "self.upgrade_firmware",
        "Installs the firmware at an address, then restarts the device.",
        # As in real firmware, which passes the description as the default.
        (Property("url", "string", default="The address of the firmware file to download and install"),),
        lambda board, given: True,
        True,
    ),
    FirmwareTool(
        "self.screen.get_info",
        "Tells the size of the screen.",
        (),
        lambda board, given: {"width": 100, "height": 40, "monochrome": False},
        True,
    ),
    FirmwareTool(
        "self.screen.snapshot",
        "Posts a picture of the screen to an address.",
        (*_URL, Property("quality", "integer", default=80, low=1, high=100)),
        _snapshot,
        True,
    ),
    FirmwareTool("self.screen.preview_image", "Shows a picture on the screen.", _URL, _preview, True),
    FirmwareTool(
        "self.assets.set_download_url", "Sets where assets are downloaded from.", _URL, _set_download_url, True
    ),
)
RESTARTS = ("self.reboot", "self.upgrade_firmware")
