"""Strategies: requests that are right in most places and wrong in some, as bytes."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from tests.fuzz.corpus import VALUES
from tests.fuzz.target import MODERN, SEED, Request, Target, action, mcp_handshake, mcp_modern, rpc

from kho import slices
from kho.kernel.call import Principal
from kho.kernel.operation import Operation
from kho.lib.jsonrpc import ParseError, loads

T = TypeVar("T")

REGISTRY = slices.describe()
# Not those that reach out of this machine: each would wait for a network that tests have none of.
OPERATIONS: Sequence[Operation] = [
    operation
    for operation in REGISTRY.operations(Principal("fuzz", "fuzz", frozenset({"*"})))
    if not operation.open_world
]
METHODS = dict(REGISTRY.methods)
ACTIONS = {name: operation for name, operation in REGISTRY.actions.items() if not operation.open_world}
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

# One fragment that is no JSON spoils the whole request, so most values are JSON, and only what they say is wrong.
ANY_TEXT = st.text(st.characters(), max_size=30)  # surrogates, NUL and all
TEXT = st.text(st.characters(codec="utf-8"), max_size=30)
GOOD_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=60)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
ANYTHING = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=8,
)


def _is_json(value: bytes) -> bool:
    try:
        loads(value)
    except ParseError:
        return False
    return True


# The largest ones are for the seeds: drawn often, they would be most of the time spent. Drawn by their labels, which
# is what Hypothesis shows of a strategy.
_SMALL = {label: _is_json(value) for label, value in VALUES.items() if len(value) < 100_000}
SOUND = st.sampled_from([label for label, sound in _SMALL.items() if sound]).map(lambda label: VALUES[label])
BROKEN = st.sampled_from([label for label, sound in _SMALL.items() if not sound]).map(lambda label: VALUES[label])


@st.composite
def encoded(draw: st.DrawFn, values: st.SearchStrategy[Any]) -> bytes:
    return dumps(draw(values), draw(st.booleans()))


def dumps(value: Any, escaped: bool = True) -> bytes:
    """Python's own JSON, which also writes what JSON has no word for; what is not escaped may be no UTF-8."""
    return json.dumps(value, ensure_ascii=escaped).encode("utf-8", "surrogatepass")


WRONG = st.one_of(SOUND, encoded(ANYTHING))
ANY = st.one_of(SOUND, encoded(ANYTHING), encoded(ANY_TEXT | st.floats()), BROKEN)


@st.composite
def objects(draw: st.DrawFn, members: dict[str, Bytes], spoil: int = 8) -> bytes:
    """An object with these members, of which one time in `spoil` one is missing, given twice, or something else."""
    pairs = [(dumps(name), draw(values)) for name, values in members.items()]
    if draw(st.integers(1, spoil)) == spoil:
        at = draw(st.integers(0, max(0, len(pairs) - 1)))
        match draw(st.sampled_from(["missing", "twice", "else", "more"] if pairs else ["more"])):
            case "missing":
                del pairs[at]
            case "twice":
                pairs.append((pairs[at][0], draw(ANY)))
            case "else":
                pairs[at] = (pairs[at][0], draw(ANY))
            case _:
                pairs.append((draw(encoded(ANY_TEXT)), draw(ANY)))
    return b"{" + b", ".join(name + b": " + value for name, value in pairs) + b"}"


@st.composite
def some_of(draw: st.DrawFn, members: dict[str, Bytes]) -> bytes:
    """An object with a choice of the members."""
    chosen = draw(st.lists(st.sampled_from(sorted(members)), unique=True)) if members else []
    return draw(objects({name: members[name] for name in chosen or members}))


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
REQUIRED = ("title", "problem_description", "solution")


def plausible(name: str, spec: dict[str, Any], ids: Sequence[str]) -> Bytes:
    """Values of the right type, and often of the right kind: only they get past the first check."""
    if name in ("id", "ids"):
        some = st.sampled_from([*ids, "no-such-id"])
        return encoded(some if name == "id" else st.lists(some, max_size=3))
    if name == "experiences":
        required = {field: plausible(field, RECORD[field], ids) for field in REQUIRED}
        odd = [objects({**required, field: argument(field, inner, ids)}) for field, inner in RECORD.items()]
        whole = objects({field: argument(field, inner, ids) for field, inner in RECORD.items() if field != "sanitize"})
        return listed(st.one_of(whole, *odd), most=3)
    match spec.get("type"):
        case "integer":
            return encoded(st.integers(0, 60) | st.integers(0, 3) | st.integers())
        case "boolean":
            return encoded(st.booleans())
        case "array":
            return encoded(st.lists(GOOD_TEXT, max_size=5))
        case _ if "enum" in spec:
            return encoded(st.sampled_from(spec["enum"]))
        case _:
            return encoded(GOOD_TEXT)


def argument(name: str, spec: dict[str, Any], ids: Sequence[str]) -> Bytes:
    return st.one_of(*[plausible(name, spec, ids)] * 4, WRONG)


def listed(items: Bytes, most: int) -> Bytes:
    return st.lists(items, max_size=most).map(lambda found: b"[" + b", ".join(found) + b"]")


def arguments(operation: Operation, target: Target) -> Bytes:
    """A record that may be deleted for those who delete, so that the others keep one to work on."""
    ids = [target.doomed] if operation.effect == "destructive" else [target.victim, target.doomed]
    members = {name: argument(name, spec, ids) for name, spec in properties(operation).items()}
    example = {name: st.just(dumps(value)) for name, value in operation.example.items()}
    if "id" in example:
        example["id"] = st.just(dumps(ids[0]))
    right = {name: plausible(name, spec, ids) for name, spec in properties(operation).items()}
    one_odd = st.one_of([objects({**example, name: WRONG | values}) for name, values in members.items()])
    branches = [objects(right), some_of(right), some_of(right), objects(members), one_odd, one_odd, one_odd, WRONG]
    return st.sampled_from(branches).flatmap(lambda branch: branch)  # one_of would weigh one_odd by its many parts


# --- requests -----------------------------------------------------------------------------------------------------------


def any_of(strategies: Sequence[st.SearchStrategy[T]]) -> st.SearchStrategy[T]:
    """As `st.one_of`, for so many large ones that naming them all would take longer than drawing from one."""
    return st.integers(0, len(strategies) - 1).flatmap(lambda number: strategies[number])


IDS = encoded(st.integers(-(2**63), 2**63 - 1) | GOOD_TEXT)


def rpc_requests(target: Target) -> Requests:
    def call(name: str, operation: Operation) -> Bytes:
        params = arguments(operation, target)
        return objects({"jsonrpc": st.just(b'"2.0"'), "id": IDS, "method": st.just(dumps(name)), "params": params})

    calls = any_of([call(name, operation) for name, operation in METHODS.items()])
    return st.one_of(calls, calls, calls, listed(calls | WRONG, most=6)).map(rpc)


def action_requests(target: Target) -> Requests:
    # Few request ids, so that the same one comes again with the same and with another body.
    request_ids = encoded(st.sampled_from(["a", "b", "c"]) | st.uuids().map(str))
    names = encoded(st.sampled_from(["local", "other", "a/b@c"]))
    principal = st.one_of(st.just(b"null"), objects({"sub": names, "tenant_id": names, "roles": st.just(b"[]")}))

    def act(name: str, operation: Operation) -> Bytes:
        members = {"action": st.just(dumps(name)), "payload": arguments(operation, target)}
        full = {**members, "request_id": request_ids, "principal": principal}
        return objects(members) | objects(full)

    return any_of([act(name, operation) for name, operation in ACTIONS.items()]).map(action)


def tool_requests(target: Target, *, modern: bool) -> Requests:
    def call(name: str, operation: Operation) -> Requests:
        given = arguments(operation, target)
        params = objects({"name": st.just(dumps(name)), "arguments": given, "_meta": st.just(META)}, spoil=16)
        method = st.just(b'"tools/call"')
        body = objects({"jsonrpc": st.just(b'"2.0"'), "id": IDS, "method": method, "params": params}, spoil=16)
        return body.map(lambda found: mcp_modern(found, name) if modern else mcp_handshake(found))

    return any_of([call(name, operation) for name, operation in TOOLS.items()])


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
                    body[at:at] = draw(SOUND | BROKEN)
                case _:
                    del body[at:]
        return replace(request, body=bytes(body))

    @st.composite
    def noise(draw: st.DrawFn) -> Request:
        return replace(draw(st.sampled_from(originals)), body=draw(st.binary(max_size=200)))

    return st.one_of(mutate(), mutate(), noise())
