"""List the operators that the compiler supports, and the problems that the compiler finds in a model."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from apps.registry.inspection.findings import Finding


@lru_cache(maxsize=1)
def supported_operators() -> dict[str, frozenset[str]]:
    """Return the supported operator names by domain ("" is the standard domain)."""
    import onnx.defs

    from compiler.frontend import operators

    schemas = [schema for schema in onnx.defs.get_all_schemas() if schema.domain == ""]
    composed = {schema.name for schema in schemas if getattr(schema, "has_function", False)}
    return {"": frozenset(operators()) | composed}


def compile_findings(path: Path) -> Iterator[Finding]:
    """Yield every problem that the compiler finds when it loads a model. The model must have no variable dimensions."""
    from compiler.errors import ModelError
    from compiler.frontend import load

    try:
        load(path)
    except ModelError as error:
        for problem in error.problems or (error,):
            yield Finding("not-compilable", problem.message, "", node=problem.node)
