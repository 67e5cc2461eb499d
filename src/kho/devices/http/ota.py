"""Where a board asks for its settings when it starts (`/xiaozhi/ota/`), and whether it is approved by now.

A board believes whatever this answers and keeps it. With an `mqtt` block it uses MQTT even when `websocket` is there
as well, so exactly one of the two is sent. There is never a firmware to install here: Kho names the version that the
board has.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, cast
from urllib.parse import urlsplit

import orjson

from kho.devices.errors import NotApproved, UnknownDevice
from kho.devices.pairing.headers import BoardHeaders, base, socket_base, stated
from kho.devices.pairing.rate_limit import RateLimit
from kho.devices.pairing.registrations import Approving, Registrations
from kho.devices.pairing.tokens import Tokens
from kho.devices.protocol.tool_listing import clean
from kho.devices.store import Device
from kho.kernel.access import OPEN
from kho.kernel.errors import InvalidParams
from kho.kernel.web import Page, Reply, Request
from kho.lib import jsonrpc
from kho.lib.clock import SECOND, Clock

PATH = "/xiaozhi/ota/"
SOCKET_PATH = "/xiaozhi/v1/"
POLL_MS = 30_000
PROTOCOL_VERSION = 1
"""Of the audio frames, which Kho does not read: the plainest."""
HUB = "hub"
"""In what is kept of a board: the address at which it reached the hub, which over MQTT nobody else tells. The guard has
seen to it that it is the hub's, and whoever could put another one there could have the board's token as well."""

Mqtt = Callable[[Device, int, str], dict[str, Any]]
"""What a board needs to reach the broker, made now (microseconds), if it reaches the hub at this host."""


class Ota:
    def __init__(
        self,
        registrations: Registrations,
        tokens: Tokens,
        clock: Clock,
        newcomers: RateLimit,
        *,
        approval: Approving,
        public_url: str = "",
        mqtt: Mqtt | None = None,
    ) -> None:
        self._registrations = registrations
        self._tokens = tokens
        self._clock = clock
        self._newcomers = newcomers
        self._approval = approval
        self._public_url = public_url
        self._mqtt = mqtt

    @property
    def pages(self) -> tuple[Page, ...]:
        return (
            Page(PATH, self.answer, ("GET", "POST"), "A board asks for its settings.", scope=OPEN),
            Page(f"{PATH}activate", self.activate, ("POST",), "A board asks whether it is approved.", scope=OPEN),
        )

    async def answer(self, request: Request) -> Reply:
        asked = stated(request.headers, request.query)
        hub = base(self._public_url, request.scheme, request.headers)
        socket = socket_base(hub) + SOCKET_PATH
        if request.method == "GET" and not asked.device:  # somebody looks whether the address is right
            return _json({"message": "Boards ask for their settings here.", "websocket": {"url": socket}})
        body = _read(request.body)
        about = {**_about(request, body), HUB: base("", request.scheme, request.headers)}
        board = await self._register(asked.named, about, request.peer)
        now = self._clock()
        answer: dict[str, Any] = {"server_time": _time(now)}
        if version := board.info.get("firmware"):
            answer["firmware"] = {"version": version}
        if not board.approved:
            answer["activation"] = self._activation(board)
            answer["websocket"] = {"url": socket, "token": "", "version": PROTOCOL_VERSION}
        elif self._mqtt is not None:
            answer["mqtt"] = self._mqtt(board, now, urlsplit(hub).hostname or "")
        else:
            token = self._tokens.issue(board.tenant, board.id, board.client, "socket", now)
            answer["websocket"] = {"url": socket, "token": token, "version": PROTOCOL_VERSION}
        return _json(answer)

    async def activate(self, request: Request) -> Reply:
        """Whether somebody has approved the board by now: 200 yes, 202 not yet. What a board signs with a key that only
        its maker knows cannot be checked here; what was approved is the pair of its ids."""
        asked = stated(request.headers, request.query).named
        await self._tokens.ready()
        challenge = _read(request.body).get("challenge")
        if challenge not in (None, self._tokens.challenge(asked.device, asked.client)):
            raise InvalidParams("This is not the challenge that the board was given.", field="challenge")
        board = await self._registrations.find(asked.device, asked.client)
        if board is None:
            raise UnknownDevice(guidance=f"A board asks at {PATH} first.")
        return _json({}, 200) if board.approved else _json({"message": "Nobody has approved this board yet."}, 202)

    async def _register(self, asked: BoardHeaders, info: dict[str, Any], peer: str) -> Device:
        if await self._approval() == "code" and await self._registrations.find(asked.device, asked.client) is None:
            self._newcomers.admit(peer, self._clock())
        await self._tokens.ready()
        return await self._registrations.register(asked.device, asked.client, info)

    def _activation(self, board: Device) -> dict[str, Any]:
        if board.code is None:
            raise NotApproved("This board was revoked.", guidance="An admin of the hub can approve it again.")
        return {
            "code": board.code,
            "message": f"kho devices approve {board.code}",
            "challenge": self._tokens.challenge(board.id, board.client),
            "timeout_ms": POLL_MS,
        }


def _read(body: bytes) -> dict[str, Any]:
    if not body.strip():
        return {}
    try:
        value = jsonrpc.loads(body)
    except jsonrpc.ParseError as problem:
        raise InvalidParams(f"The body is no JSON: {problem}") from None
    if not isinstance(value, dict):
        raise InvalidParams("The body must be a JSON object.")
    return cast(dict[str, Any], value)


def _about(request: Request, body: dict[str, Any]) -> dict[str, Any]:
    """What is worth keeping of what a board says of itself: short texts, and nothing of the network it is in."""
    application, board = _part(body, "application"), _part(body, "board")
    # A board that has nothing else to say asks with GET, as 'board/version'.
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
    """The board sets its clock to the sum of both: its display shows the time of day where the hub is."""
    offset = datetime.fromtimestamp(now // SECOND, UTC).astimezone().utcoffset()
    return {"timestamp": now // 1000, "timezone_offset": int(offset.total_seconds() // 60) if offset else 0}


def _json(value: Any, status: int = 200) -> Reply:
    return Reply(status, orjson.dumps(value))
