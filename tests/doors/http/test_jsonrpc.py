"""POST /jsonrpc: JSON-RPC 2.0 in full, over a real socket."""

from typing import Any

import pytest
from tests.doors.doors import Boards, Json, Served, served

from kho.doors.http.jsonrpc import LARGEST_BATCH
from kho.settings import Settings

QUERY = "experiences-server/query_experiences"
SUBMIT = "experiences-server/submit_experience"
KETTLE = {"title": "kettle", "problem_description": "p", "solution": "s"}


def request(id: Any, method: str = QUERY, params: Any = None) -> Json:
    return {"jsonrpc": "2.0", "method": method, "params": params or {"keywords": "kettle"}, "id": id}


def notification(method: str, params: Json) -> Json:
    return {"jsonrpc": "2.0", "method": method, "params": params}


async def error(hub: Served, body: Any) -> tuple[Any, int]:
    """The id and code of an answer that is one error."""
    response = await hub.post("/jsonrpc", body)
    answer: Json = response.json()
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert answer.keys() == {"jsonrpc", "error", "id"}
    assert answer["jsonrpc"] == "2.0"
    assert isinstance(answer["error"]["message"], str)
    return answer["id"], answer["error"]["code"]


async def test_an_answer_carries_the_id_of_its_request(shared_hub: Served) -> None:
    for id in (1, 0, -3, "abc", "", 1.5, None, "đ"):
        answer = (await shared_hub.post("/jsonrpc", request(id))).json()
        assert answer == {"jsonrpc": "2.0", "result": answer["result"], "id": id}
        assert type(answer["id"]) is type(id)
        assert answer["result"]["success"]


async def test_a_notification_is_done_and_not_answered(hub: Served) -> None:
    response = await hub.post("/jsonrpc", notification(SUBMIT, KETTLE))
    assert (response.status_code, response.content) == (204, b"")
    assert (await hub.rpc("query_experiences", {"keywords": "kettle"}))["result"]["data"]["total"] == 1
    for nothing in (notification("no/such", {}), notification(QUERY, {}), {"jsonrpc": "2.0", "method": QUERY}):
        response = await hub.post("/jsonrpc", nothing)
        assert (response.status_code, response.content) == (204, b"")


@pytest.mark.requirement("002.jsonrpc.without-id")
async def test_requests_without_an_id_are_answered_where_the_settings_say_so(settings: Settings) -> None:
    """The client that contract 002 was written for sends no id and reads the reply."""
    settings.jsonrpc.answer_without_id = True
    async with served(settings) as hub:
        response = await hub.post("/jsonrpc", notification("memory-server/memory/get_or_create", {}))
        answer = response.json()
        assert (response.status_code, answer["id"]) == (200, None)
        assert answer["result"]["conversation_id"]
        assert await error(hub, notification("no/such", {})) == (None, -32601)
        batch = await hub.post("/jsonrpc", [request(1), notification(QUERY, {"keywords": "kettle"})])
        assert [one["id"] for one in batch.json()] == [1, None]


async def test_a_batch_is_answered_in_order_and_without_its_notifications(hub: Served) -> None:
    response = await hub.post(
        "/jsonrpc",
        [
            request("before"),
            notification(SUBMIT, KETTLE),
            request("submit", SUBMIT, KETTLE),
            request("after"),
            {"foo": "boo"},
            request(5, "foo.get"),
            1,
            request("list", QUERY, ["kettle"]),
        ],
    )
    answers: list[Json] = response.json()
    assert [answer["id"] for answer in answers] == ["before", "submit", "after", None, 5, None, "list"]
    assert [answer["result"]["data"]["total"] for answer in (answers[0], answers[2])] == [0, 2]
    assert [answers[n]["error"]["code"] for n in (3, 4, 5, 6)] == [-32600, -32601, -32600, -32602]


async def test_a_batch_of_notifications_is_not_answered(hub: Served) -> None:
    response = await hub.post("/jsonrpc", [notification(SUBMIT, KETTLE)] * 3)
    assert (response.status_code, response.content) == (204, b"")
    assert (await hub.rpc("query_experiences", {"keywords": "kettle"}))["result"]["data"]["total"] == 3


async def test_a_batch_of_one_is_answered_by_a_list(shared_hub: Served) -> None:
    assert [answer["id"] for answer in (await shared_hub.post("/jsonrpc", [request(1)])).json()] == [1]


@pytest.mark.parametrize(
    "body", [b"", b"{", b'{"jsonrpc": "2.0", "method": "foobar, "params": "bar", "baz]', b"\xff", b"NaN"]
)
async def test_what_is_no_json_is_a_parse_error(shared_hub: Served, body: bytes) -> None:
    assert await error(shared_hub, body) == (None, -32700)


async def test_json_that_is_too_deep_is_a_parse_error(shared_hub: Served) -> None:
    assert await error(shared_hub, b"[" * 100 + b"]" * 100) == (None, -32700)


@pytest.mark.parametrize(
    ("body", "id"),
    [
        ([], None),
        (1, None),
        ({}, None),
        ({"jsonrpc": "2.0", "method": 1, "params": "bar"}, None),
        ({"method": QUERY, "id": 7}, 7),
        ({"jsonrpc": "1.0", "method": QUERY, "id": 7}, 7),
        ({"jsonrpc": "2.0", "method": QUERY, "params": "bar", "id": 7}, 7),
        ({"jsonrpc": "2.0", "method": QUERY, "id": True}, None),
        ({"jsonrpc": "2.0", "result": 1, "id": 7}, 7),
        ({"jsonrpc": "2.0", "error": {"code": 1, "message": "m"}, "id": 7}, 7),
    ],
)
async def test_what_is_no_request_is_invalid(shared_hub: Served, body: Any, id: Any) -> None:
    assert await error(shared_hub, body) == (id, -32600)


async def test_a_batch_is_bounded(shared_hub: Served) -> None:
    assert len((await shared_hub.post("/jsonrpc", [request(n) for n in range(LARGEST_BATCH)])).json()) == LARGEST_BATCH
    assert await error(shared_hub, [request(n) for n in range(LARGEST_BATCH + 1)]) == (None, -32600)


@pytest.mark.parametrize(
    "method", ["", "query_experiences", "experiences-server", "experiences-server/nothing", "rpc.x", "/"]
)
async def test_an_unknown_method_is_not_found(shared_hub: Served, method: str) -> None:
    assert await error(shared_hub, request(1, method)) == (1, -32601)


async def test_parameters_by_position_are_invalid(shared_hub: Served) -> None:
    assert await error(shared_hub, request(1, QUERY, ["kettle"])) == (1, -32602)


@pytest.mark.requirement("002.jsonrpc.internal")
async def test_a_contract_without_an_envelope_answers_errors(settings: Settings) -> None:
    async with served(settings, Boards().capability) as hub:
        good = await hub.post("/jsonrpc", {"jsonrpc": "2.0", "method": "boards-server/count", "id": 1})
        assert good.json() == {"jsonrpc": "2.0", "result": {"counted": 3}, "id": 1}
        assert await error(hub, request(1, "boards-server/count", {"x": 1})) == (1, -32602)
        assert await error(hub, request(1, "boards-server/fail", {"x": 1})) == (1, -32602)
        broken = (await hub.post("/jsonrpc", {"jsonrpc": "2.0", "method": "boards-server/fail", "id": 1})).json()
        assert broken["error"]["code"] == -32603
        assert broken["error"]["data"]["code"] == "INTERNAL"
        assert "umami" not in str(broken)


async def test_parameters_may_be_left_out(shared_hub: Served) -> None:
    answer = (await shared_hub.post("/jsonrpc", {"jsonrpc": "2.0", "method": QUERY, "id": 1})).json()
    assert answer["result"]["error"]["code"] == "INVALID_KEYWORDS"


async def test_only_post_is_served(shared_hub: Served) -> None:
    response = await shared_hub.get("/jsonrpc")
    assert (response.status_code, response.json()["error"]["code"]) == (405, "METHOD_NOT_ALLOWED")
