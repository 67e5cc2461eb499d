"""Bodies that do not end: what of them is held is a share of the tenant's, and of the process's."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx2
import pytest
from tests.doors.doors import Served, bearer, new_key, served
from tests.doors.web_capability import Shop
from tests.stores.fill import until
from tests.timeouts import PATIENCE

from kho.doors.http import guard
from kho.kernel.errors import TooManyRequests
from kho.kernel.limits.bodies import FREE, Bodies
from kho.kernel.limits.settings import LimitSettings
from kho.settings import Settings

pytestmark = pytest.mark.anyio
MOST = 1_000_000
PART = 400_000
"""Sent of each body, and no more: three of them are over MOST."""
DOORS = ("/jsonrpc", "/actions", "/mcp")


@pytest.fixture(autouse=True)
def short_linger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "LINGER", 0.1)


def limited(settings: Settings, **limits: int) -> Settings:
    return settings.model_copy(update={"limits": LimitSettings(**limits)})


def endless(path: str, key: str) -> bytes:
    lines = (
        f"POST {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {key}", "Content-Type: application/json",
        "Content-Length: 8000000", "", "",
    )  # fmt: skip
    return "\r\n".join(lines).encode() + b" " * PART


@asynccontextmanager
async def held(hub: Served, *requests: bytes) -> AsyncGenerator[list[asyncio.Task[bytes]]]:
    """Connections on which that was sent, and what comes back on each."""
    writers: list[asyncio.StreamWriter] = []
    answers: list[asyncio.Task[bytes]] = []
    try:
        for request in requests:
            reader, writer = await asyncio.open_connection("127.0.0.1", int(hub.url.rpartition(":")[2]))
            writers.append(writer)
            writer.write(request)
            answers.append(asyncio.create_task(reader.read()))
        yield answers
    finally:
        for writer in writers:
            writer.close()
        for answer in answers:
            answer.cancel()
        await asyncio.gather(*answers, return_exceptions=True)


async def first(answers: list[asyncio.Task[bytes]]) -> str:
    done, _ = await asyncio.wait(answers, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
    [one] = done
    return one.result().decode()


async def sent(hub: Served, key: str, size: int) -> httpx2.Response:
    """A whole request of that size."""
    return await hub.post("/actions", b'{"action": "list_facts", "payload": {}}' + b" " * size, **bearer(key))


@pytest.mark.parametrize("path", DOORS)
async def test_a_tenant_s_bodies_that_do_not_end_are_refused_over_its_share(settings: Settings, path: str) -> None:
    mine, other = await new_key(settings), await new_key(settings, "umbrella", "*", "metrics:read")
    async with served(limited(settings, bodies=MOST)) as hub:
        async with held(hub, *[endless(path, mine)] * 3) as answers:
            refusal = await first(answers)
            assert refusal.startswith("HTTP/1.1 429 ")
            assert "retry-after: 1" in refusal
            assert "KHO_LIMITS__BODIES" in refusal
            assert [one.done() for one in answers].count(True) == 1, "the others may go on"
            assert "KHO_LIMITS__BODIES" in (await sent(hub, mine, PART)).text
            assert (await sent(hub, mine, FREE - 1_000)).status_code == 200, "small ones are not counted"
            assert (await sent(hub, other, PART)).status_code == 200
        await until(lambda: _takes(hub, mine))
        assert 'kho_refused_total{limit="bodies"}' in (await hub.get("/metrics", **bearer(other))).text


async def test_all_tenants_together_have_a_share_of_the_process(settings: Settings) -> None:
    mine, other = await new_key(settings), await new_key(settings, "umbrella")
    async with served(limited(settings, all_bodies=MOST)) as hub:
        async with held(hub, *[endless("/jsonrpc", mine)] * 2, endless("/jsonrpc", other)) as answers:
            assert "KHO_LIMITS__ALL_BODIES" in await first(answers)
            assert (await sent(hub, other, FREE - 1_000)).status_code == 200
        await until(lambda: _takes(hub, mine))


async def _takes(hub: Served, key: str) -> bool:
    return (await sent(hub, key, PART)).status_code == 200


async def test_a_page_counts_what_is_sent_to_it_for_the_address_and_says_it_in_its_own_form(settings: Settings) -> None:
    shop = Shop()
    await new_key(settings)
    async with served(limited(settings, bodies=10_000), shop.capability) as hub:
        answer = await hub.http.post("/shop/upload", content=b"x" * 99_000, headers={"content-type": "image/jpeg"})
        assert (answer.status_code, answer.json()["why"]) == (429, "RATE_LIMITED")
        assert answer.headers["retry-after"] == "1"
        small = await hub.http.post("/shop/upload", content=b"x" * FREE, headers={"content-type": "image/jpeg"})
        assert small.json()["size"] == FREE
    assert len(shop.seen) == 1


def test_this_machine_s_user_has_the_share_of_the_process_alone() -> None:
    bodies = Bodies(LimitSettings(bodies=10, all_bodies=100))
    with bodies.held(None) as count:
        count(FREE + 100)
        with pytest.raises(TooManyRequests, match="100 bytes of request bodies held at once"):
            count(1)
    with bodies.held("acme") as count, bodies.held("acme") as further:
        count(FREE + 10)
        further(FREE)
        with pytest.raises(TooManyRequests, match="of one tenant"):
            further(1)
    with bodies.held("acme") as count:
        count(FREE + 10)


def test_zero_is_no_limit() -> None:
    with Bodies(LimitSettings(bodies=0, all_bodies=0)).held("acme") as count:
        count(10**12)
