"""Makes small, realistic example values for JSON schemas."""

from __future__ import annotations

from typing import Any

DEPTH_MAX = 6
STRINGS = {
    "uuid": "0b6f9a52-6f0e-4a7b-9d0c-3f0f6a1c2d3e",
    "date-time": "2026-12-01T22:00:00Z",
    "date": "2026-12-01",
    "uri": "https://example.com",
    "email": "ada@example.com",
}
# What a field of this name holds in practice, where its schema says only that it is text.
NAMED = {
    "filename": "model.onnx",
    "target": "lpu",
    "precision": "int8",
    "pool": "lpu-a",
    "klass": "standard",
    "slug": "digits-small",
    "url": "https://example.com/hooks/takt",
    "currency": "EUR",
    "amount": "25.00",
    "metric": "accuracy",
    "name": "production",
    "reason": "Agreed on the phone",
    "reference": "RF18 5390 0754 7034",
    "every": "3600",
}


def resolved(schema: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with references followed. Of several alternatives, the first that is not null is chosen."""
    while True:
        if "$ref" in schema:
            schema = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
            continue
        choices = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
        if not choices:
            return schema
        rest = {name: value for name, value in schema.items() if name not in {"anyOf", "oneOf", "allOf"}}
        schema = {**rest, **next((one for one in choices if one.get("type") != "null"), choices[0])}


def sample(schema: dict[str, Any], document: dict[str, Any], *, name: str = "", depth: int = 0) -> Any:
    """Return an example value for a schema."""
    schema = resolved(schema, document)
    if "examples" in schema or "example" in schema:
        return schema.get("example", (schema.get("examples") or [None])[0])
    if "const" in schema or "enum" in schema:
        return schema.get("const", (schema.get("enum") or [None])[0])
    kind = schema.get("type", "object")
    if kind == "object":
        return _object(schema, document, depth)
    if kind == "array":
        return [sample(schema.get("items", {}), document, name=name, depth=depth + 1)] if depth < DEPTH_MAX else []
    return _plain(schema, kind, name)


def _object(schema: dict[str, Any], document: dict[str, Any], depth: int) -> dict[str, Any]:
    fields = schema.get("properties", {})
    wanted = schema.get("required") or list(fields)[:1]
    if depth >= DEPTH_MAX:
        return {}
    return {one: sample(fields[one], document, name=one, depth=depth + 1) for one in wanted if one in fields}


def _plain(schema: dict[str, Any], kind: str, name: str) -> Any:
    if kind == "boolean":
        return True
    if kind in {"integer", "number"}:
        return max(schema.get("minimum", 1), 1000 if name in {"executions", "items"} else 1)
    if name in NAMED:
        return NAMED[name]
    return STRINGS.get(schema.get("format", ""), schema.get("default") or "text")
