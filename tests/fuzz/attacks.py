"""Strategies: requests that are right in most places and wrong in some, as bytes."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from kho import app
from kho.kernel.call import Principal
from kho.kernel.operation import Operation
from kho.settings import Settings
from tests.fuzz.corpus import VALUES
from tests.fuzz.target import MODERN, SEED, Request, action, mcp_handshake, mcp_modern, rpc

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
            suppress_health_check=list(HealthCheck),
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


def hostile() -> Bytes:
    return HOSTILE | encoded(ANYTHING)


@st.composite
def objects(draw: st.DrawFn, members: dict[str, Bytes], extra: int = 1) -> bytes:
    """An object with some of the members, perhaps twice, perhaps others besides."""
    pairs: list[bytes] = []
    for name, values in members.items():
        for _ in range(draw(st.sampled_from((0, 1, 1, 1, 1, 1, 1, 2)))):
            pairs.append(dumps(name) + b": " + draw(values))
    if draw(st.integers(0, 9)) == 0:
        for _ in range(extra):
            pairs.append(draw(encoded(TEXTS)) + b": " + draw(hostile()))
    return b"{" + b", ".join(draw(st.permutations(pairs))) + b"}"


# --- arguments ----------------------------------------------------------------------------------------------------------


def plausible(name: str, spec: dict[str, Any], ids: Sequence[str]) -> Bytes:
    """Values of the right type, and often of the right kind: only they get past the first check."""
    if name in ("id", "ids"):
        some = st.sampled_from([*ids, "no-such-id"])
        return encoded(some if name == "id" else st.lists(some, max_size=3))
    if name == "experiences":
        return encoded_list(objects({field: argument(field, inner, ids) for field, inner in RECORD.items()}))
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
    return st.one_of(plausible(name, spec, ids), plausible(name, spec, ids), hostile())


def encoded_list(items: Bytes) -> Bytes:
    return st.lists(items, max_size=3).map(lambda found: b"[" + b", ".join(found) + b"]")


def properties(operation: Operation) -> dict[str, dict[str, Any]]:
    return operation.input_schema.get("properties", {})


TIME: dict[str, Any] = {"type": "string", "enum": ["2024-05-01T12:00:00Z", "1969-12-31T23:59:59+07:00"]}
RECORD: dict[str, dict[str, Any]] = {
    **properties(ACTIONS["submit_experience"]),
    **{name: TIME for name in ("created_at", "updated_at", "deleted_at")},
    **{name: {"type": "integer"} for name in ("query_count", "helpful", "unhelpful", "revision")},
    "id": {"type": "string"},
}


def arguments(operation: Operation, ids: Sequence[str]) -> Bytes:
    members = {name: argument(name, spec, ids) for name, spec in properties(operation).items()}
    example = {name: st.just(dumps(value)) for name, value in operation.example.items()}
    one_wrong = st.sampled_from(sorted(members)).flatmap(lambda name: objects({**example, name: members[name]}))
    return st.one_of(objects(members), one_wrong, hostile())


# --- requests -----------------------------------------------------------------------------------------------------------


def ids_of_calls() -> Bytes:
    return st.one_of(encoded(st.integers() | TEXTS | st.none() | st.floats()), hostile())


def rpc_calls(ids: Sequence[str]) -> Bytes:
    def call(name: str) -> Bytes:
        return objects(
            {
                "jsonrpc": st.one_of(*[st.just(b'"2.0"')] * 9, hostile()),
                "id": ids_of_calls(),
                "method": st.one_of(*[st.just(dumps(name))] * 9, hostile()),
                "params": arguments(METHODS[name], ids),
            }
        )

    return st.sampled_from(sorted(METHODS)).flatmap(call)


def rpc_requests(ids: Sequence[str]) -> st.SearchStrategy[Request]:
    calls = rpc_calls(ids)
    batches = st.lists(calls | hostile(), max_size=6).map(lambda found: b"[" + b", ".join(found) + b"]")
    return st.one_of(calls, calls, calls, batches).map(rpc)


def action_requests(ids: Sequence[str]) -> st.SearchStrategy[Request]:
    # Few request ids, so that the same one comes again with the same and with another body.
    request_ids = st.one_of(encoded(st.sampled_from(["a", "b", "c"])), encoded(st.uuids().map(str)), hostile())
    names = st.sampled_from(["local", "other", "a/b@c"])
    principal = objects({"sub": encoded(names) | hostile(), "tenant_id": encoded(names), "roles": hostile()})

    def act(name: str) -> Bytes:
        return objects(
            {
                "action": st.one_of(*[st.just(dumps(name))] * 9, hostile()),
                "request_id": request_ids,
                "principal": st.one_of(st.just(b"null"), principal, hostile()),
                "payload": arguments(ACTIONS[name], ids),
            }
        )

    return st.sampled_from(sorted(ACTIONS)).flatmap(act).map(action)


def tool_calls(ids: Sequence[str], modern: bool) -> st.SearchStrategy[Request]:
    def call(name: str) -> st.SearchStrategy[Request]:
        params = objects(
            {
                "name": st.one_of(*[st.just(dumps(name))] * 9, hostile()),
                "arguments": arguments(TOOLS[name], ids),
                "_meta": st.one_of(*[st.just(META)] * 9, hostile()),
            }
        )
        body = objects(
            {
                "jsonrpc": st.just(b'"2.0"'),
                "id": ids_of_calls(),
                "method": st.just(b'"tools/call"'),
                "params": st.one_of(*[params] * 9, hostile()),
            }
        )
        return body.map(lambda found: mcp_modern(found, name) if modern else mcp_handshake(found))

    return st.sampled_from(sorted(TOOLS)).flatmap(call)


def mutated(originals: Sequence[bytes]) -> Bytes:
    """Good requests with a few bytes changed, lost, doubled or swapped in from another."""

    @st.composite
    def mutate(draw: st.DrawFn) -> bytes:
        body = bytearray(draw(st.sampled_from(originals)))
        for _ in range(draw(st.integers(1, 4))):
            at = draw(st.integers(0, len(body)))
            match draw(st.integers(0, 3)):
                case 0:
                    body[at : at + draw(st.integers(0, 8))] = draw(st.binary(max_size=8))
                case 1:
                    body[at:at] = draw(st.sampled_from(originals))
                case 2:
                    body[at:at] = draw(HOSTILE)
                case _:
                    del body[at:]
        return bytes(body)

    return mutate()
