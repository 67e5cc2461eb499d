"""T1: a web page that the user visits reaches a hub on the loopback, by DNS rebinding or across origins."""

from urllib.parse import urlsplit

import pytest
from tests.doors.doors import Served
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

pytestmark = pytest.mark.anyio

HOSTS = {"evil.test": 421, "127.0.0.1.evil.test": 421, "evil.test:80": 421, "": 421}
ORIGINS = {"http://evil.test": 403, "null": 403, "https://localhost.evil.test": 403}
SOCKETS = ("/xiaozhi/v1/", "/devices/ws")


def routes(hub: Served) -> list[tuple[str, str]]:
    """Every route that the hub serves, with one of its methods."""
    found: list[tuple[str, str]] = []
    for route in vars(hub.app)["_routes"]:
        path = route.path.replace("{name}", "memory-server").replace("{id:path}", "doc:x")
        if path not in SOCKETS and path.rstrip("/") not in [socket.rstrip("/") for socket in SOCKETS]:
            found.append((sorted(route.methods - {"HEAD"})[0], path))
    return found


async def test_t01_every_route_refuses_foreign_hosts_and_origins(hub: Served) -> None:
    known = routes(hub)
    assert len(known) > 12
    own = urlsplit(hub.url).netloc
    for method, path in known:
        for host, status in HOSTS.items():
            answer = await hub.http.request(method, path, headers={"host": host}, json={})
            assert answer.status_code == status, (method, path, host)
        for origin, status in ORIGINS.items():
            answer = await hub.http.request(method, path, headers={"host": own, "origin": origin}, json={})
            assert answer.status_code == status, (method, path, origin)


async def test_t01_a_form_of_a_page_is_not_json(hub: Served) -> None:
    for path in ("/jsonrpc", "/actions", "/mcp"):
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
            answer = await hub.http.post(path, content=b"{}", headers={"content-type": kind})
            assert answer.status_code == 415, (path, kind)


@pytest.mark.parametrize("path", SOCKETS)
async def test_t01_a_websocket_of_a_page_is_refused(hub: Served, path: str) -> None:
    address = hub.url.replace("http", "ws") + path
    for headers, status in (({"origin": "http://evil.test"}, 403), ({"origin": "null"}, 403)):
        with pytest.raises(InvalidStatus) as refused:
            await connect(address, additional_headers={"device-id": "aa:01", **headers}, proxy=None)
        assert refused.value.response.status_code == status
