"""Who finds what: two tenants, every combination of scopes, both databases; at `search`, `fetch`, `recent`, `more` and
`/open/…`."""

import re
from collections.abc import AsyncIterator
from itertools import chain, combinations
from pathlib import Path

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from tests.doors.doors import MODERN, PLAIN, Json, Served, add_key, bearer, listening
from tests.recall.conftest import SCOPES, Desk, settings_of
from tests.timeouts import PATIENCE

from kho.app import open_hub
from kho.doors.http.app import Application
from kho.kernel.hub import Hub

OURS = "The kestrel nests on the old water tower zq4711."
THEIRS = "The kestrel has left the harbour xw9402."
QUERY = "kestrel"
COMBINATIONS = [*chain.from_iterable(combinations(SCOPES, size) for size in range(len(SCOPES) + 1))]


@pytest.fixture(params=["sqlite", "postgres"])
async def house(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Hub, Served]]:
    url = None if request.param == "sqlite" else request.getfixturevalue("postgres_schema_url")
    settings = settings_of(tmp_path / "home", url)
    async with open_hub(settings) as hub:

        class Opened:
            async def __aenter__(self) -> Hub:
                return hub

            async def __aexit__(self, *error: object) -> None:
                return None

        app = Application(Opened, settings.http, settings.mcp)
        async with listening(app) as (address, http):
            yield hub, Served(address, app, http)


async def test_nobody_finds_more_than_the_scopes_and_the_tenant_allow(house: tuple[Hub, Served]) -> None:
    hub, served = house
    ours, theirs = Desk(hub, "acme"), Desk(hub, "globex")
    ids, foreign = await ours.fill(OURS), await theirs.fill(THEIRS)
    await theirs.do("create_document", document_id="theirs-alone", content={"body": THEIRS})
    await theirs.do("memory_add_message", conversation_id="theirs", role="user", content=THEIRS)
    asked = {*ids.values(), *foreign.values(), "doc:theirs-alone", "msg:theirs/1", "fact:nothing"}
    unknown: dict[int, set[str]] = {}
    for chosen in COMBINATIONS:
        scopes = [SCOPES[kind] for kind in chosen] or ["tools:use"]
        caller, key = ours.as_("acme", *scopes), await add_key(hub, "acme", *scopes, sub="-".join(chosen) or "none")
        if not chosen:
            for tool, arguments in (("search", {"query": QUERY}), ("fetch", {"id": ids["fact"]}), ("recent", {})):
                assert (await caller.refused(tool, **arguments)).status == 403
            assert (await served.get(f"/open/{ids['fact']}", **bearer(key))).status_code == 403
            continue
        results = await caller.found(QUERY, limit=50)
        recent = (await caller.do("recent", limit=50))["results"]
        for found in (results, recent):
            assert {one["id"] for one in found} == {ids[kind] for kind in chosen}, chosen
            assert "xw9402" not in str(found)
        for kind in SCOPES:
            if kind not in chosen:
                assert (await caller.refused("search", query=QUERY, kinds=[kind])).status == 403
        for id in asked:
            mine = id in {ids[kind] for kind in chosen}
            answer = await caller.ask("fetch", {"id": id})
            page = await served.get(f"/open/{id.replace('/', '%2F')}", **bearer(key))
            assert page.status_code == (200 if mine else 404), (chosen, id)
            assert ("zq4711" in page.text) is mine
            assert "xw9402" not in page.text
            assert isinstance(answer, dict) is mine
            assert "xw9402" not in str(answer)
            if not mine:
                unknown.setdefault(page.status_code, set()).add(page.text)
    assert [len(texts) for texts in unknown.values()] == [1]  # the same page for unknown, foreign and out of scope


async def test_more_runs_them_under_the_same_checkpoint(house: tuple[Hub, Served]) -> None:
    hub, served = house
    ids = await Desk(hub, "acme").fill(OURS)
    foreign = await Desk(hub, "globex").fill(THEIRS)
    for chosen in COMBINATIONS[1:]:
        key = await add_key(hub, "acme", *(SCOPES[kind] for kind in chosen), sub="-".join(chosen))
        async with (
            httpx2.AsyncClient(headers=bearer(key), verify=PLAIN, trust_env=False, timeout=PATIENCE) as http,
            Client(streamable_http_client(f"{served.url}/mcp?tools=more", http_client=http), mode=MODERN) as client,
        ):

            async def more(tool: str, client: Client = client, **arguments: object) -> Json:
                result = await client.call_tool("more", {"tool": tool, "arguments": arguments})
                return result.structured_content or {}

            listed = str((await client.call_tool("more", {})).content)
            assert all(re.search(rf"- {tool}:", listed) for tool in ("search", "fetch", "recent"))
            for found in (await more("search", query=QUERY), await more("recent")):
                assert {one["id"] for one in found["results"]} == {ids[kind] for kind in chosen}
                assert "xw9402" not in str(found)
            for id in (*ids.values(), *foreign.values()):
                assert ("text" in await more("fetch", id=id)) is (id in {ids[kind] for kind in chosen})


async def test_a_store_without_the_caller_s_data_counts_nothing(house: tuple[Hub, Served]) -> None:
    hub, _ = house
    await Desk(hub, "globex").fill(THEIRS)
    assert await Desk(hub, "acme").do("search", query=QUERY) == {"results": []}
    assert await Desk(hub, "acme").do("recent") == {"results": []}


async def test_a_stranger_gets_no_page(house: tuple[Hub, Served]) -> None:
    hub, served = house
    ids = await Desk(hub, "acme").fill(OURS)
    await add_key(hub, "acme")
    for headers in ({}, bearer("kho_nonsense")):
        answer = await served.get(f"/open/{ids['fact']}", **headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "UNAUTHORIZED")
