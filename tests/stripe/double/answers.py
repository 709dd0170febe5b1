"""Checks an answer against the description, and makes objects that fit it."""

from __future__ import annotations

from typing import Any

from tests.stripe.double.description import Schema, resolved, schema_of

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


def faults(schema: Schema, value: Any, place: str = "answer") -> list[str]:
    """Everything in which a value differs from its schema; empty when it fits."""
    nullable = schema.get("nullable", False)
    schema = resolved(schema)
    if value is None:
        return [] if nullable or schema.get("nullable") else [f"{place} is null"]
    if "anyOf" in schema:
        found = [faults(option, value, place) for option in schema["anyOf"]]
        return [] if any(not one for one in found) else min(found, key=len)
    kind = schema.get("type")
    if kind is None:
        return []
    if not isinstance(value, _TYPES[kind]) or (isinstance(value, bool) and kind != "boolean"):
        return [f"{place} is {type(value).__name__}, not {kind}"]
    if kind == "object":
        return _object(schema, value, place)
    if kind == "array":
        return [fault for index, one in enumerate(value) for fault in faults(schema["items"], one, f"{place}[{index}]")]
    return _plain(schema, value, place)


def _object(schema: Schema, value: dict[str, Any], place: str) -> list[str]:
    properties, others = schema.get("properties"), schema.get("additionalProperties")
    found = [f"{place}.{name} is missing" for name in schema.get("required", ()) if name not in value]
    for name, one in value.items():
        if properties is not None and name in properties:
            found += faults(properties[name], one, f"{place}.{name}")
        elif isinstance(others, dict):
            found += faults(others, one, f"{place}.{name}")
        elif properties:  # an object without any property is one of free form (an event's data)
            found.append(f"{place}.{name} is not described")
    return found


def _plain(schema: Schema, value: Any, place: str) -> list[str]:
    if "enum" in schema and value not in schema["enum"]:
        return [f"{place} is {value!r}, not one of {schema['enum'][:8]}"]
    if isinstance(value, str) and len(value) > schema.get("maxLength", len(value)):
        return [f"{place} is longer than {schema['maxLength']}"]
    return []


def made(name: str, /, **values: Any) -> dict[str, Any]:
    """An object of a named schema: what is required and not given gets the plainest value that fits."""
    schema = schema_of(name)
    found = {key: _plainest(schema["properties"][key]) for key in schema.get("required", ()) if key not in values}
    return {**found, **values}


def _plainest(schema: Schema) -> Any:
    if schema.get("nullable"):
        return None
    schema = resolved(schema)
    if schema.get("nullable"):
        return None
    if "anyOf" in schema:
        return _plainest(schema["anyOf"][0])
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type", "string")
    if kind == "object":
        return {key: _plainest(schema["properties"][key]) for key in schema.get("required", ())}
    return {"string": "", "integer": 0, "number": 0, "boolean": False, "array": []}[kind]
