"""The guard: checks every request before any route sees it.

A web page that a user merely visits can reach a hub on 127.0.0.1: by DNS rebinding (a foreign Host), or by posting
across origins (a foreign Origin, or a body that is not JSON and so needs no preflight). All three are refused here, for
WebSockets too, and a body over the limit is refused before it is read.
"""

import asyncio
import contextlib
import ipaddress
import json
import logging
from collections.abc import Callable, Sequence

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kho.doors.auth.credentials import is_loopback, peer
from kho.doors.http.asgi import error_headers
from kho.kernel.errors import KhoError
from kho.lib.dataclass import dataclass

log = logging.getLogger(__name__)

MAX_HOST = 253
"""Characters of a host name, as DNS has it."""
MAX_BODY = 8 * 1024 * 1024
# A closing socket that still has unread bytes sends a reset, and the client may lose the response with it. So a refused
# body is read and discarded for this many seconds.
LINGER = 2.0
# Number of accepted header values that are cached, so that good requests cost one set lookup. Refused values are never
# cached.
REMEMBERED = 512
LOGGED = 100
"""Number of refused host names that are logged, each once: nobody can fill the log with invented ones."""

WITH_BODY = frozenset(("POST", "PUT", "PATCH"))
WANTED = frozenset((b"host", b"origin", b"content-type", b"content-length", b"transfer-encoding"))
DEFAULT_PORTS = {"http": 80, "https": 443}
TOKEN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~")

Allowed = Callable[[bytes], bool]


def loopback_hosts() -> list[str]:
    """Host patterns for this machine, at any port."""
    return ["127.0.0.1", "localhost", "[::1]"]


def loopback_origins() -> list[str]:
    """Origin patterns for pages served by this machine, at any port."""
    return [f"{scheme}://{host}:*" for scheme in DEFAULT_PORTS for host in loopback_hosts()]


class BodyTooLarge(KhoError):
    """The request body is too large. Send it in smaller parts."""

    code = "BODY_TOO_LARGE"
    status = 413


@dataclass(frozen=True)
class Refusal:
    status: int
    code: str
    message: str
    body: bytes = b""
    """Response body, where callers expect another form than ours."""
    headers: Sequence[tuple[bytes, bytes]] = ()
    """Further headers of the response, such as a challenge."""
    counted: str = ""
    """What the audit trail calls such requests; empty if it does not count them."""

    def __post_init__(self) -> None:
        error = {"error": {"code": self.code, "message": self.message}}
        object.__setattr__(self, "body", self.body or json.dumps(error).encode())


BAD_HOST = Refusal(400, "BAD_HOST", "Send exactly one Host header.")
CHECK_HOST, CHECK_ORIGIN = "check_host", "check_origin"
NOT_A_HOST = Refusal(
    421,
    "HOST_NOT_ALLOWED",
    "The Host header must hold a name or an address, with or without a port.",
    counted=CHECK_HOST,
)
BAD_LENGTH = Refusal(400, "BAD_CONTENT_LENGTH", "Send one Content-Length header, a plain number.")
WRONG_ORIGIN = Refusal(
    403,
    "ORIGIN_NOT_ALLOWED",
    "Pages of this origin may not call the hub. Who runs it can allow them: KHO_HTTP__ALLOWED_ORIGINS=https://….",
    counted=CHECK_ORIGIN,
)
NOT_JSON = Refusal(415, "NOT_JSON", "Send the body as JSON in UTF-8, with 'Content-Type: application/json'.")


def _not_counted(address: str, operation: str) -> None:
    return None


class Guard:
    """ASGI middleware. `hosts` are names with any port (`kho.example`) or one port (`kho.example:8443`);
    `origins` are exact (`https://kho.example`) or with any port (`http://localhost:*`); `uploads` are the paths
    at and below which a body need not be JSON; slices add theirs when the hub has opened."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: Sequence[str],
        origins: Sequence[str],
        max_body: int = MAX_BODY,
        uploads: Sequence[str] = (),
    ) -> None:
        self.app = app
        self.max_body = max_body
        self.uploads = [path.rstrip("/") for path in uploads]
        self._too_large = Refusal(
            BodyTooLarge.status,
            BodyTooLarge.code,
            f"Send at most {max_body} bytes; split the request into smaller parts.",
        )
        self._host_allowed = host_rule(hosts)
        self._origin_allowed = origin_rule(origins)
        self._good_hosts: set[bytes] = set()
        self._good_origins: set[bytes] = set()
        self._good_types = {b"application/json"}
        self._logged: set[str] = set()
        self.count: Callable[[str, str], None] = _not_counted
        """Told of each request with a foreign Host or Origin: its address, and what the audit trail calls it. The hub's
        own, once it has opened."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind != "http" and kind != "websocket":  # the lifespan
            await self.app(scope, receive, send)
            return

        host: bytes | None = None
        content_type: bytes | None = None
        length: int | None = None
        chunked = False
        refusal: Refusal | None = None
        for name, value in scope["headers"]:
            if name not in WANTED:
                continue
            if name == b"host":
                if host is not None:
                    refusal = BAD_HOST
                    break
                host = value
            elif name == b"origin":
                if value not in self._good_origins and not self._learn(self._good_origins, value, self._origin_allowed):
                    refusal = refusal or WRONG_ORIGIN
            elif name == b"content-type":
                # Two headers are joined into a value that no rule accepts: the app might read either.
                content_type = value if content_type is None else content_type + b"," + value
            elif name == b"content-length":
                if length is not None or not value.isdigit():
                    refusal = refusal or BAD_LENGTH
                    continue
                # Sixteen digits are over any limit, and Python refuses to parse very long numbers.
                length = int(value) if len(value) < 16 else self.max_body + 1
            else:
                chunked = True

        if refusal is not BAD_HOST:
            if host is None:
                refusal = BAD_HOST
            elif (
                host not in self._good_hosts
                and not self._learn(self._good_hosts, host, self._host_allowed)
                and not is_address(host, scope)
            ):
                refusal = self._wrong_host(host)
        if refusal is not None and refusal.counted:
            self.count(peer(scope), refusal.counted)
        if kind == "websocket":
            if refusal is None:
                await self.app(scope, receive, send)
            else:
                await refuse_websocket(scope, receive, send, refusal)
            return

        # HTTP/2 may send a body without announcing it in a header; HTTP/1 cannot.
        unknown = chunked or (length is None and not scope["http_version"].startswith("1"))
        too_long = length is not None and length > self.max_body
        if refusal is None:
            if too_long:
                refusal = self._too_large
            elif (
                (length or unknown)
                and scope["method"] in WITH_BODY
                and content_type not in self._good_types
                and not self._learn(self._good_types, content_type or b"", is_json)
                and not self._is_upload(scope["path"])
            ):
                refusal = NOT_JSON
        if refusal is not None:
            await refuse(receive, send, refusal, close=unknown or too_long)
        elif unknown:
            await self._counted(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    def _learn(self, good: set[bytes], value: bytes, allowed: Allowed) -> bool:
        if not allowed(value):
            return False
        if len(good) < REMEMBERED and len(value) < 256:
            good.add(value)
        return True

    def _wrong_host(self, host: bytes) -> Refusal:
        """Refuse a host name, with the setting that allows it. Whoever runs the hub reads it in the log, too, once."""
        parsed = split_authority(host.decode("latin-1"))
        if parsed is None or len(parsed[0]) > MAX_HOST:
            return NOT_A_HOST
        name = parsed[0]
        setting = f"KHO_HTTP__ALLOWED_HOSTS={name}"
        if name not in self._logged and len(self._logged) < LOGGED:
            self._logged.add(name)
            log.warning(
                "a request for the host %s was refused. If the hub has that name, start it with %s", name, setting
            )
        return Refusal(
            421,
            "HOST_NOT_ALLOWED",
            f"This hub does not know itself as {name}. Who runs it can allow the name with {setting} (several are "
            "separated by commas). On the same machine 127.0.0.1 always works.",
            counted=CHECK_HOST,
        )

    def _is_upload(self, path: str) -> bool:
        return any(path == below or path.startswith(below + "/") for below in self.uploads)

    async def _counted(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = CountedBody(receive, send, self.max_body)
        try:
            await self.app(scope, body.receive, body.send)
        except* BodyTooLarge:
            pass
        finally:
            # Also when the app swallowed the error or turned it into another. Once a response has begun, no error can
            # be sent: returning with it incomplete makes the server disconnect.
            if body.over and not body.started:
                await refuse(receive, send, self._too_large, close=True)


class CountedBody:
    """Reads a body of unknown length, up to the limit. Beyond it, the app can neither read nor send."""

    def __init__(self, receive: Receive, send: Send, limit: int) -> None:
        self._receive = receive
        self._send = send
        self._left = limit
        self.over = False
        self.started = False

    async def receive(self) -> Message:
        if not self.over:
            message = await self._receive()
            if message["type"] == "http.request":
                self._left -= len(message.get("body", b""))
                self.over = self._left < 0
            if not self.over:
                return message
        raise BodyTooLarge

    async def send(self, message: Message) -> None:
        if self.over:
            raise BodyTooLarge
        if message["type"] == "http.response.start":
            self.started = True
        await self._send(message)


async def refuse(receive: Receive, send: Send, refusal: Refusal, *, close: bool) -> None:
    await send({"type": "http.response.start", "status": refusal.status, "headers": answer_headers(refusal, close)})
    await send({"type": "http.response.body", "body": refusal.body, "more_body": close})
    if close:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER):
                while (await receive()).get("more_body"):
                    pass
        await send({"type": "http.response.body", "body": b""})


async def refuse_websocket(scope: Scope, receive: Receive, send: Send, refusal: Refusal) -> None:
    await receive()  # the connect event
    if "websocket.http.response" not in (scope.get("extensions") or {}):
        await send({"type": "websocket.close", "code": 1008, "reason": refusal.code})  # the server answers 403
        return
    headers = answer_headers(refusal, close=True)
    await send({"type": "websocket.http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": refusal.body})


def refusal_of(error: KhoError, body: bytes) -> Refusal:
    headers = [(name.encode(), value.encode()) for name, value in error_headers(error).items()]
    return Refusal(error.status, error.code, error.message, body, headers)


def answer_headers(refusal: Refusal, close: bool) -> list[tuple[bytes, bytes]]:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(refusal.body))]
    headers += refusal.headers
    return [*headers, (b"connection", b"close")] if close else headers


def host_rule(patterns: Sequence[str]) -> Allowed:
    ports: dict[str, set[int] | None] = {}  # None: any port
    for pattern in patterns:
        name = pattern.removesuffix(":*")
        parsed = split_authority(name)
        if parsed is None or "*" in name:
            raise ValueError(f"not a host name, with or without a port: {pattern!r}")
        host, port = parsed
        known = ports.setdefault(host, set())
        if port is None:
            ports[host] = None
        elif known is not None:
            known.add(port)

    def allowed(value: bytes) -> bool:
        parsed = split_authority(value.decode("latin-1"))
        if parsed is None or parsed[0] not in ports:
            return False
        host, port = parsed
        known = ports[host]
        # Behind a proxy the scheme may be unknown, so a missing port matches either default.
        return known is None or (port in known if port is not None else not known.isdisjoint((80, 443)))

    return allowed


def origin_rule(patterns: Sequence[str]) -> Allowed:
    exact: set[tuple[str, str, int | None]] = set()
    any_port: set[tuple[str, str]] = set()
    for pattern in patterns:
        name = pattern.removesuffix(":*")
        parsed = split_origin(name)
        if parsed is None or "*" in name:
            raise ValueError(f"not an origin such as 'https://kho.example' or 'http://localhost:*': {pattern!r}")
        if name == pattern:
            exact.add(parsed)
        else:
            any_port.add(parsed[:2])

    def allowed(value: bytes) -> bool:
        parsed = split_origin(value.decode("latin-1"))
        return parsed is not None and (parsed in exact or parsed[:2] in any_port)

    return allowed


def split_origin(text: str) -> tuple[str, str, int | None] | None:
    """Return scheme, host and port, with the scheme's default port filled in; None for `null` and anything else that is
    not an origin."""
    scheme, found, rest = text.partition("://")
    parsed = split_authority(rest) if found else None
    if parsed is None:
        return None
    scheme = scheme.lower()
    return scheme, parsed[0], DEFAULT_PORTS.get(scheme) if parsed[1] is None else parsed[1]


def split_authority(text: str) -> tuple[str, int | None] | None:
    """Return the normalised host and the port, if there is one; None if the text cannot be parsed."""
    host, closing, rest = text.partition("]")
    if closing:
        try:
            host = f"[{ipaddress.IPv6Address(host.removeprefix('['))}]"
        except ValueError:
            return None
        colon, port = rest[:1], rest[1:]
        if not text.startswith("[") or colon not in ("", ":"):
            return None
    else:
        host, _, port = text.partition(":")
        host = host.removesuffix(".").lower()
    if not host or not host.isascii() or any(sign in host for sign in "/@?# \t"):
        return None
    if not port:
        return host, None
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and int(port) < 65536):
        return None
    return host, int(port)


def is_address(host: bytes, scope: Scope) -> bool:
    """True if a request from elsewhere addresses the hub by an IP address. A web page can make a browser send a foreign
    name here (DNS rebinding), but not a foreign address; and whoever comes from elsewhere needs a key."""
    parsed = split_authority(host.decode("latin-1"))
    own = (scope.get("server") or ("",))[0]
    try:
        return parsed is not None and bool(ipaddress.ip_address(parsed[0].strip("[]"))) and not is_loopback(own)
    except ValueError:
        return False


def is_json(value: bytes) -> bool:
    """True for `application/json` or `application/*+json`; a charset, if given, must be UTF-8."""
    kind, *params = value.decode("latin-1").lower().split(";")
    main, _, sub = kind.strip().partition("/")
    if main != "application" or not (sub == "json" or (sub.endswith("+json") and len(sub) > 5)):
        return False
    if not TOKEN.issuperset(sub):
        return False
    for param in params:
        name, _, text = param.partition("=")
        if name.strip() == "charset" and text.strip().strip('"') not in ("utf-8", "utf8"):
            return False
    return True
