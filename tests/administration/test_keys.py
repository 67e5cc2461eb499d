"""Keys as operations: who may make and end which, what a key is limited to at every door, and what a hub goes on with."""

import asyncio
import os
import stat
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from tests.doors.doors import ERAS, PLAIN, Json, Served, bearer, kho, served
from tests.timeouts import PATIENCE

from kho.app import open_hub
from kho.kernel import Hub
from kho.kernel.call import Call, Principal
from kho.kernel.registry import Outcome
from kho.lib.clock import DAY, from_iso
from kho.settings import Settings

OPERATOR = Principal("boss", "local", frozenset({"*", "admin"}), "key")
TENANT_ADMIN = Principal("ada", "acme", frozenset({"*", "admin"}), "key")


@pytest.fixture(params=["sqlite", "postgres"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    url = None if request.param == "sqlite" else request.getfixturevalue("postgres_schema_url")
    return Settings.model_validate(
        {"home": tmp_path / "home", "database_url": url, "search": {"embedder": {"provider": "none"}}}
    )


@pytest.fixture
async def hub(settings: Settings) -> AsyncGenerator[Hub]:
    async with open_hub(settings) as hub:
        yield hub


async def outcome(hub: Hub, by: Principal, operation: str, **arguments: Any) -> Outcome:
    return await hub.registry.call(hub.registry.actions[operation], arguments, Call(by, "actions"))


async def done(hub: Hub, by: Principal, operation: str, **arguments: Any) -> Json:
    found = await outcome(hub, by, operation, **arguments)
    assert found.error is None, found.error
    return found.value


async def refused(hub: Hub, by: Principal, operation: str, **arguments: Any) -> str:
    found = await outcome(hub, by, operation, **arguments)
    assert found.error is not None
    return found.error.code


# -- who may do what ---------------------------------------------------------------------------------------------------


async def test_an_admin_of_a_tenant_has_its_own_keys_alone(hub: Hub) -> None:
    ours = await done(hub, OPERATOR, "create_key", name="ours", confirm=True)
    theirs = await done(hub, OPERATOR, "create_key", name="theirs", tenant="acme")
    assert {key["id"] for key in (await done(hub, OPERATOR, "list_keys"))["keys"]} == {ours["id"], theirs["id"]}
    assert [key["id"] for key in (await done(hub, TENANT_ADMIN, "list_keys"))["keys"]] == [theirs["id"]]
    assert await refused(hub, TENANT_ADMIN, "create_key", tenant="local") == "FORBIDDEN"
    for operation in ("revoke_key", "delete_key", "rotate_key"):
        foreign = await outcome(hub, TENANT_ADMIN, operation, id=ours["id"])
        unknown = await outcome(hub, TENANT_ADMIN, operation, id="00000000")
        assert foreign.error is not None
        assert unknown.error is not None
        assert foreign.error.as_dict() == unknown.error.as_dict()
    assert [one["tenant"] for one in (await done(hub, TENANT_ADMIN, "list_tenants"))["tenants"]] == ["acme"]
    assert {"acme", "local"} <= {one["tenant"] for one in (await done(hub, OPERATOR, "list_tenants"))["tenants"]}
    assert await refused(hub, TENANT_ADMIN, "list_settings") == "FORBIDDEN"
    assert await refused(hub, OPERATOR, "turn_off_keys") == "FORBIDDEN"  # only on the hub's machine


async def test_a_key_is_given_no_more_than_its_maker_has(hub: Hub) -> None:
    await done(hub, OPERATOR, "create_key", confirm=True)
    reader = Principal("r", "acme", frozenset({"admin", "exp:read"}), "key")
    assert (await done(hub, reader, "create_key", scopes=["exp:read"]))["scopes"] == ["exp:read"]
    for scopes in (["exp:write"], ["exp:read", "docs:read"], ["*"]):
        assert await refused(hub, reader, "create_key", scopes=scopes) == "FORBIDDEN"
    unnamed = Principal("n", "acme", frozenset({"*"}), "key")
    assert await refused(hub, unnamed, "create_key") == "FORBIDDEN"
    limited = Principal("l", "acme", frozenset({"*", "admin"}), "key", tools=hub.registry.select(["administration"]))
    assert await refused(hub, limited, "create_key") == "FORBIDDEN"
    assert await refused(hub, OPERATOR, "create_key", tools=["no-such-tool"]) == "INVALID_ARGUMENT"
    assert await refused(hub, OPERATOR, "create_key", tenant="a b") == "INVALID_ARGUMENT"


async def test_the_last_key_stays(hub: Hub) -> None:
    only = await done(hub, OPERATOR, "create_key", confirm=True)
    assert await refused(hub, OPERATOR, "delete_key", id=only["id"]) == "LAST_KEY"
    assert await hub.keys.in_use()


async def test_a_rotated_key_has_the_rights_of_the_old_one_which_ends_when_it_was_told_to(hub: Hub) -> None:
    old = await done(
        hub, OPERATOR, "create_key", scopes=["exp:read"], tools=["recall"], read_only=True, days=10, confirm=True
    )
    new = await done(hub, OPERATOR, "rotate_key", id=old["key"], hours=1)  # the whole key will do
    same = ("name", "tenant", "scopes", "tools", "read_only")
    assert [new[name] for name in same] == [old[name] for name in same]
    assert new["key"] != old["key"]
    stored = {key.id: key for key in await hub.keys.all()}
    assert stored[old["id"]].expires_at == from_iso(new["old_valid_until"])
    assert (stored[new["id"]].expires_at or 0) - stored[new["id"]].created_at == 10 * DAY
    await done(hub, OPERATOR, "rotate_key", id=new["id"], hours=0)
    assert await refused(hub, OPERATOR, "rotate_key", id=new["id"]) == "NOT_FOUND"


async def test_a_key_is_replaced_once(hub: Hub) -> None:
    """The second to rotate it would get a key that ends with the old one."""
    old = await done(hub, OPERATOR, "create_key", confirm=True)
    new = await done(hub, OPERATOR, "rotate_key", id=old["id"], hours=1)
    assert await refused(hub, OPERATOR, "rotate_key", id=f"kho_{old['id']}", hours=0) == "KEY_REPLACED"
    listed = {key["id"]: key for key in (await done(hub, OPERATOR, "list_keys"))["keys"]}
    assert listed[old["id"]]["successor"] == new["id"]
    assert listed[old["id"]]["expires_at"] == new["old_valid_until"]
    assert "expires_at" not in listed[new["id"]]


@pytest.mark.parametrize("limit", ["scopes", "tools"])
@pytest.mark.parametrize("nothing", [[], [""], [" ", ""]])
async def test_a_limit_to_nothing_is_not_taken_for_no_limit(hub: Hub, limit: str, nothing: list[str]) -> None:
    """A script whose variable is empty would hand out a key to everything."""
    assert await refused(hub, OPERATOR, "create_key", confirm=True, **{limit: nothing}) == "INVALID_ARGUMENT"
    assert not await hub.keys.in_use()


async def test_the_answer_that_is_kept_for_a_retry_has_no_key(settings: Settings) -> None:
    async with served(settings) as hub:
        async with open_hub(settings) as store:
            admin = await done(store, OPERATOR, "create_key", scopes=["*", "admin"], confirm=True)
        body = {"request_id": "r-1", "action": "create_key", "payload": {"name": "bot"}}
        first = (await hub.post("/actions", body, **bearer(admin["key"]))).json()["result"]
        again = (await hub.post("/actions", body, **bearer(admin["key"]))).json()["result"]
    assert first["key"].startswith("kho_")
    assert again == {**first, "key": ""}


# -- limits of a key ---------------------------------------------------------------------------------------------------

FACT = {"text": "The kettle boils."}


async def limited(settings: Settings, **limits: Any) -> str:
    async with open_hub(settings) as hub:
        return (await done(hub, OPERATOR, "create_key", tenant="acme", confirm=True, **limits))["key"]


@asynccontextmanager
async def mcp_client(hub: Served, key: str, era: str) -> AsyncGenerator[Client]:
    url = f"{hub.url}/mcp?tools=all"
    async with (
        httpx2.AsyncClient(headers=bearer(key), timeout=PATIENCE, trust_env=False, verify=PLAIN) as http,
        Client(streamable_http_client(url, http_client=http), mode=era) as client,
    ):
        yield client


async def test_a_key_that_is_limited_to_tools_gets_nothing_else_at_any_door(settings: Settings) -> None:
    key = await limited(settings, tools=["facts", "search"])
    async with served(settings) as hub:
        headers = bearer(key)

        async def rpc(method: str, params: Json) -> Json:
            message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            return (await hub.post("/jsonrpc", message, **headers)).json()

        assert "result" in await rpc("facts-server/remember", FACT)
        assert "result" in await rpc("recall-server/search", {"query": "kettle"})
        assert (await rpc("memory-server/memory/list", {}))["error"]["code"] == -32043
        assert (await rpc("recall-server/fetch", {"id": "fact:x"}))["error"]["code"] == -32043
        action = {"action": "create_document", "payload": {"document_id": "d", "content": {"body": "x"}}}
        answer = await hub.post("/actions", action, **headers)
        assert answer.status_code == 403
        assert "limited to" in answer.text
        assert (await hub.get("/devices/events", **headers)).status_code == 403
        named = {one["name"]: one["capabilities"] for one in (await hub.get("/servers", **headers)).json()["servers"]}
        assert [tool["name"] for tool in named["recall-server"]["tools"]] == ["search"]
        assert named["documents-server"] == {"tools": [], "resources": [], "prompts": []}
        assert named["facts-server"]["tools"]
        for era in ERAS:
            async with mcp_client(hub, key, era) as client:
                listed = {tool.name for tool in (await client.list_tools()).tools}
                assert {"remember", "search"} <= listed
                assert not listed & {"fetch", "create_document", "memory_list"}
                assert (await client.call_tool("search", {"query": "kettle"})).is_error is not True
                answer = await client.call_tool("fetch", {"id": "fact:x"})
                assert answer.is_error
                assert "limited to" in str(answer.content)


async def test_a_read_only_key_changes_nothing_and_is_shown_nothing_that_does(settings: Settings) -> None:
    key = await limited(settings, read_only=True)
    async with served(settings) as hub:
        headers = bearer(key)
        for capability in (await hub.get("/servers", **headers)).json()["servers"]:
            names = {tool["name"] for tool in capability["capabilities"]["tools"]}
            assert not names & {"remember", "create_document", "submit_experience", "device_call", "forget"}
        message = {"jsonrpc": "2.0", "id": 1, "method": "facts-server/remember", "params": FACT}
        told = (await hub.post("/jsonrpc", message, **headers)).json()["error"]
        assert told["code"] == -32043
        assert "read-only" in told["message"]
        asked: Json = {"jsonrpc": "2.0", "id": 1, "method": "facts-server/list_facts", "params": {}}
        assert "result" in (await hub.post("/jsonrpc", asked, **headers)).json()


async def test_no_write_of_any_slice_is_answered_by_a_read_only_hub(settings: Settings) -> None:
    async with open_hub(settings.model_copy(update={"read_only": True})) as hub:
        offered = list(hub.registry.operations(OPERATOR))
        assert offered
        assert {one.effect for one in offered} == {"read"}
        every = [one for capability in hub.registry.capabilities for one in capability.operations]
        for operation in (one for one in every if one.effect != "read"):
            found = await hub.registry.call(operation, dict(operation.example), Call(OPERATOR))
            assert found.error is not None
            assert found.error.code == "READ_ONLY", operation.name


async def test_commands_say_that_the_hub_is_read_only(settings: Settings) -> None:
    for command in (
        ("remember", "The kettle is blue."),
        ("keys", "revoke", "abc"),
        ("docs", "create", "d", "--body", "x"),
    ):
        done = await kho(settings.home, *command, env={"KHO_READ_ONLY": "true"})
        assert done.status == 1
        assert "read-only" in done.err
        assert "Traceback" not in done.err


async def test_boards_cannot_come_to_a_read_only_hub(settings: Settings) -> None:
    async with served(settings.model_copy(update={"read_only": True})) as hub:
        answer = await hub.post("/xiaozhi/ota/", {}, **{"device-id": "aa:bb:cc:dd:ee:ff", "client-id": "c" * 36})
        assert answer.status_code == 403


# -- the token of this machine's user ----------------------------------------------------------------------------------


async def test_programs_of_this_machine_s_user_go_on_when_keys_come(settings: Settings) -> None:
    async with open_hub(settings) as store:
        token = store.local_token.create()
        assert store.local_token.create() == token
    path = settings.home / "local.token"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    async with served(settings, fresh=0) as hub:
        assert (await hub.get("/servers", **bearer(token))).status_code == 200
        await limited(settings)
        assert (await hub.get("/servers")).status_code == 401
        assert (await hub.get("/servers", **bearer(token))).status_code == 200
        assert (await hub.get("/servers", **bearer(token + "x"))).status_code == 401
        assert (await hub.get("/servers", **bearer(token[:-1]))).status_code == 401
        path.chmod(0o644)  # others could have read it
        assert (await hub.get("/servers", **bearer(token))).status_code == 401
        path.chmod(0o600)
        assert (await hub.get("/servers", **bearer(token))).status_code == 200
        await asyncio.to_thread(os.unlink, path)
        assert (await hub.get("/servers", **bearer(token))).status_code == 401


# -- what is shown -----------------------------------------------------------------------------------------------------


async def test_when_a_key_was_used_is_written_now_and_then_and_when_the_hub_stops(settings: Settings) -> None:
    key = await limited(settings)
    async with served(settings, serving=True) as hub:
        for _ in range(3):
            assert (await hub.get("/servers", **bearer(key))).status_code == 200
    async with open_hub(settings) as store:
        [shown] = (await done(store, OPERATOR, "list_keys"))["keys"]
        assert shown["last_used_at"] >= shown["created_at"]


async def test_settings_are_listed_with_where_they_come_from_and_without_secrets(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KHO_LLM__API_KEY", "sk-very-secret")
    monkeypatch.setenv("KHO_DEVICES__MQTT_URL", "mqtt://kho:hush@127.0.0.1:1883")
    again = Settings.model_validate({"home": settings.home, "database_url": settings.database_url})
    async with open_hub(again.model_copy(update={"search": settings.search})) as hub:
        found = {one["name"]: one for one in (await done(hub, OPERATOR, "list_settings"))["settings"]}
    assert found["llm.api_key"] == {"name": "llm.api_key", "value": "********", "source": "KHO_LLM__API_KEY"}
    assert found["devices.mqtt_url"]["value"] == "mqtt://kho:********@127.0.0.1:1883"
    assert found["http.port"] == {"name": "http.port", "value": 8001, "source": "default"}
    assert "sk-very-secret" not in str(found)
    assert "hush" not in str(found)


async def test_every_change_of_a_key_is_counted(hub: Hub) -> None:
    counts = [(await hub.keys.state()).changes]

    async def changed() -> bool:
        counts.append((await hub.keys.state()).changes)
        return counts[-1] > counts[-2]

    made = await done(hub, OPERATOR, "create_key", confirm=True)
    assert await changed()
    rotated = await done(hub, OPERATOR, "rotate_key", id=made["id"])
    assert await changed()
    await done(hub, OPERATOR, "revoke_key", id=rotated["id"])
    assert await changed()
    await done(hub, OPERATOR, "delete_key", id=rotated["id"])
    assert await changed()
    await done(hub, OPERATOR, "list_keys")
    assert not await changed()
