"""The corpus as requests: every hostile value in fields of real calls at every door, every hostile body at every door."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, cast

from tests.fuzz.attacks import ACTIONS, META, METHODS, RECORD, TOOLS, dumps, properties
from tests.fuzz.corpus import ACTION_BODIES, BODIES, MCP_BODIES, RPC_BODIES, VALUES
from tests.fuzz.target import Request, Target, action, mcp_handshake, mcp_modern, rpc

from kho.kernel.operation import Operation

Seed = Callable[[Target], Request]
"""Makes the request once there is a hub: only then is there an id to name."""


def joined(members: dict[str, bytes]) -> bytes:
    return b"{" + b", ".join(dumps(name) + b": " + value for name, value in members.items()) + b"}"


def with_value(operation: Operation, field: str, value: bytes, target: Target) -> bytes:
    """The operation's example with one argument replaced."""
    example: dict[str, Any] = dict(operation.example)
    if "id" in example:
        example["id"] = target.doomed if operation.effect == "destructive" else target.victim
    return joined({name: dumps(inner) for name, inner in example.items()} | {field: value})


def by_rpc(name: str, field: str, value: bytes) -> Seed:
    def make(target: Target) -> Request:
        params = with_value(METHODS[name], field, value, target)
        return rpc(b'{"jsonrpc": "2.0", "id": 1, "method": %s, "params": %s}' % (dumps(name), params))

    return make


def by_action(name: str, field: str, value: bytes) -> Seed:
    def make(target: Target) -> Request:
        payload = with_value(ACTIONS[name], field, value, target)
        return action(b'{"action": %s, "payload": %s}' % (dumps(name), payload))

    return make


def by_import(field: str, value: bytes) -> Seed:
    record = joined({"title": b'"t"', "problem_description": b'"p"', "solution": b'"s"', field: value})
    return lambda target: action(b'{"action": "import_experiences", "payload": {"experiences": [%s]}}' % record)


def by_tool(name: str, field: str, value: bytes, modern: bool) -> Seed:
    def make(target: Target) -> Request:
        arguments = with_value(TOOLS[name], field, value, target)
        params = b'{"name": %s, "arguments": %s, "_meta": %s}' % (dumps(name), arguments, META)
        body = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": %s}' % params
        return mcp_modern(body, name) if modern else mcp_handshake(body)

    return make


def hostile_values() -> Iterator[tuple[str, Seed]]:
    """Each value where most is done with it, and in one field after the other at every door."""
    rpc_fields, action_fields, tool_fields = (_fields(found) for found in (METHODS, ACTIONS, TOOLS))
    for number, (label, value) in enumerate(VALUES.items()):
        yield f"query, {label}", by_rpc("experiences-server/query_experiences", "keywords", value)
        yield f"import, {label}", by_import([*RECORD][number % len(RECORD)], value)
        yield f"rpc, {label}", by_rpc(*rpc_fields[number % len(rpc_fields)], value)
        yield f"action, {label}", by_action(*action_fields[(number + 7) % len(action_fields)], value)
        yield f"tool, {label}", by_tool(*tool_fields[(number + 3) % len(tool_fields)], value, number % 2 == 0)
    for label, value in VALUES.items():
        if value.strip(b'"')[:1] in b"-0123456789":
            yield f"import, created_at {label}", by_import("created_at", value)
            yield f"update, {label}", by_action("update_experience", "expected_revision", value)
            yield f"update by tool, {label}", by_tool("update_experience", "expected_revision", value, modern=True)


def hostile_bodies() -> Iterator[tuple[str, Seed]]:
    for label, body in (BODIES | RPC_BODIES).items():
        yield f"/jsonrpc, {label}", lambda target, body=body: rpc(body)
    for label, body in (BODIES | ACTION_BODIES).items():
        yield f"/actions, {label}", lambda target, body=body: action(body)
    for number, (label, body) in enumerate((BODIES | RPC_BODIES | MCP_BODIES).items()):
        if number % 2 or label in MCP_BODIES:
            yield f"/mcp, {label}", lambda target, body=body: mcp_handshake(body)
        if not number % 2 or label in MCP_BODIES:
            yield f"/mcp of 2026, {label}", lambda target, body=body: modernised(body)


def good_requests(target: Target) -> list[Request]:
    """Every operation's example at every door where it is served: what mutations start from."""
    nothing = b"null"
    rpcs = [by_rpc(name, "x", nothing)(target) for name in METHODS]
    actions = [by_action(name, "x", nothing)(target) for name in ACTIONS]
    tools = [by_tool(name, "x", nothing, modern)(target) for name in TOOLS for modern in (False, True)]
    return [replace(request, body=request.body.replace(b', "x": null', b"")) for request in (*rpcs, *actions, *tools)]


def modernised(body: bytes) -> Request:
    """With the envelope and the headers that the later era wants, as far as the body says which."""
    try:
        message = cast(dict[str, Any], json.loads(body))
        method = str(message["method"])
        name = str(message["params"].get("name") or message["params"].get("uri") or "")
        name.encode("latin-1")
        method.encode("latin-1")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return mcp_modern(body)
    return mcp_modern(body.replace(b'"params": {', b'"params": {"_meta": %s, ' % META, 1), name, method)


def _fields(operations: dict[str, Operation]) -> list[tuple[str, str]]:
    return [(name, field) for name, found in sorted(operations.items()) for field in properties(found)]


SEEDS = dict([*hostile_values(), *hostile_bodies()])
POSTGRES_SEEDS = {label: seed for label, seed in SEEDS.items() if label.startswith(("query", "import"))}
"""Those that reach the database."""
