"""Deep merge of nested objects, as in JSON and TOML."""

from collections.abc import Mapping
from typing import Any, cast


def merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Merge both, object by object; where both have a value, `over` wins."""
    result = dict(under)
    for name, value in over.items():
        below = result.get(name)
        both = isinstance(below, Mapping) and isinstance(value, Mapping)
        result[name] = merged(cast(Mapping[str, Any], below), cast(Mapping[str, Any], value)) if both else value
    return result
