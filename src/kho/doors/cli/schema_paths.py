"""Objects in arguments. On the command line each of their parts is a parameter of its own, known by its path
(`content.body`)."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

Spec = dict[str, Any]


def specs(schema: Mapping[str, Any]) -> dict[str, Spec]:
    """The parameters by their paths. An object that may have keys of any name is one, too: it is typed as JSON."""
    return {path: spec for name, spec in _properties(schema).items() for path, spec in _parts(name, spec)}


def is_open(spec: Mapping[str, Any]) -> bool:
    """Whether it is an object with keys of any name."""
    return spec.get("type") == "object" and (
        not _properties(spec) or spec.get("additionalProperties", False) is not False
    )


def is_required(schema: Mapping[str, Any], path: str) -> bool:
    """Whether there are no arguments without it."""
    name, _, rest = path.partition(".")
    if name not in schema.get("required", ()):
        return False
    return not rest or is_required(_properties(schema)[name], rest)


def put_together(typed: Mapping[str, Any]) -> dict[str, Any]:
    """{'content.body': 'x'} as {'content': {'body': 'x'}}."""
    whole: dict[str, Any] = {}
    for path in sorted(typed, key=lambda path: path.count(".")):  # an object as JSON, then what was typed of its parts
        *above, last = path.split(".")
        value = {last: typed[path]}
        for name in reversed(above):
            value = {name: value}
        whole = merged(whole, value)
    return whole


def merged(first: Mapping[str, Any], then: Mapping[str, Any]) -> dict[str, Any]:
    """Both; what both have is that of the second."""
    done = dict(first)
    for name, value in then.items():
        earlier = done.get(name)
        both = isinstance(earlier, dict) and isinstance(value, dict)
        done[name] = merged(cast(Spec, earlier), cast(Spec, value)) if both else value
    return done


def at(arguments: Mapping[str, Any], path: str) -> Any:
    """None where there is nothing."""
    found: Any = arguments
    for name in path.split("."):
        found = cast(Mapping[str, Any], found).get(name) if isinstance(found, Mapping) else None
    return found


def without(arguments: Mapping[str, Any], path: str) -> dict[str, Any]:
    name, _, rest = path.partition(".")
    if not rest:
        return {key: value for key, value in arguments.items() if key != name}
    inner = arguments.get(name)
    return {**arguments, name: without(cast(Spec, inner), rest)} if isinstance(inner, dict) else dict(arguments)


def _parts(path: str, spec: Spec) -> Iterator[tuple[str, Spec]]:
    properties = _properties(spec) if spec.get("type") == "object" else {}
    if not properties or is_open(spec):
        yield path, spec
    for name, inner in properties.items():
        yield from _parts(f"{path}.{name}", inner)


def _properties(spec: Mapping[str, Any]) -> dict[str, Spec]:
    return cast(dict[str, Spec], spec.get("properties", {}))
