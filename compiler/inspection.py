"""What a model file contains and what it leaves open, without binding anything."""

from __future__ import annotations

from collections import Counter
from hashlib import sha256
from math import prod
from typing import TYPE_CHECKING, Any

from compiler import frontend
from compiler.frontend.reader import Source, opsets, read_model
from compiler.ir import Graph, written

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto


def inspect(model: Source) -> dict[str, Any]:
    """Plain data: opset, producer, inputs, outputs, open dimensions, operators and how many parameters.

    A ``shape`` is None where the file does not even say how many dimensions there are; a dimension is its size or its name
    (empty where it has none). Of the text form, the operators are its primitives. ``ModelError`` when the source is no
    model at all.
    """
    text = written.text_of(model)
    if text is not None:
        return _of_text(text[0], written.load(*text))
    proto, digest = read_model(model)
    counts = Counter(
        f"{n.domain}::{n.op_type}" if n.domain not in ("", "ai.onnx") else n.op_type for n in proto.graph.node
    )
    stored = {t.name for t in proto.graph.initializer}
    known = set(frontend.operators())
    return {
        "sha256": digest,
        "name": proto.graph.name,
        "producer": f"{proto.producer_name} {proto.producer_version}".strip(),
        "opset": {domain or "ai.onnx": version for domain, version in opsets(proto).items()},
        "inputs": [_value(v) for v in proto.graph.input if v.name not in stored],
        "outputs": [_value(v) for v in proto.graph.output],
        "open_dims": frontend.open_dims(proto),
        "operators": dict(sorted(counts.items())),
        "unknown_operators": sorted(set(counts) - known - {f.name for f in proto.functions}),
        "parameters": _parameters(proto),
    }


def _of_text(text: str, graph: Graph) -> dict[str, Any]:
    states = {state.input for state in graph.states}
    versions = (part.rpartition(" ") for part in graph.metadata.get("opset", "").split(", ") if part)

    def shown(name: str) -> dict[str, Any]:
        kind = graph.types[name]
        return {"name": name, "dtype": kind.dtype.numpy.name, "shape": list(kind.shape)}

    return {
        "sha256": sha256(text.encode()).hexdigest(),
        "name": graph.name,
        "producer": graph.metadata.get("producer", ""),
        "opset": {domain: int(version) for domain, _, version in versions if domain and version.isdigit()},
        "inputs": [shown(name) for name in graph.inputs if name not in states],
        "outputs": [shown(name) for name in graph.outputs],
        "open_dims": {},
        "operators": dict(sorted(Counter(type(node).__name__.lower() for node in graph.nodes).items())),
        "unknown_operators": [],
        "parameters": sum(array.size for array in graph.constants.values()),
    }


def _value(value: ValueInfoProto) -> dict[str, Any]:
    import onnx

    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        return {"name": value.name, "dtype": (kind or "unknown").removesuffix("_type"), "shape": None}
    tensor = value.type.tensor_type
    dims = [d.dim_value if d.HasField("dim_value") else d.dim_param for d in tensor.shape.dim]
    number = tensor.elem_type
    name = onnx.TensorProto.DataType.Name(number).lower() if number in onnx.TensorProto.DataType.values() else "unknown"
    return {"name": value.name, "dtype": name, "shape": dims if tensor.HasField("shape") else None}


def _parameters(proto: ModelProto) -> int:
    return sum(prod(t.dims) for t in proto.graph.initializer)
