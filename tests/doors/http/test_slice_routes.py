"""What a slice serves beside its operations: pages, event streams and WebSockets, asked over real sockets."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from tests.doors.doors import PLAIN, Json, Served, bearer, new_key, served
from tests.doors.web_capability import Shop
from tests.timeouts import PATIENCE

from kho.app import open_hub
from kho.doors.auth.credentials import Auth
from kho.doors.auth.revocation import Revocation
from kho.doors.http import guard
from kho.doors.http.event_stream import EventStreams
from kho.doors.http.gc_tuning import GcFreezer
from kho.doors.http.slice_routes import WebDoor
from kho.kernel import Background
from kho.settings import Settings


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
async def hub(settings: Settings, shop: Shop) -> AsyncIterator[Served]:
    async with served(settings, shop.capability) as hub:
        yield hub


@pytest.fixture(autouse=True)
def short_linger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "LINGER", 0.1)


# -- pages -------------------------------------------------------------------------------------------------------------


async def test_an_open_page_gets_the_whole_request_and_needs_no_credential(hub: Served, shop: Shop) -> None:
    answer = await hub.post("/shop/open/?a=1&b=%C4%91", b"{}", X_Board="One")
    assert answer.status_code == 200
    assert answer.headers["x-shop"] == "open"
    assert answer.json() == {"size": 2, "sub": None}
    request = shop.seen[0]
    assert (request.method, request.path, request.peer, request.scheme) == ("POST", "/shop/open/", "127.0.0.1", "http")
    assert request.query == {"a": "1", "b": "đ"}
    assert request.headers["x-board"] == "One"
    assert (await hub.get("/shop/open")).status_code == 200, "the slash at the end may be left off"
    assert (await hub.http.put("/shop/open/")).status_code == 405


async def test_an_error_of_a_page_is_told_in_json(hub: Served) -> None:
    answer = await hub.get("/shop/open/?fail=1")
    assert answer.status_code == 409
    assert answer.json()["error"] == {"code": "CONFLICT", "message": "The shop is shut."}
    own = await hub.post("/shop/upload?fail=1", b"{}")
    assert (own.status_code, own.json()) == (409, {"ok": False, "why": "CONFLICT"})


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_over_the_page_s_own_cap_is_refused(hub: Served, shop: Shop, chunked: bool) -> None:
    async def pieces(size: int) -> AsyncIterator[bytes]:
        for _ in range(0, size, 100):
            yield b"7" * 100

    async def send(path: str, size: int) -> httpx2.Response:
        content: Any = pieces(size) if chunked else b"7" * size
        return await hub.http.post(path, content=content, headers={"content-type": "application/json"})

    assert (await send("/shop/open/", 1000)).json()["size"] == 1000
    refused = await send("/shop/open/", 1100)
    assert (refused.status_code, refused.json()["error"]["code"]) == (413, "BODY_TOO_LARGE")
    own = await send("/shop/upload", 100_100)
    assert (own.status_code, own.json()) == (413, {"ok": False, "why": "BODY_TOO_LARGE"})
    assert len(shop.seen) == 1


async def test_only_an_upload_need_not_be_json(hub: Served) -> None:
    plain = {"content-type": "image/jpeg"}
    assert (await hub.http.post("/shop/open/", content=b"x", headers=plain)).status_code == 415
    assert (await hub.http.post("/shop/upload", content=b"x", headers=plain)).json()["size"] == 1


async def test_a_page_that_is_not_open_needs_a_key_with_its_scope(settings: Settings, shop: Shop) -> None:
    key = await new_key(settings, "acme", "shop:write")
    other = await new_key(settings, "acme", "shop:read")
    async with served(settings, shop.capability) as hub:
        assert (await hub.post("/shop/closed", {}, **bearer(key))).json()["sub"] == "bot"
        assert (await hub.post("/shop/closed", {}, **bearer(other))).status_code == 403
        refused = await hub.post("/shop/closed", {})
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
        assert (await hub.post("/shop/open/", {})).status_code == 200


async def test_without_keys_even_open_pages_answer_this_machine_only(hub: Served) -> None:
    transport = httpx2.ASGITransport(app=hub.app, client=("192.168.1.7", 40000))
    async with httpx2.AsyncClient(transport=transport, base_url=hub.url, verify=PLAIN) as http:
        for path in ("/shop/open/", "/shop/events"):
            assert (await http.get(path)).status_code == 401
        assert (await http.post("/shop/upload", json={})).json() == {"ok": False, "why": "UNAUTHORIZED"}
    sent: list[Json] = []
    scope: Json = {
        "type": "websocket", "path": "/shop/ws/", "scheme": "ws", "query_string": b"", "client": ("192.168.1.7", 1),
        "headers": [(b"host", b"localhost")], "extensions": {"websocket.http.response": {}},
    }  # fmt: skip

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    await hub.app(scope, receive, send)
    assert sent[0]["status"] == 401


async def test_openapi_lists_them(hub: Served) -> None:
    paths = (await hub.get("/openapi.json")).json()["paths"]
    assert set(paths["/shop/open/"]) == {"get", "post"}
    assert paths["/shop/open/"]["get"]["security"] == [{}]
    assert "multipart/form-data" in paths["/shop/upload"]["post"]["requestBody"]["content"]
    assert "text/event-stream" in paths["/shop/events"]["get"]["responses"]["200"]["content"]
    assert "101" in paths["/shop/ws/"]["get"]["responses"]


# -- streams -----------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def listening(hub: Served, **headers: str) -> AsyncGenerator[AsyncIterator[str], None]:
    async with asyncio.timeout(PATIENCE), hub.http.stream("GET", "/shop/events", headers=headers) as response:
        assert response.status_code == 200
        assert response.headers["content-type"] == "text/event-stream"
        lines = response.aiter_lines()
        assert await anext(lines) == ": listening"
        assert await anext(lines) == ""
        yield lines


async def test_events_reach_the_listener_in_order_with_the_tenant_of_the_credential(
    settings: Settings, shop: Shop
) -> None:
    key = await new_key(settings, "acme", "shop:read")
    async with served(settings, shop.capability) as hub:
        assert (await hub.get("/shop/events")).status_code == 401
        async with listening(hub, **bearer(key)) as lines:
            for number in (1, 2):
                shop.happenings.put_nowait(("news", number))
                assert await anext(lines) == "event: news"
                data = (await anext(lines)).removeprefix("data: ")
                assert json.loads(data) == {"tenant": "acme", "value": number}
                assert await anext(lines) == ""
            shop.happenings.put_nowait(("end", None))
            assert [line async for line in lines] == []
        assert shop.listening == 0


async def test_a_listener_who_leaves_leaves_nothing_behind(hub: Served, shop: Shop) -> None:
    async with listening(hub):
        assert shop.listening == 1
    async with asyncio.timeout(PATIENCE):
        await shop.ended.wait()
    assert shop.listening == 0


async def test_the_stream_ends_when_the_hub_stops(
    settings: Settings, shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    async with httpx2.AsyncClient(timeout=PATIENCE, trust_env=False, verify=PLAIN) as http:
        async with served(settings, shop.capability) as hub:
            response = await http.send(http.build_request("GET", f"{hub.url}/shop/events"), stream=True)
        assert await response.aread() == b": listening\n\n"
    assert shop.listening == 0
    assert "timeout graceful shutdown exceeded" not in caplog.text


async def test_a_silent_stream_is_kept_open_by_comments_that_cost_no_event(settings: Settings, shop: Shop) -> None:
    async with open_hub(settings) as hub:
        auth = Auth(hub, other_accounts=True)  # the connection is invented, so it belongs to no account
        checkpoint, web = hub.registry.checkpoint, shop.capability.web
        door = WebDoor(
            auth, checkpoint, web, GcFreezer(), Revocation(auth, Background()), EventStreams(0.01), hub.limiter
        )
        frames: asyncio.Queue[bytes] = asyncio.Queue()
        gone = asyncio.Event()

        async def receive() -> Any:
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            frames.put_nowait(message.get("body", b""))

        stream = next(route for route in door.routes() if getattr(route, "path", "") == "/shop/events")
        scope: Json = {
            "type": "http", "method": "GET", "path": "/shop/events", "scheme": "http", "query_string": b"",
            "headers": [], "client": ("127.0.0.1", 1),
        }  # fmt: skip
        asking = asyncio.ensure_future(stream.handle(scope, receive, send))
        async with asyncio.timeout(PATIENCE):
            while await frames.get() != b": still here\n\n":
                pass
            shop.happenings.put_nowait(("news", 1))
            while not (frame := await frames.get()).startswith(b"event: news"):
                assert frame == b": still here\n\n"
            gone.set()
            await asking
        assert shop.listening == 0
