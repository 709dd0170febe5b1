"""Inspect a model file, and return its properties and problems."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # ships no types
from onnx import ModelProto, TensorProto, ValueInfoProto

from apps.registry.inspection import findings, structure, wire
from apps.registry.inspection.findings import Finding

OPSETS = range(7, 27)
REAL = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)
NAMELESS = ("", "?", "None", "unk")


def inspect(data: bytes, supported: Mapping[str, Collection[str]] | None, beside: Path | None = None) -> dict[str, Any]:
    """Return the properties and the problems of a file. `beside` is the folder of its side files, None if it came alone.

    `supported` holds operator names by domain ("" is the standard domain). If `supported` is None, operators are not
    checked.
    """
    model, unreadable = read(data)
    if model is None:
        return {"problems": [unreadable.to_json()] if unreadable else []}
    problems = [
        *opset_findings(model),
        *structure.external_data(model, beside),
        *(structure.unknown_operators(model, supported) if supported is not None else ()),
        *structure.order(model),
        *structure.tensor_sizes(model),
        *shape_findings(model),
    ]
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [value_json(value) for value in model.graph.input if value.name not in weights]
    operators = Counter(node.op_type for graph in structure.graphs_of(model.graph) for node in graph.node)
    return {
        "opset": opset_of(model),
        "producer": f"{model.producer_name} {model.producer_version}".strip()[:120],
        "description": (model.doc_string or model.graph.doc_string)[:400],
        "name": model.graph.name[:120],
        "inputs": inputs,
        "outputs": [value_json(value) for value in model.graph.output],
        "symbolic_dims": symbols_of(inputs),
        "operators": dict(sorted(operators.items())),
        "parameters": parameters_of(model),
        "problems": [problem.to_json() for problem in problems],
    }


def parameters_of(model: ModelProto) -> int:
    """Return the number of stored weights, including floating-point constants and weights in subgraphs."""
    stored = []
    for graph in structure.graphs_of(model.graph):
        stored += graph.initializer
        for node in graph.node:
            if node.op_type == "Constant":
                stored += [one.t for one in node.attribute if one.name == "value" and one.t.data_type in REAL]
    return sum(prod(tensor.dims) for tensor in stored if all(d >= 0 for d in tensor.dims))


def read(data: bytes) -> tuple[ModelProto | None, Finding | None]:
    """Return (model, None), or (None, finding) if the file is not a valid model."""
    if not data:
        return None, findings.EMPTY
    missing = wire.missing_bytes(data)
    if missing:
        return None, findings.cut(missing)
    if missing is None:
        return None, findings.TEXT if wire.looks_like_text(data) else findings.FOREIGN
    try:
        model = onnx.load_model_from_string(data)
    except (DecodeError, ValueError):
        return None, findings.FOREIGN
    if wire.has_unreadable_text(model):
        return None, findings.DAMAGED
    if not model.HasField("graph") or not (model.graph.node or model.graph.output):
        return None, findings.NO_GRAPH
    return model, None


def opset_of(model: ModelProto) -> int:
    """Return the version of the standard operator set; 0 if the model does not state the version."""
    return max((entry.version for entry in model.opset_import if entry.domain in structure.DEFAULT_DOMAINS), default=0)


def opset_findings(model: ModelProto) -> Iterator[Finding]:
    opset = opset_of(model)
    if opset not in OPSETS:
        stated = f"states opset {opset}" if opset else "does not state its opset"
        yield Finding(
            "opset",
            f"The model {stated}; opsets {OPSETS[0]} to {OPSETS[-1]} are supported.",
            "Export the model again with opset_version=17, or convert it with onnx.version_converter.",
        )


def shape_findings(model: ModelProto) -> Iterator[Finding]:
    """Yield findings for inputs and outputs that are not tensors, and for shapes that are too large."""
    graph = model.graph
    for kind, values in (("input", graph.input), ("output", graph.output), ("value", graph.value_info)):
        for value in values:
            if kind != "value" and not value.type.HasField("tensor_type"):
                yield Finding(
                    "not-a-tensor",
                    f"The {kind} {value.name!r} is not a tensor.",
                    "Export the model with tensors as inputs and outputs; sequences and maps cannot be compiled.",
                    node=value.name,
                )
                continue
            shape = shape_of(value)
            known = [length for length in shape if isinstance(length, int)]
            size = prod(known) * element_bytes(value)
            if size > structure.TENSOR_BYTES_MAX:
                yield structure.too_large(f"The {kind} {value.name!r}", shape, size, value.name)


def element_bytes(value: ValueInfoProto) -> int:
    """Return the number of bytes per element; 1 for types without a fixed size."""
    try:
        return int(onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type).itemsize)
    except (KeyError, TypeError, ValueError):
        return 1


def shape_of(value: ValueInfoProto) -> list[int | str]:
    """Return the dimensions. A variable dimension is given by its name, or by "input.axis" if it has no name."""
    shape: list[int | str] = []
    for axis, dimension in enumerate(value.type.tensor_type.shape.dim):
        if dimension.HasField("dim_value") and dimension.dim_value >= 0:
            shape.append(dimension.dim_value)
        else:
            named = dimension.dim_param not in NAMELESS
            shape.append(dimension.dim_param if named else f"{value.name}.{axis}")
    return shape


def value_json(value: ValueInfoProto) -> dict[str, Any]:
    """Return the name, NumPy element type and shape of an input or output."""
    kind = value.type.tensor_type.elem_type
    try:
        dtype = str(onnx.helper.tensor_dtype_to_np_dtype(kind))
    except (KeyError, TypeError, ValueError):
        dtype = TensorProto.DataType.Name(kind).lower() if kind in TensorProto.DataType.values() else "unknown"
    return {"name": value.name, "dtype": dtype, "shape": shape_of(value)}


def symbols_of(inputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the variable dimensions in order of appearance, with the inputs that use them."""
    places: dict[str, list[str]] = {}
    for value in inputs:
        for length in value["shape"]:
            if isinstance(length, str) and value["name"] not in places.setdefault(length, []):
                places[length].append(value["name"])
    return [{"name": name, "inputs": names} for name, names in places.items()]
