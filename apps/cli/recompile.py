"""Recompiles a model as described by a line of an invoice."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import compiler
from compiler.sources import version_name


@dataclass(frozen=True)
class ModelFile:
    """The name, content and SHA-256 digest of a model file."""

    name: str
    data: bytes
    sha256: str


@dataclass(frozen=True)
class Recompiled:
    """The facts of a recompiled program. The counts are for one execution."""

    digest: str
    target_digest: str
    compiler_version: str
    operations: int
    interval: int
    latency: int
    exact: bool
    load: dict[str, int] | None = None


def model_of(path: Path, data: bytes) -> ModelFile:
    """Return the model file with its digest."""
    return ModelFile(path.name, data, hashlib.sha256(data).hexdigest())


def recompile(model: ModelFile, program: dict[str, Any], ranges: Sequence[compiler.Calibration] = ()) -> Recompiled:
    """Compile the model as described by the `program` of an invoice line.

    `ranges` are calibrations to try before generated inputs. Raises compiler.ModelError.
    """
    constants, options = constants_of(model.data, program["constants"]), program.get("options", {})
    graph = compiler.load(
        model.data,
        dims=program["dims"],
        constants=constants,
        states=list(options.get("states", {}).items()),
        caches=list(options.get("caches", {}).items()),
        bounds=options.get("bounds", {}),
        context=options.get("context"),
    )
    if program.get("calibration"):
        for found in ranges:
            made = _made(graph, program, found)
            if made is not None and made.digest == program["digest"]:
                return made
    made = _made(graph, program, None)
    assert made is not None  # a compile without ranges does not return None
    return made


def _made(graph: Any, program: dict[str, Any], ranges: compiler.Calibration | None) -> Recompiled | None:
    try:
        made = compiler.compile(graph, program["target"], program["precision"], ranges)
    except compiler.ModelError:
        if ranges is not None:
            return None
        raise
    if not isinstance(made, compiler.Program):
        raise compiler.ModelError("the line names several sizes for one program; it must name one")
    found = facts_of(made)
    # Sold before the format said that the interval is derived (ADR 0098): the same program but for the format's number.
    before = replace(made.binary, derived=False).digest if found.digest != program["digest"] else ""
    return replace(found, digest=before) if before == program["digest"] else found


def facts_of(program: compiler.Program) -> Recompiled:
    """Return the counts of a compiled program."""
    resources = program.resources
    return Recompiled(
        digest=program.digest,
        target_digest=program.target.digest,
        compiler_version=version_name(program.binary.compiler_version),
        operations=resources.operations,
        interval=resources.interval,
        latency=resources.cycles,
        exact=resources.exact,
        load=None if resources.load is None else asdict(resources.load),
    )


def constants_of(data: bytes, stated: dict[str, Any]) -> dict[str, Any]:
    """Return the stated constants as arrays with the element types of the model's inputs."""
    if not stated:
        return {}
    import numpy as np
    import onnx

    graph = onnx.load_model_from_string(data).graph
    kinds = {value.name: value.type.tensor_type.elem_type for value in graph.input}
    return {
        name: np.array(value, dtype=onnx.helper.tensor_dtype_to_np_dtype(kinds[name]) if name in kinds else None)
        for name, value in stated.items()
    }
