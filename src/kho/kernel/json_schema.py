"""JSON Schemas that models read well: no generated titles, no `anyOf` with null.

Clients that hand the schema to a language model pay for every word of it, and several refuse unions with null.
"""

from typing import Any, cast

from pydantic import BaseModel

JsonSchema = dict[str, Any]

ERROR: JsonSchema = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {"code": {"type": "string"}, "message": {"type": "string"}, "details": {"type": "object"}},
            "required": ["code", "message"],
        }
    },
    "required": ["error"],
}
"""What an operation without an envelope of its own answers when it fails."""

CONTRACT_ERROR: JsonSchema = {
    "type": "object",
    "properties": {
        "code": {"type": "string"},
        "contract_code": {"type": "integer"},
        "message": {"type": "string"},
        "details": {"type": "string"},
        "guidance": {"type": "string"},
    },
    "required": ["code", "contract_code", "message", "details", "guidance"],
}
"""What an operation whose contract has error numbers answers, where it cannot answer with a JSON-RPC error."""


def of(model: type[BaseModel], mode: str = "validation") -> JsonSchema:
    schema = model.model_json_schema(mode="serialization" if mode == "serialization" else "validation")
    definitions = cast(dict[str, JsonSchema], schema.pop("$defs", {}))
    return cast(JsonSchema, _tidy(schema, definitions))


def or_error(schema: JsonSchema, error: JsonSchema = ERROR) -> JsonSchema:
    """A strict client checks failures against the output schema too: it must cover them."""
    return {"type": "object", "anyOf": [schema, error]}


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
        if key == "properties":  # a property may well be called "title"
            tidy[key] = {name: _tidy(inner, definitions) for name, inner in cast(JsonSchema, value).items()}
        else:
            tidy[key] = _tidy(value, definitions)
    if tidy.get("additionalProperties") == {}:  # says the same, and no client takes it for a missing type
        tidy["additionalProperties"] = True
    return tidy
