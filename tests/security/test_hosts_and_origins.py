"""A page that somebody visits reaches nothing: every route of the application with every Host and Origin, on raw sockets.

By DNS rebinding a browser sends a foreign Host to the loopback, and across origins a foreign Origin. Routes are read
from the application, WebSockets and event streams among them, so that a new one is walked by itself.
"""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from tests.doors.doors import Served, new_key, served
from tests.security.raw_http import Target, asked, targets

from kho.app import open_hub
from kho.kernel.call import Call
from kho.settings import Settings, local_principal

GUARD = {"BAD_HOST": 400, "HOST_NOT_ALLOWED": 421, "ORIGIN_NOT_ALLOWED": 403}
"""How the guard refuses, before any route sees the request."""

HOSTS: dict[str, str] = {
    "127.0.0.1:{port}": "",
    "127.0.0.1": "",
    "localhost": "",
    "localhost:1": "",
    "LocalHost:{port}": "",
    "localhost.": "",
    "[::1]:{port}": "",
    "[0:0:0:0:0:0:0:1]": "",
    "evil.test": "HOST_NOT_ALLOWED",
    "127.0.0.1.evil.test": "HOST_NOT_ALLOWED",
    "localhost.evil.test:{port}": "HOST_NOT_ALLOWED",
    "evil.test:{port}": "HOST_NOT_ALLOWED",
    "localhost@evil.test": "HOST_NOT_ALLOWED",
    "user@localhost": "HOST_NOT_ALLOWED",
    "user:secret@127.0.0.1:{port}": "HOST_NOT_ALLOWED",
    "http://localhost": "HOST_NOT_ALLOWED",
    "localhost/": "HOST_NOT_ALLOWED",
    "localhost,evil.test": "HOST_NOT_ALLOWED",
    "localhost evil.test": "HOST_NOT_ALLOWED",
    "localhost:99999": "HOST_NOT_ALLOWED",
    "localhost:{port}:{port}": "HOST_NOT_ALLOWED",
    "localhost:-1": "HOST_NOT_ALLOWED",
    "localhost..": "HOST_NOT_ALLOWED",
    "[::1": "HOST_NOT_ALLOWED",
    "::1": "HOST_NOT_ALLOWED",
    "[::1].evil.test": "HOST_NOT_ALLOWED",
    "[::1%25lo]": "HOST_NOT_ALLOWED",
    "[::ffff:7f00:1]": "HOST_NOT_ALLOWED",
    "127.0.0.2": "HOST_NOT_ALLOWED",
    "127.1": "HOST_NOT_ALLOWED",
    "2130706433": "HOST_NOT_ALLOWED",
    "0x7f000001": "HOST_NOT_ALLOWED",
    "0.0.0.0:{port}": "HOST_NOT_ALLOWED",
    "192.168.1.7:{port}": "HOST_NOT_ALLOWED",
    "loc\xe0lhost": "HOST_NOT_ALLOWED",
    "": "HOST_NOT_ALLOWED",
}
ORIGINS: dict[str, str] = {
    "http://localhost:5173": "",
    "https://localhost": "",
    "http://127.0.0.1:{port}": "",
    "http://[::1]:8000": "",
    "HTTP://LocalHost:5173": "",
    "http://localhost.:5173": "",
    "null": "ORIGIN_NOT_ALLOWED",
    "": "ORIGIN_NOT_ALLOWED",
    "http://evil.test": "ORIGIN_NOT_ALLOWED",
    "http://evil.test:{port}": "ORIGIN_NOT_ALLOWED",
    "http://localhost.evil.test": "ORIGIN_NOT_ALLOWED",
    "http://127.0.0.1.evil.test": "ORIGIN_NOT_ALLOWED",
    "http://localhost@evil.test": "ORIGIN_NOT_ALLOWED",
    "http://user@localhost": "ORIGIN_NOT_ALLOWED",
    "http://localhost:99999": "ORIGIN_NOT_ALLOWED",
    "http://localhost/page": "ORIGIN_NOT_ALLOWED",
    "http://localhost http://evil.test": "ORIGIN_NOT_ALLOWED",
    "http://[::1].evil.test": "ORIGIN_NOT_ALLOWED",
    "http://[::1": "ORIGIN_NOT_ALLOWED",
    "http://2130706433": "ORIGIN_NOT_ALLOWED",
    "http://0.0.0.0:{port}": "ORIGIN_NOT_ALLOWED",
    "file://": "ORIGIN_NOT_ALLOWED",
    "ftp://localhost": "ORIGIN_NOT_ALLOWED",
    "chrome-extension://abcdefghijklmnop": "ORIGIN_NOT_ALLOWED",
    "localhost": "ORIGIN_NOT_ALLOWED",
}
NAMED: dict[str, str] = {
    "kho.example.org": "",
    "KHO.example.org.:8443": "",
    "hub.lan:8443": "",
    "hub.lan": "HOST_NOT_ALLOWED",
    "hub.lan:8444": "HOST_NOT_ALLOWED",
    "sub.kho.example.org": "HOST_NOT_ALLOWED",
    "kho.example.org.evil.test": "HOST_NOT_ALLOWED",
    "evil-kho.example.org": "HOST_NOT_ALLOWED",
}
"""Hosts of a hub that others reach by these names."""
PAGES: dict[str, str] = {
    "https://kho.example.org": "",
    "https://kho.example.org:443": "",
    "http://kho.example.org": "ORIGIN_NOT_ALLOWED",
    "https://kho.example.org:8443": "ORIGIN_NOT_ALLOWED",
    "https://sub.kho.example.org": "ORIGIN_NOT_ALLOWED",
}
OTHERS = {
    "keyless": {},
    "keyed": {},
    "named": {
        "host": "0.0.0.0",
        "allowed_hosts": ["kho.example.org", "hub.lan:8443"],
        "allowed_origins": ["https://kho.example.org"],
    },
}


@pytest.fixture(scope="module", params=[*OTHERS])
async def hub(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[tuple[str, Served, list[str]]]:
    """Which one, the hub, and the headers of somebody whom it lets in."""
    kind: str = request.param
    home: Path = tmp_path_factory.mktemp(kind) / "home"
    given: dict[str, Any] = {"home": home, "database_url": None, "http": OTHERS[kind]}
    settings = Settings.model_validate(given)
    credential = [] if kind == "keyless" else [f"Authorization: Bearer {await new_key(settings, 'acme', '*', 'admin')}"]
    async with served(settings) as hub:
        yield kind, hub, credential


def verdict(code: str) -> str:
    """What the guard said; nothing if it let the request through to the route, whatever that said."""
    return code if code in GUARD else ""


async def answers(hub: Served, target: Target, headers: list[str], *, form: str = "") -> str:
    port = hub.url.rpartition(":")[2]
    answer = await asked(hub, target.head([line.format(port=port) for line in headers], target=form))
    if (found := verdict(answer.code)) != "":
        assert answer.status == GUARD[found]
    else:
        assert answer.status not in (421, 500), (target, headers, answer)
    return found


async def test_every_route_refuses_every_foreign_host_and_origin(hub: tuple[str, Served, list[str]]) -> None:
    kind, served, credential = hub
    hosts, origins = (HOSTS | NAMED, ORIGINS | PAGES) if kind == "named" else (HOSTS, ORIGINS)
    every = targets(served)
    assert {one.path for one in every if one.socket} >= {"/xiaozhi/v1/", "/devices/ws"}
    assert {(one.method, one.path) for one in every} >= {("GET", "/mcp"), ("GET", "/devices/events")}
    found: dict[tuple[Target, str, str], str] = {}
    for target in every:
        for host in hosts:
            found[target, host, "-"] = await answers(served, target, [f"Host: {host}", *credential])
        for origin in origins:
            headers = ["Host: localhost", f"oRiGiN: {origin}", *credential]
            found[target, "localhost", origin] = await answers(served, target, headers)
    wrong = {key: code for key, code in found.items() if code != (hosts[key[1]] or origins.get(key[2], ""))}
    assert wrong == {}


async def test_the_whole_matrix_on_a_page_a_stream_and_a_socket(hub: tuple[str, Served, list[str]]) -> None:
    _, served, credential = hub
    wrong: dict[tuple[str, str, str], str] = {}
    for target in (Target("POST", "/jsonrpc"), Target("GET", "/devices/events"), Target("GET", "/devices/ws", True)):
        for host, of_host in list(HOSTS.items())[::3]:
            for origin, of_origin in list(ORIGINS.items())[::2]:
                headers = [f"Origin: {origin}", f"Host: {host}", *credential]
                code = await answers(served, target, headers)
                if bool(code) is not bool(of_host or of_origin):
                    wrong[target.path, host, origin] = code
    assert wrong == {}


async def test_a_host_or_an_origin_is_stated_once(hub: tuple[str, Served, list[str]]) -> None:
    _, served, credential = hub
    for target in targets(served):
        for hosts in ([], ["localhost", "localhost"], ["localhost", "evil.test"], ["evil.test", "localhost"]):
            headers = [f"Host: {host}" for host in hosts]
            assert await answers(served, target, [*headers, *credential]) == "BAD_HOST", (target, hosts)
        good, evil = "Origin: http://localhost:5173", "Origin: http://evil.test"
        for pair in ([good, evil], [evil, good]):
            answer = await asked(served, target.head(["Host: localhost", *pair, *credential]))
            # The protocol of WebSockets refuses two by itself, before the guard sees them.
            refused = (400, "") if target.socket else (403, "ORIGIN_NOT_ALLOWED")
            assert (answer.status, answer.code) == refused, (target, pair)


async def test_the_address_of_a_request_names_no_other_host(hub: tuple[str, Served, list[str]]) -> None:
    """A request line may hold a whole address, which counts more than the Host header (RFC 9112, 3.2.2)."""
    _, served, credential = hub
    for target in targets(served):
        for whole in ("http://evil.test", "http://localhost.evil.test:{port}", "http://localhost@evil.test"):
            form = f"{whole}{target.path}".format(port=served.url.rpartition(":")[2])
            answer = await asked(served, target.head(["Host: localhost", *credential], target=form))
            assert (answer.status, answer.code) == (421, "HOST_NOT_ALLOWED"), (target, form, answer)
        form = f"http://localhost{target.path}"
        answer = await asked(served, target.head(["Host: evil.test", *credential], target=form))
        assert verdict(answer.code) == "", (target, answer)


async def test_a_keyed_hub_asks_a_good_host_for_its_key(hub: tuple[str, Served, list[str]]) -> None:
    kind, served, _ = hub
    asked_for: set[int] = set()
    for target in targets(served):
        answer = await asked(served, target.head(["Host: localhost"]))
        if kind != "keyless" and not target.socket and target.path.startswith(("/jsonrpc", "/mcp", "/devices/events")):
            asked_for.add(answer.status)
    assert asked_for == (set() if kind == "keyless" else {401})


async def test_what_the_guard_refuses_is_counted_in_the_audit_trail(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home", database_url=None)
    async with served(settings) as hub:
        for headers, status in (
            ({"host": "evil.test"}, 421),
            ({"host": "also.evil.test"}, 421),
            ({"host": "not a host"}, 421),
            ({"origin": "https://evil.test"}, 403),
        ):
            assert (await hub.get("/health", **headers)).status_code == status
        assert (await hub.get("/health")).status_code == 200
    async with open_hub(settings) as opened:
        call = Call(local_principal(settings, admin=True))
        trail = await opened.registry.call(opened.registry.actions["audit_log"], {"outcome": "refused"}, call)
    counts: dict[tuple[str, str], int] = {}
    for one in trail.value["entries"]:  # a minute may have ended meanwhile
        of = (one["action"], one["subject"])
        counts[of] = counts.get(of, 0) + one["details"]["requests"]
    assert counts == {("check_host", "127.0.0.1"): 3, ("check_origin", "127.0.0.1"): 1}
