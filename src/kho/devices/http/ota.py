"""Settings and activation of boards (`/xiaozhi/ota/`), requested when a board starts.

A board trusts and stores whatever this answers. With an `mqtt` block it uses MQTT even if `websocket` is present, so
exactly one of the two is sent. Kho never offers a firmware update: it returns the version that the board has.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, cast
from urllib.parse import urlsplit

import orjson

from kho.devices.errors import NotApproved, UnknownDevice
from kho.devices.pairing.headers import BoardHeaders, base, socket_base, stated
from kho.devices.pairing.registrations import Registrations
from kho.devices.pairing.tokens import Tokens
from kho.devices.protocol.tool_listing import clean
from kho.devices.store import Device
from kho.kernel import InvalidParams, Page, WebReply, WebRequest
from kho.kernel.access import OPEN
from kho.lib import jsonrpc
from kho.lib.clock import SECOND
from kho.lib.dataclass import dataclass

PATH = "/xiaozhi/ota/"
SOCKET_PATH = "/xiaozhi/v1/"
POLL_MS = 30_000
PROTOCOL_VERSION = 1
"""Version of the audio frames, which Kho does not read: the simplest."""
HUB = "hub"
"""Key in a board's info: the address at which it reached the hub, which over MQTT is not known otherwise. The guard has
checked that this host is the hub's; an attacker who could forge it could get the board's token as well."""

Mqtt = Callable[[Device, int, str], dict[str, Any]]
"""Returns the `mqtt` block for a board: device, time (microseconds), and the host at which the board reaches the
hub."""


@dataclass(slots=True, kw_only=True)
class Ota:
    registrations: Registrations
    tokens: Tokens
    public_url: str
    mqtt: Mqtt | None

    @property
    def pages(self) -> tuple[Page, ...]:
        return (
            Page(PATH, self.answer, ("GET", "POST"), "A board asks for its settings.", scope=OPEN),
            Page(f"{PATH}activate", self.activate, ("POST",), "A board asks whether it is approved.", scope=OPEN),
        )

    async def answer(self, request: WebRequest) -> WebReply:
        asked = stated(request.headers, request.query)
        hub = base(self.public_url, request.scheme, request.headers)
        socket = socket_base(hub) + SOCKET_PATH
        if request.method == "GET" and not asked.device:  # a person checks the address in a browser
            return _json({"message": "Boards ask for their settings here.", "websocket": {"url": socket}})
        await self.registrations.admit_anybody(request.peer)
        body = _read(request.body)
        about = {**_about(request, body), HUB: base("", request.scheme, request.headers)}
        board = await self._register(asked.named, about, request.peer)
        now = self.registrations.clock()
        answer: dict[str, Any] = {"server_time": _time(now)}
        if version := board.info.get("firmware"):
            answer["firmware"] = {"version": version}
        if not board.approved:
            answer["activation"] = self._activation(board)
            answer["websocket"] = {"url": socket, "token": "", "version": PROTOCOL_VERSION}
        elif self.mqtt is not None:
            answer["mqtt"] = self.mqtt(board, now, urlsplit(hub).hostname or "")
        else:
            token = self.tokens.issue(board.tenant, board.id, board.client, "socket", now)
            answer["websocket"] = {"url": socket, "token": token, "version": PROTOCOL_VERSION}
        return _json(answer)

    async def activate(self, request: WebRequest) -> WebReply:
        """Answer whether the board is approved: 200 yes, 202 not yet. The board's signature uses a key that only its
        maker knows, so it cannot be checked here; the approval is for the pair of device and client id."""
        asked = stated(request.headers, request.query).named
        await self.registrations.admit_anybody(request.peer)
        await self.tokens.ready()
        challenge = _read(request.body).get("challenge")
        if challenge not in (None, self.tokens.challenge(asked.device, asked.client)):
            raise InvalidParams("This is not the challenge that the board was given.", field="challenge")
        board = await self.registrations.find(asked.device, asked.client)
        if board is None:
            raise UnknownDevice(guidance=f"A board asks at {PATH} first.")
        return _json({}, 200) if board.approved else _json({"message": "Nobody has approved this board yet."}, 202)

    async def _register(self, asked: BoardHeaders, info: dict[str, Any], peer: str) -> Device:
        await self.registrations.need_client(asked.client)
        if await self.registrations.find(asked.device, asked.client) is None:
            await self.registrations.admit_unknown(peer)
        await self.tokens.ready()
        return await self.registrations.register(asked.device, asked.client, info)

    def _activation(self, board: Device) -> dict[str, Any]:
        if board.code is None:
            raise NotApproved("This board was revoked.", guidance="An admin of the hub can approve it again.")
        return {
            "code": board.code,
            "message": f"kho devices approve {board.code}",
            "challenge": self.tokens.challenge(board.id, board.client),
            "timeout_ms": POLL_MS,
        }


def _read(body: bytes) -> dict[str, Any]:
    if not body.strip():
        return {}
    try:
        value = jsonrpc.loads(body)
    except jsonrpc.ParseError as problem:
        raise InvalidParams(f"The body is not JSON: {problem}") from None
    if not isinstance(value, dict):
        raise InvalidParams("The body must be a JSON object.")
    return cast(dict[str, Any], value)


def _about(request: WebRequest, body: dict[str, Any]) -> dict[str, Any]:
    """Return what is stored of a board's description of itself: short texts, nothing about its network."""
    application, board = _part(body, "application"), _part(body, "board")
    # A board with nothing else to report sends GET, with 'board/version' as its user agent.
    agent_version = request.headers.get("user-agent", "").rpartition("/")[2] if request.method == "GET" else ""
    said = {
        "board": board.get("name") or board.get("type"),
        "chip": body.get("chip_model_name"),
        "firmware": application.get("version") or agent_version,
        "language": body.get("language") or request.headers.get("accept-language"),
        "serial": request.headers.get("serial-number"),
    }
    return {name: clean(value, 128) for name, value in said.items() if isinstance(value, str) and value}


def _part(body: dict[str, Any], name: str) -> dict[str, Any]:
    part = body.get(name)
    return cast(dict[str, Any], part) if isinstance(part, dict) else {}


def _time(now: int) -> dict[str, int]:
    """Return the server time. The board sets its clock to the sum of both values: its display shows the hub's local
    time."""
    offset = datetime.fromtimestamp(now // SECOND, UTC).astimezone().utcoffset()
    return {"timestamp": now // 1000, "timezone_offset": int(offset.total_seconds() // 60) if offset else 0}


def _json(value: Any, status: int = 200) -> WebReply:
    return WebReply(status, orjson.dumps(value))
