"""Who may call: nobody but this machine's user without keys, and with keys whoever the key names."""

import asyncio
import json
from pathlib import Path

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from tests.doors.doors import ERAS, PLAIN, SERVERS, Json, Served, bearer, kho, new_key, served
from tests.timeouts import PATIENCE

from kho.app import open_hub
from kho.doors.auth.credentials import is_loopback
from kho.experiences.settings import ExperienceSettings
from kho.settings import Http, Settings

KETTLE = {"title": "kettle", "problem_description": "p", "solution": "s"}
ROUTES = ("/servers", "/servers/experiences-server/capabilities", "/openapi.json", "/metrics", "/mcp")


def refused(response: httpx2.Response) -> None:
    """401, with a challenge that names no OAuth: clients would drop the header that they were given."""
    assert response.status_code == 401
    assert response.headers["www-authenticate"] == "Bearer"
    assert response.json()["error"]["code"] == "UNAUTHORIZED"


def everything_in(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir() if file.is_file())


def elsewhere(hub: Served, address: str = "203.0.113.9") -> httpx2.AsyncClient:
    """A caller on another machine. Its Host header is that of a hub that is reached through a tunnel or a proxy."""
    transport = httpx2.ASGITransport(app=hub.app, client=(address, 40000))
    return httpx2.AsyncClient(transport=transport, base_url=hub.url, verify=PLAIN)


# -- without keys ------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("003.access.anonymous")
async def test_without_keys_this_machine_s_user_needs_no_credential(hub: Served) -> None:
    assert (await hub.rpc("submit_experience", KETTLE))["result"]["success"]
    assert (await hub.rpc("query_experiences", {"keywords": "kettle"}))["result"]["data"]["total"] == 1
    for route in ROUTES[:-1]:
        assert (await hub.get(route)).status_code == 200


@pytest.mark.parametrize(
    "address", ["203.0.113.9", "192.168.1.7", "10.0.0.1", "fe80::1", "::ffff:203.0.113.9", "testclient"]
)
async def test_without_keys_nobody_else_gets_an_answer(shared_hub: Served, address: str) -> None:
    async with elsewhere(shared_hub, address) as http:
        for route in ("/jsonrpc", "/actions", "/mcp"):
            refused(await http.post(route, json={}))
        for route in ROUTES:
            refused(await http.get(route))
        assert (await http.get("/health")).status_code == 200


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1"])
async def test_every_loopback_address_is_this_machine(home: Path, address: str) -> None:
    # The connection is invented, so it belongs to no account.
    settings = Settings(home=home, database_url=None, http=Http(other_accounts=True))
    async with served(settings) as hub, elsewhere(hub, address) as http:
        assert (await http.get("/servers")).status_code == 200


def test_which_addresses_stay_on_this_machine() -> None:
    for host in ("127.0.0.1", "localhost", "::1", "[::1]", "127.1.2.3", "::ffff:127.0.0.1"):
        assert is_loopback(host), host
    for host in ("0.0.0.0", "::", "", "kho.example.org", "localhost.example.org", "128.0.0.1", "::ffff:8.8.8.8"):
        assert not is_loopback(host), host


async def test_a_hub_that_others_can_reach_does_not_start_without_keys(home: Path) -> None:
    done = await kho(home, "serve", "--host", "0.0.0.0", "--port", "0")
    assert (done.status, done.out) == (1, "")
    assert "kho keys create" in done.err
    assert "Traceback" not in done.err


# -- keys --------------------------------------------------------------------------------------------------------------


async def test_keys_are_made_listed_and_revoked_on_the_command_line(home: Path, settings: Settings) -> None:
    made = await kho(home, "keys", "create", "chatbot", "--tenant", "acme", "--scope", "exp:read", "--json")
    key: Json = json.loads(made.out)
    assert (made.status, key["name"], key["tenant"], key["scopes"]) == (0, "chatbot", "acme", ["exp:read"])
    text: str = key.pop("key")
    assert key.pop("first")
    assert text.startswith(f"kho_{key['id']}_")

    listed = await kho(home, "keys", "list", "--json")
    assert json.loads(listed.out) == {"keys": [key]}
    assert text not in listed.out
    stored = await asyncio.to_thread(everything_in, home)
    assert key["id"].encode() in stored
    assert text.encode() not in stored
    assert text.removeprefix(f"kho_{key['id']}_").encode() not in stored

    async with served(settings, fresh=0) as hub:  # asks the table every time, not every two seconds
        assert (await hub.get("/servers", **bearer(text))).status_code == 200
        revoked = await kho(home, "keys", "revoke", text)  # the whole key will do
        again = await kho(home, "keys", "revoke", text)
        assert again.status == 1
        assert text not in again.err
        assert (revoked.status, revoked.out) == (0, f"Revoked {key['id']}.\n")
        refused(await hub.get("/servers", **bearer(text)))
        refused(await hub.get("/servers"))  # revoking the last key does not open the hub again
    again = await kho(home, "keys", "revoke", key["id"])
    assert (again.status, again.out) == (1, "")
    assert json.loads((await kho(home, "keys", "list", "--json")).out)["keys"][0]["revoked_at"] is not None


async def test_a_key_for_people_is_shown_once_on_a_line_of_its_own(home: Path) -> None:
    made = await kho(home, "keys", "create", "me")
    assert made.out.startswith("kho_")
    assert made.out.count("\n") == 1
    assert "not shown again" in made.err
    wrong = await kho(home, "keys", "create", "me", "--scope", "everything")
    assert (wrong.status, wrong.out) == (1, "")
    assert "exp:read, exp:review, exp:write" in wrong.err


async def test_a_running_hub_notices_its_first_key(settings: Settings) -> None:
    async with served(settings, fresh=0) as hub:
        assert (await hub.get("/servers")).status_code == 200
        key = await new_key(settings)
        refused(await hub.get("/servers"))
        assert (await hub.get("/servers", **bearer(key))).status_code == 200


async def test_the_first_key_ends_the_belief_in_what_an_action_states(settings: Settings) -> None:
    async with open_hub(settings) as opened:
        token = opened.local_token.create()
    async with served(settings, fresh=0) as hub:
        for key in (None, token):
            assert (await hub.act("list_facts", {}, key=key, principal={"tenant_id": "acme"})).status_code == 200
        await new_key(settings, "acme")
        answer = await hub.act("list_facts", {}, key=token, principal={"tenant_id": "acme"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "FORBIDDEN")
        assert (await hub.act("list_facts", {}, key=token)).status_code == 200


async def test_what_is_not_a_valid_key_is_refused_everywhere(settings: Settings) -> None:
    key = await new_key(settings)
    expired = await new_key(settings, lifetime=0)
    async with served(settings) as hub:
        wrong = [
            None, "", "Bearer", f"Basic {key}", f"Bearer {key}x", f"Bearer {key[:-1]}", "Bearer kho_1_2",
            f"Bearer {expired}", f"Bearer {key.upper()}", key, f"Bearer {key} {key}",
        ]  # fmt: skip
        for credential in wrong:
            headers = {} if credential is None else {"authorization": credential}
            refused(await hub.get("/servers", **headers))
        for route in ROUTES:
            refused(await hub.get(route))
        for route in ("/jsonrpc", "/actions", "/mcp"):
            refused(await hub.post(route, {}))
        for scheme in ("Bearer", "bearer", "BEARER"):
            assert (await hub.get("/servers", authorization=f"{scheme} {key}")).status_code == 200
        assert (await hub.get("/health")).json() == {"status": "healthy", "servers": SERVERS}


async def test_a_key_is_good_from_anywhere(settings: Settings) -> None:
    key = await new_key(settings)
    async with served(settings) as hub, elsewhere(hub) as http:
        assert (await http.get("/servers", headers=bearer(key))).status_code == 200


async def test_oauth_is_not_spoken_of(settings: Settings) -> None:
    key = await new_key(settings)
    async with served(settings) as hub:
        for path in (
            "oauth-protected-resource", "oauth-protected-resource/mcp", "oauth-authorization-server", "openid-configuration"
        ):  # fmt: skip
            for headers in ({}, bearer(key)):
                assert (await hub.get(f"/.well-known/{path}", **headers)).status_code == 404


async def test_keys_keep_tenants_apart(settings: Settings) -> None:
    acme, other = await new_key(settings, "acme"), await new_key(settings, "other")
    async with served(settings) as hub:
        id = (await hub.rpc("submit_experience", KETTLE, **bearer(acme)))["result"]["data"]["id"]
        totals = [
            (await hub.rpc("query_experiences", {"keywords": "kettle"}, **bearer(key)))["result"]["data"]["total"]
            for key in (acme, other)
        ]
        assert totals == [1, 0]
        for operation in ("get_experience", "delete_experience"):
            answer = await hub.rpc(operation, {"id": id}, **bearer(other))
            assert answer["result"]["error"]["code"] == "NOT_FOUND"


# -- scopes ------------------------------------------------------------------------------------------------------------


async def test_a_key_allows_what_its_scopes_say(settings: Settings) -> None:
    reader, writer = await new_key(settings, "acme", "exp:read"), await new_key(settings, "acme", "exp:write")
    async with served(settings) as hub:
        refusal = (await hub.rpc("submit_experience", KETTLE, **bearer(reader)))["result"]
        assert (refusal["success"], refusal["error"]["code"]) == (False, "FORBIDDEN")
        assert refusal["error"]["details"] == {"scope": "exp:write"}
        assert (await hub.rpc("submit_experience", KETTLE, **bearer(writer)))["result"]["success"]
        query = {"keywords": "kettle"}
        assert (await hub.rpc("query_experiences", query, **bearer(writer)))["result"]["error"]["code"] == "FORBIDDEN"
        assert (await hub.rpc("query_experiences", query, **bearer(reader)))["result"]["data"]["total"] == 1
        for denied, key in (("submit_experience", reader), ("query_experiences", writer)):
            assert (await hub.act(denied, query, key=key)).status_code == 403


async def test_who_may_only_read_cannot_clear_the_history_either(settings: Settings) -> None:
    reader, writer = await new_key(settings, "acme", "research:read"), await new_key(settings, "acme", "research:write")
    async with served(settings) as hub:
        for key, status in ((reader, 403), (writer, 200)):
            assert (await hub.act("clear_history", {}, key=key)).status_code == status


@pytest.mark.parametrize("era", ERAS)
async def test_over_mcp_a_key_sees_only_the_tools_it_may_use(settings: Settings, era: str) -> None:
    reader = await new_key(settings, "acme", "exp:read")
    async with (
        served(settings) as hub,
        httpx2.AsyncClient(headers=bearer(reader), timeout=PATIENCE, verify=PLAIN) as http,
    ):
        async with Client(streamable_http_client(f"{hub.url}/mcp?tools=all", http_client=http), mode=era) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert names == ["search", "fetch", "recent", "query_experiences", "get_experience", "audit_log"]
            assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["summarize_experience"]
            result = await client.call_tool("submit_experience", KETTLE)
            assert result.is_error
            assert result.structured_content is not None
            assert result.structured_content["error"]["code"] == "FORBIDDEN"
        servers = (await hub.get("/servers", **bearer(reader))).json()["servers"]
        assert [tool["name"] for server in servers for tool in server["capabilities"]["tools"]] == names


# -- the public tenant (D9) --------------------------------------------------------------------------------------------


@pytest.mark.requirement("003.access.anonymous")
async def test_on_a_shared_hub_anonymous_callers_read_the_public_tenant_and_write_nothing(home: Path) -> None:
    settings = Settings(home=home, database_url=None, experiences=ExperienceSettings(public_tenant="commons"))
    commons, private = await new_key(settings, "commons"), await new_key(settings, "private")
    async with served(settings) as hub:
        await hub.rpc("submit_experience", {**KETTLE, "title": "public kettle"}, **bearer(commons))
        await hub.rpc("submit_experience", {**KETTLE, "title": "private kettle"}, **bearer(private))
        found = (await hub.rpc("query_experiences", {"keywords": "kettle"}))["result"]["data"]["experiences"]
        assert [hit["title"] for hit in found] == ["public kettle"]
        for operation, arguments in (
            ("submit_experience", KETTLE),
            ("delete_experience", {"id": found[0]["id"]}),
            ("rate_experience", {"id": found[0]["id"], "helpful": False}),
            ("import_experiences", {"experiences": [KETTLE]}),
        ):
            assert (await hub.rpc(operation, arguments))["result"]["error"]["code"] == "FORBIDDEN"
        stated = await hub.act("query_experiences", {"keywords": "kettle"}, principal={"tenant_id": "private"})
        assert (stated.status_code, stated.json()["error"]["code"]) == (403, "FORBIDDEN")
        refused(await hub.get("/servers", authorization="Bearer kho_00000000_wrong"))
        async with elsewhere(hub) as http:
            body = {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "experiences-server/query_experiences",
                "params": {"keywords": "kettle"},
            }
            assert (await http.post("/jsonrpc", json=body)).json()["result"]["data"]["total"] == 1


async def test_by_default_no_tenant_is_public(settings: Settings) -> None:
    await new_key(settings)
    async with served(settings) as hub:
        refused(await hub.post("/jsonrpc", {}))
