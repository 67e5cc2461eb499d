"""POST /actions: the envelope, idempotent writes on both databases, and who is believed to be calling."""

import asyncio
import uuid
from typing import Any

import httpx2
import pytest
from tests.doors.doors import Boards, Json, Served, new_key, served

from kho.settings import Settings

KETTLE = {"title": "kettle", "problem_description": "p", "solution": "s"}
SUBMIT, QUERY = "submit_experience", "query_experiences"


async def total(hub: Served, **envelope: Any) -> int:
    return (await hub.act(QUERY, {"keywords": "kettle"}, **envelope)).json()["result"]["data"]["total"]


def failed(response: httpx2.Response) -> tuple[int, str]:
    """The status and code of a refusal outside of any contract's envelope."""
    answer: Json = response.json()
    assert answer.keys() == {"request_id", "action", "status", "error"}
    assert answer["status"] == "error"
    assert answer["error"].keys() - {"guidance"} == {"code", "message", "details"}
    return response.status_code, answer["error"]["code"]


# -- the envelope ------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("000.envelope.reply")
async def test_an_answer_names_its_request(hub: Served) -> None:
    response = await hub.act(SUBMIT, KETTLE, request_id="r-1")
    answer: Json = response.json()
    assert response.status_code == 200
    assert answer == {"request_id": "r-1", "action": SUBMIT, "status": "ok", "result": answer["result"]}
    assert answer["result"]["success"]


async def test_a_request_without_an_id_is_given_one(hub: Served) -> None:
    ids = [(await hub.act(SUBMIT, KETTLE)).json()["request_id"] for _ in range(2)]
    assert all(id == str(uuid.UUID(id)) for id in ids)
    assert ids[0] != ids[1]
    assert await total(hub) == 2


async def test_a_contract_s_failure_is_its_envelope_with_a_status(shared_hub: Served) -> None:
    response = await shared_hub.act(QUERY, {"keywords": ""}, request_id="r-2")
    answer = response.json()
    assert response.status_code == 400
    assert answer.keys() == {"request_id", "action", "status", "result"}
    assert (answer["request_id"], answer["status"]) == ("r-2", "error")
    assert (answer["result"]["success"], answer["result"]["error"]["code"]) == (False, "INVALID_KEYWORDS")


async def test_an_unknown_action(shared_hub: Served) -> None:
    response = await shared_hub.act("dance", {}, request_id="r-3")
    assert failed(response) == (404, "UNKNOWN_OPERATION")
    assert (response.json()["request_id"], response.json()["action"]) == ("r-3", "dance")
    assert SUBMIT in response.json()["error"]["message"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff",
        b"[" * 100 + b"]" * 100,
        [],
        "text",
        {},
        {"action": ""},
        {"action": 1},
        {"action": QUERY, "payload": []},
        {"action": QUERY, "request_id": ""},
        {"action": QUERY, "request_id": "a b"},
        {"action": QUERY, "request_id": "x" * 129},
        {"action": QUERY, "request_id": 7},
        {"action": QUERY, "principal": "root"},
        {"action": QUERY, "principal": {"tenant_id": "a b"}},
    ],
)
async def test_what_is_no_envelope(shared_hub: Served, body: Any) -> None:
    response = await shared_hub.post("/actions", body)
    assert failed(response) == (400, "INVALID_ARGUMENT")
    assert response.json()["error"]["guidance"]
    assert "Envelope" not in response.text
    assert "Input should" not in response.text


@pytest.mark.parametrize(
    ("envelope", "words"),
    [
        ({"request_id": "đơn-1"}, "'request_id' must be 1 to 128 letters without accents, digits or characters of"),
        ({"payload": "x"}, "'payload' must be an object."),
        ({"payloads": {}}, "'payloads' is not a known parameter."),
        ({"principal": {"tenant": "acme"}}, "'principal.tenant' is not a known parameter."),
        ({"payload": [], "request_id": "r-9"}, "'payload' must be an object."),
    ],
)
async def test_what_is_wrong_with_an_envelope_is_said_in_words(shared_hub: Served, envelope: Json, words: str) -> None:
    response = await shared_hub.post("/actions", {"action": QUERY, **envelope})
    assert failed(response) == (400, "INVALID_ARGUMENT")
    answer = response.json()
    assert answer["error"]["message"].startswith(f"The envelope is not valid: {words}")
    # What could be read is said again.
    assert (answer["action"], answer["request_id"]) == (QUERY, envelope.get("request_id"))


@pytest.mark.requirement("000.envelope.version")
async def test_another_version_of_the_contract_is_refused_and_nothing_is_written(hub: Served) -> None:
    for version in ("1.0", "3", 1, 3.5, "20", "2.", "latest", ""):
        response = await hub.post("/actions", {"action": SUBMIT, "payload": KETTLE, "version": version})
        assert failed(response) == (400, "INVALID_ARGUMENT"), version
        assert "must be 2.0 or another 2.x" in response.json()["error"]["message"]
    assert (await hub.rpc("query_experiences", {"keywords": "kettle"}))["result"]["data"]["total"] == 0
    for version in ("2.0", "2", 2, 2.1, "2.1.3", None):
        response = await hub.post("/actions", {"action": QUERY, "payload": {"keywords": "kettle"}, "version": version})
        assert response.status_code == 200, version


async def test_a_text_is_no_envelope(shared_hub: Served) -> None:
    answer = (await shared_hub.post("/actions", [])).json()
    assert answer["error"]["message"] == "The envelope is not valid: it must be an object."
    assert (answer["action"], answer["request_id"]) == (None, None)


async def test_a_bug_tells_nothing(settings: Settings) -> None:
    async with served(settings, Boards().capability) as hub:
        response = await hub.act("fail", {}, request_id="r-4")
        assert failed(response) == (500, "INTERNAL")
        assert response.json()["error"]["details"] == {"request_id": "r-4"}
        assert "umami" not in response.text
        assert failed(await hub.act("fail", {"x": 1})) == (400, "INVALID_ARGUMENT")


# -- idempotency -------------------------------------------------------------------------------------------------------


async def test_a_repeated_write_gets_the_first_answer_byte_for_byte(both_hubs: Served) -> None:
    first = await both_hubs.act(SUBMIT, KETTLE, request_id="r-1")
    for _ in range(3):
        again = await both_hubs.act(SUBMIT, dict(reversed(KETTLE.items())), request_id="r-1")
        assert (again.status_code, again.content) == (200, first.content)
    assert await total(both_hubs) == 1


async def test_another_body_under_the_same_id_is_a_conflict(both_hubs: Served) -> None:
    await both_hubs.act(SUBMIT, KETTLE, request_id="r-1")
    for action, payload in ((SUBMIT, {**KETTLE, "title": "kettle two"}), ("delete_experience", {"id": "x"})):
        response = await both_hubs.act(action, payload, request_id="r-1")
        assert failed(response) == (409, "CONFLICT")
        assert response.json()["request_id"] == "r-1"
    assert await total(both_hubs) == 1


async def test_equal_requests_that_race_make_one_record(both_hubs: Served) -> None:
    responses = await asyncio.gather(*(both_hubs.act(SUBMIT, KETTLE, request_id="r-1") for _ in range(12)))
    assert {response.status_code for response in responses} == {200}
    assert len({response.content for response in responses}) == 1
    assert await total(both_hubs) == 1


async def test_different_requests_that_race_for_one_id_make_one_record(both_hubs: Served) -> None:
    payloads = [{**KETTLE, "title": f"kettle {number}"} for number in range(8)]
    responses = await asyncio.gather(*(both_hubs.act(SUBMIT, payload, request_id="r-1") for payload in payloads))
    assert sorted(response.status_code for response in responses) == [200] + [409] * 7
    assert await total(both_hubs) == 1


async def test_two_hubs_on_one_database_keep_to_it(both_settings: Settings) -> None:
    async with served(both_settings) as one, served(both_settings) as other:
        responses = await asyncio.gather(*(hub.act(SUBMIT, KETTLE, request_id="r-1") for hub in [one, other] * 5))
        assert len({response.content for response in responses}) == 1
        assert await total(one) == 1


async def test_the_answer_is_kept_over_a_restart(settings: Settings) -> None:
    async with served(settings) as hub:
        first = await hub.act(SUBMIT, KETTLE, request_id="r-1")
    async with served(settings) as hub:
        assert (await hub.act(SUBMIT, KETTLE, request_id="r-1")).content == first.content
        assert await total(hub) == 1


async def test_a_failed_write_keeps_nothing(both_hubs: Served) -> None:
    assert (await both_hubs.act(SUBMIT, {**KETTLE, "title": ""}, request_id="r-1")).status_code == 400
    assert (await both_hubs.act("delete_experience", {"id": "unknown"}, request_id="r-2")).status_code == 404
    assert (await both_hubs.act(SUBMIT, KETTLE, request_id="r-1")).status_code == 200
    assert (await both_hubs.act(SUBMIT, KETTLE, request_id="r-2")).status_code == 200
    assert await total(both_hubs) == 2


async def test_every_write_is_idempotent(both_hubs: Served) -> None:
    id = (await both_hubs.act(SUBMIT, KETTLE)).json()["result"]["data"]["id"]
    steps: list[tuple[str, Json]] = [
        ("update_experience", {"id": id, "expected_revision": 1, "title": "kettle two"}),
        ("rate_experience", {"id": id, "helpful": True}),
        ("delete_experience", {"id": id}),
        ("restore_experience", {"id": id}),
        ("import_experiences", {"experiences": [{**KETTLE, "id": "imported"}]}),
    ]
    for action, payload in steps:
        first = await both_hubs.act(action, payload, request_id=f"r-{action}")
        assert first.status_code == 200, first.text
        assert (await both_hubs.act(action, payload, request_id=f"r-{action}")).content == first.content


async def test_reads_are_done_anew_under_the_same_id(hub: Served) -> None:
    assert await total(hub, request_id="r-1") == 0
    await hub.act(SUBMIT, KETTLE)
    assert await total(hub, request_id="r-1") == 1


async def test_ids_of_two_tenants_do_not_meet(hub: Served) -> None:
    one = await hub.act(SUBMIT, KETTLE, request_id="r-1", principal={"tenant_id": "one"})
    other = await hub.act(SUBMIT, {**KETTLE, "title": "kettle two"}, request_id="r-1", principal={"tenant_id": "other"})
    assert (one.status_code, other.status_code) == (200, 200)


# -- who is calling (D7) -----------------------------------------------------------------------------------------------


async def test_on_this_machine_the_stated_principal_is_believed(hub: Served) -> None:
    acme = {"sub": "mai", "tenant_id": "acme", "roles": ["reader"]}
    id = (await hub.act(SUBMIT, KETTLE, principal=acme)).json()["result"]["data"]["id"]
    assert await total(hub, principal={"tenant_id": "acme"}) == 1
    assert await total(hub, principal={"tenant_id": "other"}) == 0
    assert await total(hub) == 0
    assert (await hub.act("get_experience", {"id": id}, principal={"tenant_id": "other"})).status_code == 404
    for sub in ("mai", "lan", "mai"):
        rated = await hub.act("rate_experience", {"id": id, "helpful": True}, principal={**acme, "sub": sub})
    assert rated.json()["result"]["data"]["helpful"] == 2  # pyright: ignore[reportPossiblyUnbound]


async def test_an_empty_principal_is_this_machine_s_user(hub: Served) -> None:
    await hub.act(SUBMIT, KETTLE, principal={})
    assert await total(hub) == await total(hub, principal={"tenant_id": "local"}) == 1


async def test_with_a_key_the_key_decides(settings: Settings) -> None:
    key = await new_key(settings, "acme")
    async with served(settings) as hub:
        assert (
            await hub.act(SUBMIT, KETTLE, key=key, principal={"sub": "bot", "tenant_id": "acme"})
        ).status_code == 200
        assert await total(hub, key=key) == 1
        for stated in ({"tenant_id": "other"}, {"sub": "root"}, {"sub": "bot", "tenant_id": "local"}):
            assert failed(await hub.act(QUERY, {"keywords": "kettle"}, key=key, principal=stated)) == (403, "FORBIDDEN")
        assert (await hub.act(QUERY, {"keywords": "kettle"})).status_code == 401


async def test_roles_that_are_stated_grant_nothing(settings: Settings) -> None:
    key = await new_key(settings, "acme", "exp:read")
    async with served(settings) as hub:
        response = await hub.act(SUBMIT, KETTLE, key=key, principal={"roles": ["admin", "exp:write", "*"]})
        assert response.status_code == 403
        assert response.json()["result"]["error"]["code"] == "FORBIDDEN"
        assert await total(hub, key=key) == 0
