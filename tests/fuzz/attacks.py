"""Strategies: requests that are right in most places and wrong in some, as bytes."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from tests.fuzz.corpus import VALUES
from tests.fuzz.target import MODERN, SEED, Request, Target, action, mcp_handshake, mcp_modern, rpc

from kho import app
from kho.kernel.call import Principal
from kho.kernel.operation import Operation
from kho.settings import Settings

REGISTRY = app.describe(Settings())
OPERATIONS: Sequence[Operation] = list(REGISTRY.operations(Principal("fuzz", "fuzz", frozenset({"*"}))))
METHODS = dict(REGISTRY.methods)
ACTIONS = dict(REGISTRY.actions)
TOOLS = {operation.tool: operation for operation in OPERATIONS if operation.tool}

META = json.dumps(
    {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "fuzz", "version": "1"},
    }
).encode()

Bytes = st.SearchStrategy[bytes]
Requests = st.SearchStrategy[Request]


def explore(strategy: st.SearchStrategy[Any], send: Callable[[Any], object], count: int) -> None:
    """Draws `count` examples and sends each. Exactly as many: Hypothesis ends early where it finds nothing new."""
    done = 0
    attempt = 0
    while done < count:
        attempt += 1

        @seed(SEED + attempt)
        @settings(
            max_examples=count - done,
            database=None,
            deadline=None,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list[HealthCheck](cast(Any, HealthCheck)),
        )
        @given(strategy)
        def one(example: Any) -> None:
            nonlocal done
            done += 1
            send(example)

        one()


# --- values -----------------------------------------------------------------------------------------------------------

TEXTS = st.text(st.characters(), max_size=30)  # surrogates, NUL and all
PLAIN = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=60)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4), max_leaves=8
)
# The largest ones are for the corpus itself: drawn often, they would be most of the time spent.
HOSTILE = st.sampled_from([value for value in VALUES.values() if len(value) < 100_000])


@st.composite
def encoded(draw: st.DrawFn, values: st.SearchStrategy[Any]) -> bytes:
    return dumps(draw(values), draw(st.booleans()))


def dumps(value: Any, escaped: bool = True) -> bytes:
    """Python's own JSON, which also writes what JSON has no word for; what is not escaped may be no UTF-8."""
    return json.dumps(value, ensure_ascii=escaped).encode("utf-8", "surrogatepass")


ODD = encoded(ANYTHING)


@st.composite
def objects(draw: st.DrawFn, members: dict[str, Bytes], extra: int = 1) -> bytes:
    """An object with some of the members, perhaps twice, perhaps others besides."""
    pairs: list[bytes] = []
    for name, values in members.items():
        for _ in range(draw(st.sampled_from((0, 1, 1, 1, 1, 1, 1, 2)))):
            pairs.append(dumps(name) + b": " + draw(values))
    if draw(st.integers(0, 9)) == 0:
        for _ in range(extra):
            pairs.append(draw(encoded(TEXTS)) + b": " + draw(HOSTILE))
    return b"{" + b", ".join(draw(st.permutations(pairs))) + b"}"


# --- arguments ----------------------------------------------------------------------------------------------------------


def properties(operation: Operation) -> dict[str, dict[str, Any]]:
    return operation.input_schema.get("properties", {})


_TIME: dict[str, Any] = {"type": "string", "enum": ["2024-05-01T12:00:00Z", "1969-12-31T23:59:59+07:00"]}
RECORD: dict[str, dict[str, Any]] = {
    **properties(ACTIONS["submit_experience"]),
    **dict.fromkeys(("created_at", "updated_at", "deleted_at"), _TIME),
    **{name: {"type": "integer"} for name in ("query_count", "helpful", "unhelpful", "revision")},
    "id": {"type": "string"},
}
"""The fields of a record that is imported."""


def plausible(name: str, spec: dict[str, Any], ids: Sequence[str]) -> Bytes:
    """Values of the right type, and often of the right kind: only they get past the first check."""
    if name in ("id", "ids"):
        some = st.sampled_from([*ids, "no-such-id"])
        return encoded(some if name == "id" else st.lists(some, max_size=3))
    if name == "experiences":
        record = objects({field: argument(field, inner, ids) for field, inner in RECORD.items()})
        return listed(record, most=3)
    match spec.get("type"):
        case "integer":
            return encoded(st.integers(0, 60) | st.integers())
        case "boolean":
            return encoded(st.booleans())
        case "array":
            return encoded(st.lists(PLAIN, max_size=5))
        case _ if "enum" in spec:
            return encoded(st.sampled_from(spec["enum"]))
        case _:
            return encoded(PLAIN)


def argument(name: str, spec: dict[str, Any], ids: Sequence[str]) -> Bytes:
    return st.one_of(plausible(name, spec, ids), plausible(name, spec, ids), HOSTILE, ODD)


def listed(items: Bytes, most: int) -> Bytes:
    return st.lists(items, max_size=most).map(lambda found: b"[" + b", ".join(found) + b"]")


def arguments(operation: Operation, target: Target) -> Bytes:
    """A record that may be deleted for those who delete, so that the others keep one to work on."""
    ids = [target.doomed] if operation.effect == "destructive" else [target.victim, target.doomed]
    members = {name: argument(name, spec, ids) for name, spec in properties(operation).items()}
    example = {name: st.just(dumps(value)) for name, value in operation.example.items()}
    if "id" in example:
        example["id"] = st.just(dumps(ids[0]))
    one_wrong = [objects({**example, name: values}) for name, values in members.items()]
    return st.one_of(objects(members), st.one_of(one_wrong), HOSTILE)


# --- requests -----------------------------------------------------------------------------------------------------------

IDS = st.one_of(encoded(st.integers() | TEXTS | st.none() | st.floats()), HOSTILE)


def mostly(value: str) -> Bytes:
    return st.one_of(*[st.just(dumps(value))] * 9, HOSTILE)


def rpc_requests(target: Target) -> Requests:
    def call(name: str, operation: Operation) -> Bytes:
        params = arguments(operation, target)
        return objects({"jsonrpc": mostly("2.0"), "id": IDS, "method": mostly(name), "params": params})

    calls = st.one_of([call(name, operation) for name, operation in METHODS.items()])
    return st.one_of(calls, calls, calls, listed(calls | HOSTILE, most=6)).map(rpc)


def action_requests(target: Target) -> Requests:
    # Few request ids, so that the same one comes again with the same and with another body.
    request_ids = st.one_of(encoded(st.sampled_from(["a", "b", "c"])), encoded(st.uuids().map(str)), HOSTILE)
    names = encoded(st.sampled_from(["local", "other", "a/b@c"])) | HOSTILE
    principal = st.one_of(st.just(b"null"), objects({"sub": names, "tenant_id": names, "roles": ODD}), HOSTILE)

    def act(name: str, operation: Operation) -> Bytes:
        payload = arguments(operation, target)
        return objects({"action": mostly(name), "request_id": request_ids, "principal": principal, "payload": payload})

    return st.one_of([act(name, operation) for name, operation in ACTIONS.items()]).map(action)


def tool_requests(target: Target, *, modern: bool) -> Requests:
    def call(name: str, operation: Operation) -> Requests:
        meta = st.one_of(*[st.just(META)] * 9, HOSTILE)
        params = objects({"name": mostly(name), "arguments": arguments(operation, target), "_meta": meta})
        body = objects({"jsonrpc": mostly("2.0"), "id": IDS, "method": mostly("tools/call"), "params": params})
        return body.map(lambda found: mcp_modern(found, name) if modern else mcp_handshake(found))

    return st.one_of([call(name, operation) for name, operation in TOOLS.items()])


def raw_requests(originals: Sequence[Request]) -> Requests:
    """Any bytes at all, and good requests with a few bytes changed, lost, doubled or swapped in from another."""

    @st.composite
    def mutate(draw: st.DrawFn) -> Request:
        request = draw(st.sampled_from(originals))
        body = bytearray(request.body)
        for _ in range(draw(st.integers(1, 4))):
            at = draw(st.integers(0, len(body)))
            match draw(st.integers(0, 3)):
                case 0:
                    body[at : at + draw(st.integers(0, 8))] = draw(st.binary(max_size=8))
                case 1:
                    body[at:at] = draw(st.sampled_from(originals)).body
                case 2:
                    body[at:at] = draw(HOSTILE)
                case _:
                    del body[at:]
        return replace(request, body=bytes(body))

    @st.composite
    def noise(draw: st.DrawFn) -> Request:
        return replace(draw(st.sampled_from(originals)), body=draw(st.binary(max_size=200)))

    return st.one_of(mutate(), mutate(), noise())
