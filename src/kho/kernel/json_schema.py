"""JSON Schemas that are easy for language models: no generated titles, no `anyOf` with null.

Clients pass the schema to a model, so each word costs tokens, and several clients reject unions with null.
"""

from collections.abc import Collection
from typing import Any, cast

from pydantic import BaseModel

JsonSchema = dict[str, Any]

ERROR: JsonSchema = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {"code": {"type": "string"}, "message": {"type": "string"}},
            "required": ["code", "message"],
        }
    },
    "required": ["error"],
}
"""Schema of a failure for operations without an envelope of their own."""

CONTRACT_ERROR: JsonSchema = {
    "type": "object",
    "properties": {"code": {"type": "string"}, "contract_code": {"type": "integer"}, "message": {"type": "string"}},
    "required": ["code", "contract_code", "message"],
}
"""Schema of a failure for operations whose contract has error numbers, where a JSON-RPC error is not possible."""


def of(model: type[BaseModel], mode: str = "validation") -> JsonSchema:
    schema = model.model_json_schema(mode="serialization" if mode == "serialization" else "validation")
    definitions = cast(dict[str, JsonSchema], schema.pop("$defs", {}))
    return cast(JsonSchema, _tidy(schema, definitions))


def or_error(schema: JsonSchema, error: JsonSchema = ERROR) -> JsonSchema:
    """Add the error form to an output schema: strict clients validate failures against it, too."""
    return {"type": "object", "anyOf": [schema, error]}


CHECKED = {"pattern", "minLength", "maxLength", "minItems", "maxItems", "minimum"}
"""Limits that a model keeps to without being told; a call beyond them is refused in words."""


def compact(schema: JsonSchema, explained: Collection[str] | None = ()) -> JsonSchema:
    """Return the schema as a list of tools carries it, without what a model does not need: limits that it does not come
    near, and the descriptions of properties that are not `explained` (None: all are)."""
    return cast(JsonSchema, _compact(schema, explained, described=False))


def _compact(node: Any, explained: Collection[str] | None, *, described: bool) -> Any:
    if isinstance(node, list):
        return [_compact(item, explained, described=False) for item in cast(list[Any], node)]
    if not isinstance(node, dict):
        return node
    found: JsonSchema = {}
    for key, value in cast(JsonSchema, node).items():
        if key == "properties":
            found[key] = {
                name: _compact(inner, explained, described=explained is None or name in explained)
                for name, inner in cast(JsonSchema, value).items()
            }
        elif (
            key in CHECKED
            or (key == "description" and not described)
            or (key == "additionalProperties" and isinstance(value, bool))
        ):
            continue
        else:
            found[key] = _compact(value, explained, described=False)
    return found


def _tidy(node: Any, definitions: dict[str, JsonSchema]) -> Any:
    if isinstance(node, list):
        return [_tidy(item, definitions) for item in cast(list[Any], node)]
    if not isinstance(node, dict):
        return node
    found = cast(JsonSchema, node)
    variants = cast(list[JsonSchema], found.get("anyOf", []))
    present = [variant for variant in variants if variant.get("type") != "null"]
    if variants and len(present) == 1:
        found = {**present[0], **{k: v for k, v in found.items() if k != "anyOf"}}
    elif variants:
        found = {**found, "anyOf": present}
    reference = found.get("$ref")
    if isinstance(reference, str):
        found = {**definitions[reference.rsplit("/", 1)[-1]], **{k: v for k, v in found.items() if k != "$ref"}}
    tidy: JsonSchema = {}
    for key, value in found.items():
        if key == "title" or (key == "default" and value is None):
            continue
        if key == "properties":  # a property may be called "title"
            tidy[key] = {name: _tidy(inner, definitions) for name, inner in cast(JsonSchema, value).items()}
        else:
            tidy[key] = _tidy(value, definitions)
    if tidy.get("additionalProperties") == {}:  # same meaning, but no client mistakes it for a missing type
        tidy["additionalProperties"] = True
    return tidy
