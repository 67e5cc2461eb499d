"""Paths of nested parameters (`content.body`): on the command line, each field of an object is a parameter of its
own."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

from kho.lib.merge import merged

Spec = dict[str, Any]


def specs(schema: Mapping[str, Any]) -> dict[str, Spec]:
    """Return the parameters by path. An object that allows keys of any name is also one parameter: it is typed as
    JSON."""
    return {path: spec for name, spec in _properties(schema).items() for path, spec in _parts(name, spec)}


def is_open(spec: Mapping[str, Any]) -> bool:
    """True if it is an object that allows keys of any name."""
    return spec.get("type") == "object" and (
        not _properties(spec) or spec.get("additionalProperties", False) is not False
    )


def is_required(schema: Mapping[str, Any], path: str) -> bool:
    """True if the schema requires the parameter."""
    name, _, rest = path.partition(".")
    if name not in schema.get("required", ()):
        return False
    return not rest or is_required(_properties(schema)[name], rest)


def put_together(typed: Mapping[str, Any]) -> dict[str, Any]:
    """Nest the values: {'content.body': 'x'} becomes {'content': {'body': 'x'}}."""
    whole: dict[str, Any] = {}
    for path in sorted(typed, key=lambda path: path.count(".")):  # an object given as JSON first, then its typed fields
        *above, last = path.split(".")
        value = {last: typed[path]}
        for name in reversed(above):
            value = {name: value}
        whole = merged(whole, value)
    return whole


def at(arguments: Mapping[str, Any], path: str) -> Any:
    """Return the value at the path; None if there is none."""
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
