"""Which credential opens what: one table, tried at every route of the application and at every WebSocket.

A refusal is 401 with a plain challenge. It names no OAuth: clients that find some drop the header they were given.
"""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.doors.doors import PLAIN, Served, add_key, bearer, listening
from tests.security.raw_http import Answer, Target, asked, targets

from kho.app import open_hub
from kho.doors.http.app import Application
from kho.kernel.call import Call, Principal
from kho.kernel.hub import Hub
from kho.settings import Settings

OPEN = {"/", "/health"}
"""Answered to everybody."""
BOARDS = {"/xiaozhi/ota/", "/xiaozhi/ota", "/xiaozhi/ota/activate", "/xiaozhi/v1/", "/xiaozhi/v1", "/devices/ws", "/vision/explain"}  # fmt: skip
"""For boards, which have credentials of their own."""
BOARD = {"device-id": "aa:bb:cc:dd:ee:ff", "client-id": "client-of-a-board"}
A_BOARD = "a board's"
OPERATOR = Principal("operator", "local", frozenset({"*", "admin", "metrics:read"}))


@dataclass
class Keys:
    """Every credential that there is, by what it is."""

    hub: Hub
    served: Served
    found: dict[str, str] = field(default_factory=dict[str, str])

    async def do(self, action: str, **arguments: Any) -> dict[str, Any]:
        every = (one for capability in self.hub.registry.capabilities for one in capability.operations)
        [operation] = [one for one in every if one.rpc == action]
        outcome = await self.hub.registry.call(operation, arguments, Call(OPERATOR))
        assert outcome.error is None, (action, outcome.error)
        return outcome.value

    async def made(self, name: str, **more: Any) -> str:
        scopes = ["*", "admin", "metrics:read"]
        key = await self.do("create_key", name=name, scopes=scopes, confirm=True, **{"tenant": "acme", **more})
        self.found[name] = key["key"]
        return key["id"]


@pytest.fixture(scope="module")
async def keys(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Keys]:
    home: Path = tmp_path_factory.mktemp("keys") / "home"
    settings = Settings.model_validate({"home": home, "database_url": None, "devices": {"approval": "code"}})
    hubs: list[Hub] = []

    @asynccontextmanager
    async def opened() -> AsyncGenerator[Hub]:
        async with open_hub(settings, serving=True) as hub:
            hubs.append(hub)
            yield hub

    app = Application(opened, settings.http, settings.mcp, fresh=0)
    async with listening(app) as (url, http):
        known = Keys(hubs[0], Served(url, app, http))
        await fill(known)
        yield known


async def fill(keys: Keys) -> None:
    await keys.made("valid")
    await keys.made("of another tenant", tenant="globex")
    await keys.do("revoke_key", id=await keys.made("revoked"))
    await keys.do("delete_key", id=await keys.made("deleted"))
    await keys.do("rotate_key", id=await keys.made("rotated, in its grace"), hours=1)
    await keys.do("rotate_key", id=await keys.made("rotated, after its grace"), hours=0)
    keys.found["expired"] = await add_key(keys.hub, "acme", lifetime=0)
    keys.found["local"] = keys.hub.local_token.create()
    reply = (await keys.served.post("/xiaozhi/ota/", {}, **BOARD)).json()
    await keys.do("device_approve", code=reply["activation"]["code"])
    reply = (await keys.served.post("/xiaozhi/ota/", {}, **BOARD)).json()
    keys.found[A_BOARD] = reply["websocket"]["token"]


def forms(keys: Keys) -> dict[str, tuple[list[str], bool]]:
    """Header lines, and whether they let a caller in."""
    known = keys.found
    valid, id = known["valid"], known["valid"].split("_")[1]
    secret = valid.removeprefix(f"kho_{id}_")
    taken = {"valid", "of another tenant", "rotated, in its grace", "local"}
    table = {name: ([f"Authorization: Bearer {text}"], name in taken) for name, text in known.items()}
    one = f"Authorization: Bearer {valid}"
    refused = {
        "none": [],
        "of another key": [f"Authorization: Bearer kho_{id}_{known['of another tenant'].split('_', 2)[2]}"],
        "unknown": [f"Authorization: Bearer kho_00000000_{secret}"],
        "truncated": [one[:-1]],
        "without its secret": [f"Authorization: Bearer kho_{id}_"],
        "without its id": [f"Authorization: Bearer {secret}"],
        "prolonged": [one + "x"],
        "in capitals": [f"Authorization: Bearer {valid.upper()}"],
        "in quotes": [f'Authorization: Bearer "{valid}"'],
        "escaped": [f"Authorization: Bearer {valid.replace('_', '%5F')}"],
        "empty": ["Authorization:"],
        "only a scheme": ["Authorization: Bearer"],
        "without a scheme": [f"Authorization: {valid}"],
        "Basic": [f"Authorization: Basic {valid}"],
        "Token": [f"Authorization: Token {valid}"],
        "Bearer:": [f"Authorization: Bearer: {valid}"],
        "with a tab": [f"Authorization: Bearer\t{valid}"],
        "twice in one": [f"Authorization: Bearer {valid} {valid}"],
        "in a list": [f"Authorization: Bearer {valid}, Bearer {valid}"],
        "two headers": [one, one],
        "two headers, the first wrong": ["Authorization: Bearer kho_00000000_x", one],
        "two headers, the second wrong": [one, "Authorization: Bearer kho_00000000_x"],
        "in a cookie": [f"Cookie: Authorization=Bearer {valid}; token={valid}; kho_key={valid}"],
        "in another header": [f"X-Api-Key: {valid}", f"X-Authorization: Bearer {valid}", f"Api-Key: {valid}"],
        "for a proxy": [f"Proxy-Authorization: Bearer {valid}"],
        "local, truncated": [f"Authorization: Bearer {known['local'][:-1]}"],
        "local, prolonged": [f"Authorization: Bearer {known['local']}x"],
        "a session of MCP": ["Mcp-Session-Id: 0123456789abcdef0123456789abcdef"],
    }
    accepted = {
        "bearer": [f"authorization: bearer {valid}"],
        "BEARER": [f"AUTHORIZATION: BEARER {valid}"],
        "with blanks around": [f"Authorization:   Bearer   {valid}  "],
    }
    return table | {n: (h, False) for n, h in refused.items()} | {n: (h, True) for n, h in accepted.items()}


def is_refusal(answer: Answer) -> bool:
    if answer.status != 401:
        return False
    assert answer.headers["www-authenticate"] == ["Bearer"]
    assert answer.code == "UNAUTHORIZED"
    assert "oauth" not in answer.body.lower()
    assert "resource_metadata" not in str(answer.headers)
    return True


def for_callers(keys: Keys) -> list[Target]:
    found = [one for one in targets(keys.served) if not one.socket and one.path not in OPEN | BOARDS]
    assert {one.path for one in found} >= {"/mcp", "/jsonrpc", "/actions", "/servers", "/metrics", "/devices/events"}
    return found


async def test_every_route_takes_the_same_credentials(keys: Keys) -> None:
    wrong: list[tuple[str, Target, int]] = []
    for name, (lines, taken) in forms(keys).items():
        for target in for_callers(keys):
            answer = await asked(keys.served, target.head(["Host: localhost", *lines]))
            if is_refusal(answer) is taken:
                wrong.append((name, target, answer.status))
            if not taken:
                assert keys.found["valid"] not in answer.body
    assert wrong == []


async def test_a_key_in_the_address_is_none(keys: Keys) -> None:
    valid = keys.found["valid"]
    for target in for_callers(keys):
        for name in ("token", "access_token", "api_key", "key", "authorization", "Authorization"):
            for value in (valid, f"Bearer%20{valid}"):
                form = f"{target.path}?{name}={value}"
                assert is_refusal(await asked(keys.served, target.head(["Host: localhost"], target=form))), (
                    target,
                    name,
                )


async def test_what_is_open_is_open_with_any_credential(keys: Keys) -> None:
    every = [one for one in targets(keys.served) if one.path in OPEN]
    assert {one.path for one in every} == OPEN
    for target in every:
        for lines, _ in forms(keys).values():
            assert (await asked(keys.served, target.head(["Host: localhost", *lines]))).status == 200


async def test_a_key_is_of_its_tenant_and_the_local_token_of_this_machine(keys: Keys) -> None:
    async def facts(headers: dict[str, str]) -> str:
        answer = await keys.served.post("/actions", {"action": "list_facts"}, **headers)
        assert answer.status_code == 200
        return answer.text

    for name, tenant in (("valid", "acme"), ("of another tenant", "globex"), ("local", "local")):
        body = {"action": "remember", "payload": {"text": f"This is {tenant}."}}
        answer = await keys.served.post("/actions", body, **bearer(keys.found[name]))
        assert answer.status_code == 200, answer.text
    for name, tenant in (
        ("valid", "acme"), ("rotated, in its grace", "acme"), ("of another tenant", "globex"), ("local", "local"),
    ):  # fmt: skip
        found = re.findall(r"This is (\w+)\.", await facts(bearer(keys.found[name])))
        assert set(found) == {tenant}, name
    transport = httpx2.ASGITransport(app=keys.served.app, client=("203.0.113.9", 40000))
    async with httpx2.AsyncClient(transport=transport, base_url=keys.served.url, verify=PLAIN) as elsewhere:
        for name, status in (("valid", 200), ("local", 401)):
            assert (await elsewhere.get("/servers", headers=bearer(keys.found[name]))).status_code == status


async def test_nothing_speaks_of_oauth(keys: Keys) -> None:
    for path in (
        "oauth-protected-resource", "oauth-protected-resource/mcp", "oauth-authorization-server",
        "oauth-authorization-server/mcp", "openid-configuration",
    ):  # fmt: skip
        for headers in ({}, bearer(keys.found["valid"])):
            for under in ("/.well-known/", "/mcp/.well-known/"):
                answer = await keys.served.get(f"{under}{path}", **headers)
                assert answer.status_code == 404
                assert "www-authenticate" not in answer.headers


# -- boards ------------------------------------------------------------------------------------------------------------


def board_lines(**more: str) -> list[str]:
    return [f"{name}: {value}" for name, value in {**BOARD, **more}.items()]


def in_board_s_place(keys: Keys) -> dict[str, str]:
    """What is no credential of this board, at its doors."""
    token = keys.found[A_BOARD]
    return {
        "a key": f"Bearer {keys.found['valid']}",
        "the local token": f"Bearer {keys.found['local']}",
        "truncated": f"Bearer {token[:-1]}",
        "prolonged": f"Bearer {token}x",
        "nonsense": "Bearer nonsense",
        "Basic": f"Basic {token}",
    }


async def test_a_board_s_doors_take_its_own_token_alone(keys: Keys) -> None:
    sockets = [one for one in targets(keys.served) if one.socket and one.path in BOARDS]
    assert sockets
    token = keys.found[A_BOARD]
    for target in sockets:
        good = await asked(keys.served, target.head(["Host: localhost", *board_lines(Authorization=f"Bearer {token}")]))
        assert good.status == 101
        for name, credential in in_board_s_place(keys).items():
            lines = ["Host: localhost", *board_lines(Authorization=credential)]
            assert is_refusal(await asked(keys.served, target.head(lines))), (target, name)
        other = {"Authorization": f"Bearer {token}", "device-id": "00:00:00:00:00:01"}
        assert is_refusal(await asked(keys.served, target.head(["Host: localhost", *board_lines(**other)])))


async def test_a_photo_needs_a_token_for_photos(keys: Keys) -> None:
    to_connect = f"Bearer {keys.found[A_BOARD]}"
    for credential in ("", to_connect, *in_board_s_place(keys).values()):
        headers = {**BOARD, **({"authorization": credential} if credential else {})}
        answer = await keys.served.http.post(
            "/vision/explain", files={"file": b"x"}, data={"question": "?"}, headers=headers
        )
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert "oauth" not in answer.text.lower()


async def test_no_credential_of_a_caller_opens_a_websocket_that_is_none(keys: Keys) -> None:
    for path in ("/mcp", "/jsonrpc", "/devices/events"):
        target = Target("GET", path, socket=True)
        lines = ["Host: localhost", f"Authorization: Bearer {keys.found['valid']}"]
        assert (await asked(keys.served, target.head(lines))).status in (403, 404)
