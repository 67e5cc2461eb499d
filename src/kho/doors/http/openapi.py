"""GET /openapi.json, generated from the operations that the caller may use."""

from collections.abc import Sequence
from typing import Any

from kho.doors.http.actions import Envelope
from kho.kernel import Capability, Operation, Page, Served, Socket, Stream, json_schema
from kho.kernel.access import Open

Json = dict[str, Any]

_TEXT: Json = {
    "200": {"description": "Metrics.", "content": {"text/plain": {"schema": {"type": "string"}}}},
    "401": {"description": "A key is needed."},
}
_PAGE: Json = {"200": {"description": "A page.", "content": {"text/html": {"schema": {"type": "string"}}}}}
_ID: Json = {"type": ["string", "number", "null"]}


def openapi(version: str, capabilities: Sequence[Capability]) -> Json:
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Kho",
            "version": version,
            "description": "A hub that gives agents, chatbots and small devices a shared, lasting memory. "
            "MCP is served at /mcp; this describes the plain HTTP interface beside it.",
        },
        "components": {"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
        "security": [{}, {"key": []}],
        "paths": {
            "/actions": {"post": _actions(capabilities)},
            "/jsonrpc": {"post": _jsonrpc(capabilities)},
            "/health": {"get": _get("The health of the hub.", _object("status", "servers"), unhealthy=True)},
            "/servers": {"get": _get("Every server and what it offers.", _object("servers"))},
            "/servers/{name}/capabilities": {"get": _capabilities(capabilities)},
            "/metrics": {"get": {"summary": "Figures for Prometheus.", "responses": _TEXT}},
            "/": {"get": {"summary": "What this is, for people.", "security": [{}], "responses": _PAGE}},
            "/open/{id}": {"get": _open()},
            **{served.path: _served(served) for one in capabilities for served in one.web},
        },
    }


def _actions(capabilities: Sequence[Capability]) -> Json:
    envelope = json_schema.of(Envelope)
    actions = {one.action: one for capability in capabilities for one in capability.operations if one.action}
    variants = [_action(envelope, name, actions[name]) for name in sorted(actions)]
    body: Json = {"oneOf": variants or [{"not": {}}]}
    reply = _object("request_id", "action", "status")
    return {
        "operationId": "act",
        "summary": "Runs one action. For writes, request_id is an idempotency key.",
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": body}},
        },
        "responses": _responses(reply, "400", "401", "403", "404", "409", "413", "415", "421", "429"),
    }


def _action(envelope: Json, name: str, operation: Operation) -> Json:
    properties = {
        **envelope["properties"],
        "action": {"const": name},
        "payload": {**operation.input_schema, "description": operation.summary},
    }
    return {
        "type": "object",
        "title": name,
        "properties": properties,
        "required": ["action", "payload"],
        "examples": [{"action": name, "payload": dict(operation.example)}],
    }


def _jsonrpc(capabilities: Sequence[Capability]) -> Json:
    methods = sorted(
        f"{one.server}/{operation.rpc}" for one in capabilities for operation in one.operations if operation.rpc
    )
    request: Json = {
        "type": "object",
        "properties": {
            "jsonrpc": {"const": "2.0"},
            "method": {"type": "string", "enum": methods},
            "params": {"type": "object"},
            "id": _ID,
        },
        "required": ["jsonrpc", "method"],
    }
    reply: Json = {
        "type": "object",
        "properties": {"jsonrpc": {"const": "2.0"}, "result": {}, "error": {"type": "object"}, "id": _ID},
        "required": ["jsonrpc", "id"],
    }
    answer: Json = {"anyOf": [reply, {"type": "array", "items": reply}]}
    responses = _responses(answer, "400", "401", "413", "415", "421", "429")
    return {
        "operationId": "call",
        "summary": "JSON-RPC 2.0: one request, a notification (answered 204) or a batch.",
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {"anyOf": [request, {"type": "array", "items": request, "minItems": 1, "maxItems": 100}]}
                }
            },
        },
        "responses": {**responses, "204": {"description": "Only notifications: nothing to answer."}},
    }


def _capabilities(capabilities: Sequence[Capability]) -> Json:
    names = [capability.server for capability in capabilities]
    described = _get("The tools, resources and prompts of one server.", _object("server_name", "capabilities"))
    described["parameters"] = [
        {"name": "name", "in": "path", "required": True, "schema": {"type": "string", "examples": names}}
    ]
    described["responses"]["404"] = {"description": "No such server."}
    return described


def _open() -> Json:
    id: Json = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
    offset: Json = {"name": "offset", "in": "query", "schema": {"type": "integer", "minimum": 0}}
    return {
        "summary": "Something that search found, as a page for people.",
        "parameters": [id, offset],
        "responses": _responses({"type": "string"}, "400", "401", "403", "404", "421", "429", kind="text/html"),
    }


def _served(served: Served) -> Json:
    """Describe a page, stream or socket that a slice serves beside its operations."""
    match served:
        case Page():
            kind = "multipart/form-data" if served.upload else "application/json"
            body: Json = {"requestBody": {"content": {kind: {"schema": _object()}}}}
            described: Json = {
                "summary": served.summary,
                "responses": _responses({}, "400", "401", "403", "413", "421", "429"),
            }
            if isinstance(served.scope, Open):
                described["security"] = [{}]
            return {method.lower(): described | (body if method != "GET" else {}) for method in served.methods}
        case Stream():
            answers = _responses({"type": "string"}, "400", "401", "403", "421", "429", kind="text/event-stream")
            return {"get": {"summary": served.summary, "responses": answers}}
        case Socket():
            answers = _responses({}, "400", "401", "403", "421", "429")
            answers["101"] = {"description": "A WebSocket."}
            del answers["200"]
            return {"get": {"summary": served.summary, "security": [{}], "responses": answers}}


def _get(summary: str, reply: Json, *, unhealthy: bool = False) -> Json:
    return {"summary": summary, "responses": _responses(reply, "400", "401", "421", "503" if unhealthy else "429")}


def _responses(reply: Json, *refusals: str, kind: str = "application/json") -> Json:
    ok: Json = {"200": {"description": "The answer.", "content": {kind: {"schema": reply}}}}
    refused: dict[str, Json] = {
        status: {"description": "Refused; the body says why and what to do."} for status in refusals
    }
    if "429" in refused:
        wait = {"description": "Seconds after which to try again.", "schema": {"type": "integer"}}
        refused["429"] = {"description": "A limit is reached; the body names it.", "headers": {"Retry-After": wait}}
    return ok | refused


def _object(*required: str) -> Json:
    return {"type": "object", "required": list(required)}
