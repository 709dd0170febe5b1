"""What the compiler itself says of a model: which operators it knows, and what it finds on loading one."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import compiler
from apps.registry.inspection.findings import Finding
from compiler.errors import ModelError


def supported_operators() -> Mapping[str, Collection[str]] | None:
    """Operator names by domain ("" is the standard one), from the compiler's own table of lowering rules."""
    table: Any = getattr(compiler, "supported_operators", None)
    return table() if table else None


def compile_findings(data: bytes) -> Iterator[Finding]:
    """Every problem that loading finds in a model whose lengths are all known."""
    load: Any = getattr(compiler, "load", None)
    if load is None:
        return
    try:
        load(data)
    except ModelError as error:
        for problem in error.problems or (error,):
            yield Finding("not-compilable", str(problem), "See the sentence; then export the model again.", node=problem.node)
