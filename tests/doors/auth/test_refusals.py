"""Whoever is refused at a door is in the audit trail: credentials counted, what is not allowed a row each."""

import httpx2
import pytest
from tests.doors.doors import Json, Served, bearer, new_key, served
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from kho.settings import Settings

WRONG = "kho_AAAAAAAAAAAA_wrong"


async def log(hub: Served, key: str, **filters: str) -> list[Json]:
    answer = await hub.act("audit_log", {"outcome": "refused", **filters}, key=key)
    assert answer.status_code == 200, answer.text
    return answer.json()["result"]["entries"]


async def test_every_door_counts_credentials_that_are_missing_or_wrong(settings: Settings) -> None:
    admin = await new_key(settings, "local", "admin")
    plain = await new_key(settings, "local")
    foreign = await new_key(settings, "acme", "*", "admin")
    async with served(settings) as hub:
        asked: list[httpx2.Response] = []
        for headers in ({}, bearer(WRONG), {"authorization": "Basic eDp5"}):
            for path in ("/jsonrpc", "/mcp", "/actions"):
                asked.append(await hub.post(path, {}, **headers))
            for path in ("/servers", "/servers/memory-server/capabilities", "/openapi.json", "/metrics"):
                asked.append(await hub.get(path, **headers))
            asked.append(await hub.get("/devices/events", **headers))
        board = {"device-id": "aa:bb:cc:dd:ee:ff", "client-id": "c", "authorization": "Bearer wrong"}
        photo = await hub.http.post("/vision/explain", files={"file": b"x"}, data={"question": "?"}, headers=board)
        assert {one.status_code for one in [*asked, photo]} == {401}
        with pytest.raises(InvalidStatus) as refused:
            async with connect(f"{hub.url.replace('http', 'ws')}/xiaozhi/v1/", additional_headers=board):
                pass
        assert refused.value.response.status_code == 401
        assert (await hub.get("/health")).status_code == 200
        assert await log(hub, admin) == []  # no row before the minute is over, and nobody waited for one
    async with served(settings) as hub:
        rows = await log(hub, admin)
        assert len(rows) <= 2  # a minute may have ended meanwhile
        assert {(row["slice"], row["action"], row["subject"]) for row in rows} == {("", "authenticate", "127.0.0.1")}
        assert sum(row["details"]["requests"] for row in rows) == len(asked) + 2
        assert await log(hub, admin, subject="127.0.0.1") == rows
        assert await log(hub, plain) == await log(hub, foreign) == []


async def test_what_a_door_itself_does_not_allow_is_a_row(settings: Settings) -> None:
    admin = await new_key(settings, "acme", "admin")
    reader = await new_key(settings, "acme", "exp:read", sub="reader")
    async with served(settings) as hub:
        assert (await hub.get("/devices/events", **bearer(reader))).status_code == 403
        stated = {"sub": "somebody-else"}
        assert (await hub.act("get_experience", {"id": "x"}, key=reader, principal=stated)).status_code == 403
        assert (await hub.act("memory_list", {}, key=reader)).status_code == 403
    async with served(settings) as hub:
        rows = await log(hub, admin)
        assert {(row["slice"], row["action"], row["actor"]) for row in rows} == {
            ("devices", "/devices/events", "reader"),
            ("experiences", "get_experience", "reader"),
            ("memory", "memory_list", "reader"),
        }
        assert len(rows) == 3
