"""Removes secrets from the log, such as invitation links and share links."""

from __future__ import annotations

import json
import pprint
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.text import slugify

from apps.config.reference.samples import STRINGS, resolved, sample

JSON = "application/json"
FORM = "multipart/form-data"
NESTING_MAX = 2


@dataclass(frozen=True)
class Field:
    """A parameter, or a field of a body or response. `place` is "path", "query", "body" or "answer"."""

    name: str
    kind: str
    place: str
    is_required: bool
    text: str


@dataclass(frozen=True)
class Operation:
    """An operation: a path with one HTTP method."""

    anchor: str
    method: str
    path: str
    summary: str
    text: str
    needs: str
    fields: list[Field]
    answers: list[Field]
    status: str
    curl: str
    python: str


def operations(document: Mapping[str, Any], *, site: str, needs: Mapping[str, str]) -> dict[str, list[Operation]]:
    """Return all operations grouped by subject, in the document's order.

    `site` is the address in the examples. `needs` maps an operation, such as "GET /api/v1/me", to the required scope
    and roles.
    """
    grouped: dict[str, list[Operation]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            one = _operation(dict(document), path, method.upper(), operation, site, needs)
            grouped.setdefault(operation["tags"][-1], []).append(one)
    return grouped


def _operation(
    document: dict[str, Any], path: str, method: str, operation: dict[str, Any], site: str, needs: Mapping[str, str]
) -> Operation:
    parameters = operation.get("parameters", [])
    content: dict[str, dict[str, Any]] = operation.get("requestBody", {}).get("content", {})
    status, answer = next((code, one) for code, one in operation["responses"].items() if str(code).startswith("2"))
    kind, body = next(iter(content.items())) if content else ("", {})
    filled = _filled(path, parameters)
    value = sample(body["schema"], document) if body else None
    fields = [_parameter(one, document) for one in parameters]
    fields += _fields(body.get("schema", {}), document, "body")
    return Operation(
        anchor=slugify(f"{method} {path.removeprefix('/api/v1')}"),
        method=method,
        path=path,
        summary=operation.get("summary", ""),
        text=operation.get("description", "").replace("`", ""),
        needs=needs.get(f"{method} {path}", ""),
        fields=fields,
        answers=list(_answers(answer, document)),
        status=str(status),
        curl=_curl(method, site + filled, kind, value),
        python=_python(method, filled.removeprefix("/api/v1"), kind, value, answer),
    )


def _filled(path: str, parameters: list[dict[str, Any]]) -> str:
    for one in parameters:
        if one["in"] == "path":
            example = STRINGS["uuid"] if one["schema"].get("format") == "uuid" else "1"
            path = path.replace("{" + one["name"] + "}", example)
    return path


def _parameter(one: dict[str, Any], document: dict[str, Any]) -> Field:
    schema = one.get("schema", {})
    text = one.get("description", "") or schema.get("description", "")
    return Field(one["name"], _kind(schema, document), one["in"], one.get("required", False), text)


def _fields(schema: dict[str, Any], document: dict[str, Any], place: str, prefix: str = "") -> list[Field]:
    schema = resolved(schema, document) if schema else {}
    required = set(schema.get("required", []))
    found: list[Field] = []
    for name, one in schema.get("properties", {}).items():
        full = prefix + name
        text = one.get("description", "").replace("`", "")
        found.append(Field(full, _kind(one, document), place, name in required, text))
        inner = resolved(one, document)
        is_list = inner.get("type") == "array"
        if full.count(".") < NESTING_MAX:
            found += _fields(inner.get("items", {}) if is_list else inner, document, place, f"{full}{'[]' * is_list}.")
    return found


def _answers(answer: dict[str, Any], document: dict[str, Any]) -> Iterator[Field]:
    for kind, content in answer.get("content", {}).items():
        if kind != JSON:
            yield Field("(file)", kind, "answer", is_required=True, text="")
            continue
        schema = resolved(content["schema"], document)
        if "results" in schema.get("properties", {}):
            schema = schema["properties"]["results"]
        yield from _fields(schema.get("items", schema), document, "answer")


def _kind(schema: dict[str, Any], document: dict[str, Any]) -> str:
    is_optional = any(one.get("type") == "null" for one in schema.get("anyOf", []))
    schema = resolved(schema, document)
    if "enum" in schema:
        kind = "one of " + ", ".join(map(str, schema["enum"]))
    elif schema.get("type") == "array":
        kind = f"list of {_kind(schema.get('items', {}), document)}"
    else:
        kind = schema.get("format") or {
            "string": "text",
            "integer": "whole number",
            "number": "number",
            "boolean": "true or false",
        }.get(schema.get("type", "object"), "object")
    return f"{kind}, or null" if is_optional else kind


def _curl(method: str, address: str, kind: str, value: Any) -> str:
    lines = [f"curl{'' if method == 'GET' else f' -X {method}'} {address}", '-H "Authorization: Bearer $TAKT_TOKEN"']
    if method == "POST":
        lines.append('-H "Idempotency-Key: $(uuidgen)"')
    if kind == JSON:
        lines += ['-H "Content-Type: application/json"', f"-d {shlex.quote(json.dumps(value))}"]
    elif kind == FORM:
        lines += [f"-F {name}={_form_value(name, one)}" for name, one in value.items()]
    elif address.rpartition("/chunks/")[1]:
        lines.append("--data-binary @model.onnx")
    return " \\\n  ".join(lines)


def _form_value(name: str, value: Any) -> str:
    return "@inputs.npz" if name == "inputs" else str(value)


def _python(method: str, path: str, kind: str, value: Any, answer: dict[str, Any]) -> str:
    arguments = [repr(method), repr(path)]
    if kind == JSON:
        arguments.append(f"json={pprint.pformat(value, width=88, sort_dicts=False)}")
    elif kind == FORM:
        fields = {name: str(one) for name, one in value.items() if name != "inputs"}
        arguments += [f"data={fields!r}", 'files={"inputs": open("inputs.npz", "rb")}']
    elif "/chunks/" in path:
        arguments.append('content=open("model.onnx", "rb").read()')
    is_json = JSON in answer.get("content", {})
    call = f"client.request({', '.join(arguments)})"
    ending = f"answer = {call}.json()" if is_json else f"data = {call}.content"
    return f"from takt import Client\n\nclient = Client()  # TAKT_URL and TAKT_TOKEN\n{ending}"
