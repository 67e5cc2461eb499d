"""What the hub says of itself: /health, /servers, /metrics and /openapi.json."""

import re
from dataclasses import replace
from typing import Any, cast

import jsonschema
import pytest
from jsonschema import Draft202012Validator
from tests.doors.doors import (
    AUDIT,
    DEVICES,
    DOCUMENTS,
    EXPERIENCES,
    FACTS,
    MEMORY,
    RECALL,
    RESEARCH,
    SERVERS,
    TOOLBOX,
    Boards,
    Json,
    Served,
    add_key,
    bearer,
    new_key,
    served,
)

from kho.app import open_hub
from kho.doors.http.discovery import health
from kho.kernel import api_keys
from kho.kernel.api_keys import ApiKey
from kho.kernel.errors import DatabaseError
from kho.settings import Settings

LESSER = [
    "export_experiences", "import_experiences", "upload_document", "feedback_analytics", "query_history",
    "clear_history", "job_status", "list_jobs", "cancel_job", "list_kb_documents", "get_kb_document", "remove_kb_document",
    "knowledge_base_status", "rebuild_index", "export_knowledge", "import_knowledge", "memory_get_old_messages",
    "memory_get_or_create_summary", "memory_export", "memory_import", "add_webhook", "list_webhooks", "remove_webhook",
    "dead_deliveries", "retry_deliveries", "get_fact", "export_facts", "import_facts",
    "verify_audit", "export_audit", "erase_audit",
]  # fmt: skip
"""Actions that are no tools, or tools of admins alone."""

ADMINISTRATION = (
    "create_key", "list_keys", "revoke_key", "rotate_key", "delete_key", "turn_off_keys", "list_tenants", "list_settings",
    "purge",
)  # fmt: skip


async def test_health_is_exactly_what_the_contract_shows(shared_hub: Served) -> None:
    response = await shared_hub.get("/health")
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
    assert response.json() == {"status": "healthy", "servers": SERVERS}


async def test_a_hub_whose_database_does_not_answer_is_unhealthy(settings: Settings) -> None:
    async def silent() -> None:
        raise DatabaseError

    async with open_hub(settings) as hub:
        assert (await health(hub))[0] == 200
        assert await health(replace(hub, ping=silent)) == (
            503, {"status": "unhealthy", "servers": SERVERS},
        )  # fmt: skip


async def test_servers_are_listed_with_exactly_the_documented_keys(shared_hub: Served) -> None:
    answer: Json = (await shared_hub.get("/servers")).json()
    assert answer.keys() == {"servers"}
    expected: tuple[tuple[list[str], ...], ...] = (
        ([], [], []),
        (TOOLBOX, [], []),
        (FACTS, [], []),
        (RECALL, [], []),
        (EXPERIENCES, [], ["summarize_experience", "submit_doc_experience"]),
        (RESEARCH, ["Collections", "Query history"], ["refine_query", "extract_context"]),
        (DOCUMENTS, [], []),
        (DEVICES, [], []),
        ([], [], []),  # administration is no tool of models
        (AUDIT, [], []),
    )
    assert [server["name"] for server in answer["servers"]] == SERVERS
    for server, (tools, resources, prompts) in zip(answer["servers"], expected, strict=True):
        assert server.keys() == {"name", "capabilities"}
        found = server["capabilities"]
        assert found.keys() == {"tools", "resources", "prompts"}
        assert all(tool.keys() == {"name", "description", "inputSchema"} for tool in found["tools"])
        for kind, names in (("tools", tools), ("resources", resources), ("prompts", prompts)):
            assert [one["name"] for one in found[kind]] == names


async def test_one_server_s_capabilities_are_those_of_the_list(settings: Settings) -> None:
    async with served(settings, Boards().capability) as hub:
        listed = (await hub.get("/servers")).json()["servers"]
        assert [server["name"] for server in listed] == [*SERVERS, "boards-server"]
        for server in listed:
            answer = (await hub.get(f"/servers/{server['name']}/capabilities")).json()
            assert answer == {"server_name": server["name"], "capabilities": server["capabilities"]}


@pytest.mark.parametrize("path", ["/servers/nobody/capabilities", "/servers/nobody", "/nothing", "/open"])
async def test_what_is_not_there_is_404_in_json(shared_hub: Served, path: str) -> None:
    response = await shared_hub.get(path)
    assert (response.status_code, response.headers["content-type"]) == (404, "application/json")
    assert response.json()["error"]["code"] == "NOT_FOUND"


async def test_metrics_count_calls_by_operation_door_and_outcome(hub: Served) -> None:
    for keywords in ("kettle", "pot", ""):
        await hub.rpc("query_experiences", {"keywords": keywords})
    await hub.act("query_experiences", {"keywords": "kettle"})
    response = await hub.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain")
    lines = re.findall(r"^kho_calls_total\{(.*)\} ([\d.]+)$", response.text, re.MULTILINE)
    labelled = [(dict(re.findall(r'(\w+)="([^"]*)"', labels)), float(value)) for labels, value in lines]
    assert {labels["operation"] for labels, _ in labelled} == {"experiences.query"}
    counted = {(labels["door"], labels["code"]): value for labels, value in labelled}
    assert counted == {("jsonrpc", "OK"): 2, ("jsonrpc", "INVALID_KEYWORDS"): 1, ("actions", "OK"): 1}
    assert re.search(r'^kho_call_seconds_count\{.*door="jsonrpc".*\} 3\.0$', response.text, re.MULTILINE)


# -- OpenAPI -----------------------------------------------------------------------------------------------------------


def schemas(node: Any) -> list[Json]:
    """Every schema of the description."""
    found: list[Json] = []
    if isinstance(node, dict):
        for key, value in cast(Json, node).items():
            found += [value] if key == "schema" else schemas(value)
    elif isinstance(node, list):
        for item in cast(list[Any], node):
            found += schemas(item)
    return found


async def test_the_description_is_openapi_3_1(shared_hub: Served) -> None:
    described: Json = (await shared_hub.get("/openapi.json")).json()
    assert described["openapi"] == "3.1.0"
    assert described["info"].keys() >= {"title", "version"}
    assert described["paths"].keys() == {
        "/actions",
        "/jsonrpc",
        "/health",
        "/servers",
        "/servers/{name}/capabilities",
        "/metrics",
        "/",
        "/open/{id}",
        "/xiaozhi/ota/",
        "/xiaozhi/ota/activate",
        "/xiaozhi/v1/",
        "/vision/explain",
        "/devices/ws",
        "/devices/events",
    }
    for path, methods in described["paths"].items():
        assert methods.keys() <= {"get", "post"}
        for operation in methods.values():
            assert all(re.fullmatch(r"[1-5]\d\d", status) for status in operation["responses"])
            assert all(response["description"] for response in operation["responses"].values())
            declared = {one["name"] for one in operation.get("parameters", ()) if one["in"] == "path"}
            assert declared == set(re.findall(r"\{(\w+)\}", path))
    for scheme in described["security"]:
        assert scheme.keys() <= described["components"]["securitySchemes"].keys()
    found = schemas(described)
    assert len(found) >= 7
    for schema in found:
        Draft202012Validator.check_schema(schema)


def actions_of(described: Json) -> set[str]:
    body = described["paths"]["/actions"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    return {variant["properties"]["action"]["const"] for variant in body["oneOf"] if "properties" in variant}


async def test_a_caller_is_told_of_the_operations_that_it_may_use(settings: Settings) -> None:
    async with open_hub(settings) as opened:
        id, limited, digest = api_keys.mint()
        await opened.keys.add(
            ApiKey(id, "bot", "acme", ("*",), digest, opened.clock(), tools=("facts",), read_only=True)
        )
        everything, nothing = await add_key(opened, "acme"), await add_key(opened, "acme", "nothing")
        admin = await add_key(opened, "acme", "*", "admin")
    reads = {"list_facts", "fact_history"}
    async with served(settings) as hub:
        for key, shown, hidden in (
            (limited, reads, {"remember", "create_document", "create_key", "list_documents"}),
            (everything, reads | {"remember", "create_document"}, {"create_key", "turn_off_keys", "purge_document"}),
            (admin, reads | {"create_key"}, set[str]()),
            (nothing, set[str](), reads),
        ):
            described: Json = (await hub.get("/openapi.json", **bearer(key))).json()
            for schema in schemas(described):
                Draft202012Validator.check_schema(schema)
            methods = str(described["paths"]["/jsonrpc"])
            told = (await hub.act("nonsuch", {}, key=key)).json()["error"]["message"]
            listed = {*told.partition("There are: ")[2].rstrip(".").split(", ")}
            for name in shown:
                assert name in actions_of(described) & listed
                assert f"/{name}'" in methods
            for name in hidden:
                assert name not in actions_of(described) | listed
                assert f"/{name}'" not in methods
        assert "/devices/events" not in (await hub.get("/openapi.json", **bearer(limited))).json()["paths"]


async def test_every_action_is_described_and_its_example_is_valid(settings: Settings) -> None:
    key, admin = await new_key(settings, "local"), await new_key(settings, "local", "*", "admin")
    async with served(settings) as hub:
        described: Json = (await hub.get("/openapi.json", **bearer(admin))).json()
        await examples_are_valid(hub, described, key)


async def examples_are_valid(hub: Served, described: Json, key: str) -> None:
    body = described["paths"]["/actions"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    variants: Json = {variant["properties"]["action"]["const"]: variant for variant in body["oneOf"]}
    assert variants.keys() == {
        *MEMORY, *TOOLBOX, *FACTS, *RECALL, *EXPERIENCES, *RESEARCH, *DOCUMENTS, *DEVICES, *ADMINISTRATION, *AUDIT, *LESSER,
    }  # fmt: skip
    lawful: Any = jsonschema.Draft202012Validator(body)  # `jsonschema.validate` would check the schema each time
    lawful.check_schema(body)
    for action, variant in variants.items():
        [example] = variant["examples"]
        assert example["action"] == action
        lawful.validate(example)
        whole = {**example, "request_id": "r-1", "principal": {"sub": "mai", "roles": ["x"]}}
        lawful.evolve(schema=variant).validate(whole)
        response = await hub.post("/actions", example, **bearer(key))
        expected = {200, 403, 404, 409, 424}  # 403: for admins only; 424: no web here
        assert response.status_code in expected, (action, response.text)
    with pytest.raises(jsonschema.ValidationError):
        lawful.validate({"action": "query_experiences", "payload": {"keywords": "x", "limit": 51}})
