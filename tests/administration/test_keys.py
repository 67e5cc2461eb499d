"""Keys as operations: who may make and end which, what a key is limited to at every door, and what a hub goes on with."""

import asyncio
import os
import stat
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from tests.doors.doors import ERAS, PLAIN, Json, Served, bearer, kho, served
from tests.doors.streams import board_that_speaks
from tests.timeouts import PATIENCE

from kho.app import open_hub
from kho.devices.settings import DeviceSettings
from kho.kernel import Hub
from kho.kernel.call import Call, Principal
from kho.kernel.limits.settings import LimitSettings
from kho.kernel.registry import Outcome
from kho.lib.clock import DAY, from_iso, iso
from kho.settings import Settings, effective
from kho.simulator.board_tools import FirmwareTool

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


@pytest.mark.parametrize("era", ERAS)
async def test_a_limit_to_tools_holds_for_more_resources_prompts_and_tools_of_boards(
    settings: Settings, era: str
) -> None:
    chosen = settings.model_copy(update={"devices": DeviceSettings(approval="auto")})
    lamp = FirmwareTool("self.lamp.on", "The lamp.", (), lambda arguments, state: "on")
    chat = {"conversation_id": "chat", "role": "user", "content": "a private chat"}
    async with open_hub(chosen) as store:
        own = (await done(store, OPERATOR, "create_key", confirm=True))["key"]
        key = (await done(store, OPERATOR, "create_key", tools=["facts", "search"]))["key"]
    async with served(chosen, serving=True) as hub, board_that_speaks(hub, "aa:01", extra=(lamp,)):
        assert (await hub.act("memory_add_message", chat, key=own)).status_code == 200

        async def names(client: Client) -> set[str]:
            return {tool.name for tool in (await client.list_tools(cache_mode="bypass")).tools}

        async with mcp_client(hub, own, era) as client, asyncio.timeout(PATIENCE):
            while not (of_board := {name for name in await names(client) if "lamp" in name}):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            assert "private" in str(await client.read_resource("memory://conversation/chat"))
            prompts = [one.name for one in (await client.list_prompts()).prompts]
            assert "summarize_experience" in prompts
        async with mcp_client(hub, key, era) as client:
            assert not await names(client) & {*of_board, "device_call", "memory_list"}
            for tool in ("memory_list", "device_call", *of_board):
                explained: Json = {"tool": tool}
                for more in (explained, Json({**explained, "arguments": {}})):
                    told = await client.call_tool("more", more)
                    assert told.is_error
                    assert "There is no tool called" in str(told.content)
            told = await client.call_tool("more", {"tool": "list_facts", "arguments": {}})
            assert not told.is_error
            for tool, arguments in (("device_call", {"device": "aa:01", "tool": "self.lamp.on"}), ("memory_list", {})):
                told = await client.call_tool(tool, arguments)
                assert told.is_error
                assert "limited to" in str(told.content)
            for tool in of_board:
                with pytest.raises(MCPError, match="Unknown tool"):
                    await client.call_tool(tool, {})
            assert [
                str(one.uri) for one in (await client.list_resources()).resources if "fact" not in str(one.uri)
            ] == []
            with pytest.raises(MCPError):
                await client.read_resource("memory://conversation/chat")
            assert (await client.list_prompts()).prompts == []
            for prompt in prompts:
                with pytest.raises(MCPError, match="Unknown prompt"):
                    await client.get_prompt(prompt, {})


async def test_no_write_of_any_slice_is_answered_to_a_read_only_key(settings: Settings) -> None:
    reader = replace(OPERATOR, read_only=True)
    async with open_hub(settings) as store:
        made = await done(store, OPERATOR, "create_key", scopes=["*", "admin"], read_only=True, confirm=True, name="r")
    async with open_hub(settings) as hub:
        assert {one.effect for one in hub.registry.operations(reader) if not one.hands_on} == {"read"}
        capabilities = hub.registry.capabilities
        every = [(one.server, operation) for one in capabilities for operation in one.operations]
        writes = [(server, one) for server, one in every if one.effect != "read" and not one.hands_on]
        assert len(writes) > 50
        for _, operation in writes:
            found = await hub.registry.call(operation, dict(operation.example), Call(reader))
            assert found.error is not None, operation.name
            assert (found.error.code, "read-only" in found.error.message) == ("FORBIDDEN", True), operation.name
    unlimited = settings.model_copy(update={"limits": LimitSettings(requests=0, writes=0)})
    async with served(unlimited) as hub:
        headers = bearer(made["key"])
        for server, operation in writes:
            example = dict(operation.example)
            if operation.rpc is not None:
                asked: Json = {"jsonrpc": "2.0", "id": 1, "method": f"{server}/{operation.rpc}", "params": example}
                assert "read-only" in (await hub.post("/jsonrpc", asked, **headers)).text, operation.name
            if operation.action is not None:
                answer = await hub.act(operation.action, example, key=made["key"])
                assert (answer.status_code, "read-only" in answer.text) == (403, True), operation.name
    async with open_hub(settings) as store:
        changed = (await done(store, OPERATOR, "audit_log", actor="r", outcome="done"))["entries"]
    assert changed == []


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


async def test_a_key_that_expires_makes_none_that_lives_longer(hub: Hub) -> None:
    await done(hub, OPERATOR, "create_key", tenant="acme", name="first", confirm=True)
    maker = replace(TENANT_ADMIN, expires_at=hub.clock() + DAY)
    end = iso(maker.expires_at or 0)
    for days in (0, 90):
        assert (await done(hub, maker, "create_key", days=days, scopes=["*", "admin"]))["expires_at"] == end
    hours = await done(hub, replace(maker, expires_at=hub.clock() + 90 * DAY), "create_key", days=2)
    assert from_iso(hours["expires_at"]) < hub.clock() + 3 * DAY
    for days in (0, 90):
        old = await done(hub, OPERATOR, "create_key", tenant="acme", days=days)
        assert (await done(hub, maker, "rotate_key", id=old["id"]))["expires_at"] == end
    assert "expires_at" not in await done(hub, TENANT_ADMIN, "create_key")


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


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (
            "postgresql://db.example/kho?user=kho&password=hush",
            "postgresql://db.example/kho?user=kho&password=********",
        ),
        ("postgresql://kho:hush@db.example/kho", "postgresql://kho:********@db.example/kho"),
        ("postgresql://kho:hu:sh@one,two/kho?sslmode=require", "postgresql://kho:********@one,two/kho?sslmode=require"),
        ("https://otel.example/v1?api_key=hush&a=b", "https://otel.example/v1?api_key=********&a=b"),
        (
            "https://otel.example/v1?a=b&X-Amz-Signature=hush#c",
            "https://otel.example/v1?a=b&X-Amz-Signature=********#c",
        ),
        ("https://example.org/cb#access_token=hush", "https://example.org/cb#access_token=********"),
        ("mqtt://hush@127.0.0.1:1883", "mqtt://********@127.0.0.1:1883"),
        ("mqtt://hush:@127.0.0.1:1883", "mqtt://********@127.0.0.1:1883"),
        ("https://:hush@[::1]:1/", "https://********@[::1]:1/"),
        (f"https://{'hush' * 20}:x@example.org", "https://********@example.org"),
        ("http://127.0.0.1:4318/v1/traces?a=1", "http://127.0.0.1:4318/v1/traces?a=1"),
        ("https://example.org/@someone", "https://example.org/@someone"),
    ],
)
def test_no_part_of_an_address_that_may_be_a_secret_is_listed(tmp_path: Path, given: str, shown: str) -> None:
    settings = Settings(home=tmp_path, database_url=given)
    [found] = [one["value"] for one in effective(settings) if one["name"] == "database_url"]
    assert found == shown
    assert "hush" not in found


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
