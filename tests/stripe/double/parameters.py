"""Reads a request's parameters by the description: strings become values, and what is not described is refused."""

from __future__ import annotations

import re
from typing import Any

from tests.stripe.double.description import Schema, resolved
from tests.stripe.double.errors import Refused, malformed

METADATA_KEYS, METADATA_KEY_LENGTH = 50, 40


def read(schema: Schema, value: Any, name: str = "") -> Any:
    """The typed value. Raises Refused, naming the parameter, as Stripe does."""
    schema = resolved(schema)
    if "anyOf" in schema:
        return _any(schema["anyOf"], value, name)
    kind = schema.get("type")
    if kind == "object":
        return _object(schema, value, name)
    if kind == "array":
        if not isinstance(value, list):
            raise malformed("Invalid array", code="parameter_invalid_array", param=name)
        return [read(schema["items"], one, f"{name}[{index}]") for index, one in enumerate(value)]
    if not isinstance(value, str):
        raise malformed(f"Invalid {kind}: {name}", code=f"parameter_invalid_{kind}", param=name)
    return _plain(schema, value, name)


def _any(options: list[Schema], value: Any, name: str) -> Any:
    refusals: list[Refused] = []
    for option in sorted(options, key=lambda one: 0 if one.get("enum") == [""] else 1):
        try:
            return read(option, value, name)
        except Refused as refusal:
            refusals.append(refusal)
    shapes = {dict: "object", list: "array"}
    wanted = shapes.get(type(value), "")
    for option, refusal in zip(
        sorted(options, key=lambda one: 0 if one.get("enum") == [""] else 1), refusals, strict=True
    ):
        if option.get("type") == wanted:
            raise refusal
    raise refusals[-1]


def _object(schema: Schema, value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise malformed("Invalid object", code="parameter_invalid_object", param=name)
    properties, others = schema.get("properties", {}), schema.get("additionalProperties", False)
    found: dict[str, Any] = {}
    for key, one in value.items():
        path = f"{name}[{key}]" if name else key
        if key in properties:
            found[key] = read(properties[key], one, path)
        elif isinstance(others, dict):
            found[key] = _entry(others, key, one, path)
        else:
            raise malformed(f"Received unknown parameter: {path}", code="parameter_unknown", param=path)
    if isinstance(others, dict) and len(found) > METADATA_KEYS:
        raise malformed("Too many metadata keys", code="parameter_invalid", param=name)
    for key in schema.get("required", ()):
        if key not in found:
            path = f"{name}[{key}]" if name else key
            raise malformed(f"Missing required param: {path}.", code="parameter_missing", param=path)
    return found


def _entry(schema: Schema, key: str, value: Any, path: str) -> Any:
    if len(key) > METADATA_KEY_LENGTH:
        raise malformed(f"Metadata keys have at most {METADATA_KEY_LENGTH} signs", code="parameter_invalid", param=path)
    return read({"maxLength": 500, **schema}, value, path)


def _plain(schema: Schema, value: str, name: str) -> Any:
    kind = schema.get("type", "string")
    if kind == "integer":
        if not re.fullmatch(r"-?[0-9]{1,15}", value):
            raise malformed(f"Invalid integer: {value}", code="parameter_invalid_integer", param=name)
        return int(value)
    if kind == "boolean":
        if value not in {"true", "false"}:
            raise malformed(f"Invalid boolean: {value}", code="parameter_invalid_boolean", param=name)
        return value == "true"
    if kind == "number" or schema.get("format") == "decimal":
        if not re.fullmatch(r"-?[0-9]+(\.[0-9]{1,12})?", value):
            raise malformed(f"Invalid decimal: {value}", code="parameter_invalid_decimal", param=name)
        return value if kind == "string" else float(value)
    return _text(schema, value, name)


def _text(schema: Schema, value: str, name: str) -> str:
    if "enum" in schema and value not in schema["enum"]:
        allowed = ", ".join(one for one in schema["enum"] if one)
        raise malformed(f"Invalid {name}: must be one of {allowed}", code="parameter_invalid_enum", param=name)
    if len(value) > schema.get("maxLength", len(value)):
        raise malformed(f"{name} is too long", code="parameter_invalid_string_too_long", param=name)
    if schema.get("format") == "currency" and not re.fullmatch(r"[a-zA-Z]{3}", value):
        raise malformed(f"Invalid currency: {value}", code="parameter_invalid_enum", param=name)
    if not value and "enum" not in schema:
        raise malformed(
            f"You passed an empty string for '{name}'. We assume empty values are an attempt to unset a parameter.",
            code="parameter_invalid_empty",
            param=name,
        )
    return value
