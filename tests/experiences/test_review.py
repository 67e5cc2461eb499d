"""Records that wait for an approval: nobody but their submitter and the reviewers finds them, in no way there is."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from tests.doors.doors import MODERN, PLAIN, Json, Served, bearer, kho, new_key, served

from kho.settings import Settings

RECORD = {
    "title": "Kestrel cache is stale",
    "problem_description": "stale kestrel cache",
    "solution": "restart the kestrel",
}


@dataclass
class Room:
    hub: Served
    settings: Settings
    keys: dict[str, str]

    async def ask(self, who: str, method: str, server: str = "experiences-server", /, **params: Any) -> Json:
        body = {"jsonrpc": "2.0", "id": 1, "method": f"{server}/{method}", "params": params}
        answer: Json = (await self.hub.post("/jsonrpc", body, **bearer(self.keys[who]))).json()
        return answer.get("result") or answer["error"]

    async def submit(self, who: str = "author") -> str:
        answer = await self.ask(who, "submit_experience", **RECORD)
        assert answer["data"].keys() == {"id", "status", "message"}
        assert answer["data"]["status"] == "waiting"
        return answer["data"]["id"]

    async def everything(self, who: str) -> str:
        """All that this caller can find of the tenant's records."""
        asked = [
            await self.ask(who, "query_experiences", keywords="kestrel cache stale"),
            await self.ask(who, "export_experiences", include_deleted=True),
            await self.ask(who, "list_waiting_experiences"),
            await self.ask(who, "search", "recall-server", query="kestrel cache stale"),
            await self.ask(who, "recent", "recall-server", limit=20),
            await self.ask(who, "submit_experience", **{**RECORD, "title": "Kestrel cache is stale again"}),
        ]
        return json.dumps(asked)


@pytest.fixture(params=["sqlite", "postgres"])
async def room(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Room]:
    url = request.getfixturevalue("postgres_schema_url") if request.param == "postgres" else None
    settings = Settings.model_validate(
        {"home": tmp_path / "home", "database_url": url, "experiences": {"review": True}, "local": {"tenant": "acme"}}
    )
    plain = ("exp:read", "exp:write")
    keys = {
        "author": await new_key(settings, "acme", *plain, sub="author"),
        "other": await new_key(settings, "acme", *plain, sub="other"),
        "reviewer": await new_key(settings, "acme", *plain, "exp:review", sub="reviewer"),
        "inspector": await new_key(settings, "acme", "exp:read", "exp:review", sub="inspector"),
        "admin": await new_key(settings, "acme", "*", "admin", sub="admin"),
        "foreign": await new_key(settings, "other-tenant", "*", "admin", sub="author"),
    }
    async with served(settings) as hub:
        yield Room(hub, settings, keys)


async def test_a_waiting_record_is_seen_by_its_submitter_and_reviewers_alone(room: Room) -> None:
    id = await room.submit()
    own = (await room.ask("author", "get_experience", id=id))["data"]
    assert (own["id"], own["waiting"], own["submitted_by"]) == (id, True, "author")
    assert [one["id"] for one in (await room.ask("author", "list_waiting_experiences"))["data"]["experiences"]] == [id]
    for who in ("reviewer", "inspector", "admin"):
        assert (await room.ask(who, "get_experience", id=id))["data"]["waiting"] is True
        assert id in json.dumps(await room.ask(who, "list_waiting_experiences"))
    unknown = "00000000-0000-4000-8000-000000000000"
    for who in ("other", "foreign"):
        assert id not in await room.everything(who)
        for method in ("get_experience", "rate_experience", "delete_experience", "restore_experience"):
            more = {"helpful": True} if method == "rate_experience" else {}
            told = await room.ask(who, method, id=id, **more)
            assert told["success"] is False
            assert told == await room.ask(who, method, id=unknown, **more)
        assert (await room.ask(who, "query_experiences", ids=[id]))["data"]["total"] == 0
    assert (await room.ask("author", "query_experiences", keywords="kestrel"))["data"]["total"] == 0


async def test_once_approved_everybody_finds_it(room: Room) -> None:
    id = await room.submit()
    approved = await room.ask("reviewer", "approve_experience", id=id)
    assert approved["data"] == {"id": id, "revision": 1, "message": "Approved. Everybody finds it now."}
    found = (await room.ask("other", "query_experiences", keywords="kestrel cache stale"))["data"]
    assert [one["id"] for one in found["experiences"]] == [id]
    assert "waiting" not in found["experiences"][0]
    assert "waiting" not in (await room.ask("author", "get_experience", id=id))["data"]
    assert (await room.ask("admin", "list_waiting_experiences"))["data"]["experiences"] == []
    assert (await room.ask("reviewer", "approve_experience", id=id))["error"]["code"] == "NOT_FOUND"
    trail = (await room.ask("admin", "audit_log", "audit-server", limit=10))["entries"]
    assert [(one["action"], one["actor"], one["subject"]) for one in trail] == [
        ("approve_experience", "reviewer", id),
        ("submit_experience", "author", id),
    ]


async def test_once_rejected_nobody_finds_it(room: Room) -> None:
    id = await room.submit()
    rejected = await room.ask("admin", "reject_experience", id=id, reason="known already")
    assert rejected["success"] is True
    for who in ("author", "other", "reviewer"):
        assert (await room.ask(who, "get_experience", id=id))["error"]["code"] == "NOT_FOUND"
    entry = (await room.ask("admin", "audit_log", "audit-server", limit=1))["entries"][0]
    assert (entry["action"], entry["actor"], entry["reason"]) == ("reject_experience", "admin", "known already")


async def test_only_reviewers_decide_and_nobody_goes_around_them(room: Room) -> None:
    id = await room.submit()
    for who in ("author", "other"):
        for method in ("approve_experience", "reject_experience"):
            assert (await room.ask(who, method, id=id))["error"]["code"] == "FORBIDDEN"
        assert (await room.ask(who, "import_experiences", experiences=[RECORD]))["error"]["code"] == "FORBIDDEN"
    assert (await room.ask("foreign", "approve_experience", id=id))["error"]["code"] == "NOT_FOUND"
    await room.ask("reviewer", "approve_experience", id=id)
    changed = {"id": id, "expected_revision": 1, "solution": "something else"}
    assert (await room.ask("author", "update_experience", **changed))["error"]["code"] == "FORBIDDEN"
    assert (await room.ask("reviewer", "update_experience", **changed))["success"] is True


async def test_a_record_that_a_reviewer_took_away_stays_away(room: Room) -> None:
    id = await room.submit()
    await room.ask("reviewer", "approve_experience", id=id)
    for who in ("author", "other"):
        assert (await room.ask(who, "delete_experience", id=id))["error"]["code"] == "FORBIDDEN"
    assert (await room.ask("reviewer", "delete_experience", id=id, reason="harmful"))["success"] is True
    for who in ("author", "other"):
        assert (await room.ask(who, "restore_experience", id=id))["error"]["code"] == "FORBIDDEN"
        assert (await room.ask(who, "get_experience", id=id))["error"]["code"] == "NOT_FOUND"
    assert (await room.ask("reviewer", "restore_experience", id=id))["success"] is True
    assert (await room.ask("other", "get_experience", id=id))["success"] is True


async def test_two_reviewers_at_once(room: Room) -> None:
    id = await room.submit()
    answers = await asyncio.gather(*(room.ask(who, "approve_experience", id=id) for who in ("reviewer", "admin")))
    assert sorted(one["success"] for one in answers) == [False, True]
    assert (await room.ask("other", "query_experiences", keywords="kestrel"))["data"]["total"] == 1


async def test_pages(room: Room) -> None:
    ids = [await room.submit() for _ in range(3)]
    first = (await room.ask("author", "list_waiting_experiences", limit=2))["data"]
    rest = (await room.ask("author", "list_waiting_experiences", limit=2, cursor=first["next_cursor"]))["data"]
    assert [one["id"] for one in first["experiences"] + rest["experiences"]] == ids
    assert "next_cursor" not in rest


async def test_the_other_doors(room: Room, tmp_path: Path) -> None:
    reply = await room.hub.act("submit_experience", RECORD, key=room.keys["author"], request_id="r-1")
    id = reply.json()["result"]["data"]["id"]
    again = await room.hub.act("submit_experience", RECORD, key=room.keys["author"], request_id="r-1")
    assert again.json() == reply.json()
    assert (await room.hub.act("get_experience", {"id": id}, key=room.keys["other"])).status_code == 404
    async with (
        httpx2.AsyncClient(headers=bearer(room.keys["reviewer"]), verify=PLAIN, trust_env=False) as http,
        Client(streamable_http_client(f"{room.hub.url}/mcp?tools=all", http_client=http), mode=MODERN) as client,
    ):
        listed: Any = (await client.call_tool("list_waiting_experiences", {})).structured_content
        assert [one["id"] for one in listed["data"]["experiences"]] == [id]
    if room.settings.database_url is None:  # the command line is the machine's own user, who may do everything
        env = {"KHO_EXPERIENCES__REVIEW": "true", "KHO_LOCAL__TENANT": "acme"}
        waiting = await kho(room.settings.home, "experiences", "waiting", env=env)
        assert id in waiting.out, waiting.err
        approved = await kho(room.settings.home, "experiences", "approve", id, env=env)
        assert approved.status == 0, approved.err
        assert (await room.ask("other", "get_experience", id=id))["success"] is True


async def test_it_is_off_by_default(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home", database_url=None)
    key = await new_key(settings, "acme", "exp:read", "exp:write")
    async with served(settings) as hub:
        answer = (await hub.act("submit_experience", RECORD, key=key)).json()["result"]["data"]
        assert answer["status"] == "published"
        listed = (await hub.act("list_waiting_experiences", {}, key=key)).json()["result"]["data"]
        assert listed["experiences"] == []
