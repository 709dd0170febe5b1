"""Check the consistency of a graph and its subgraphs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper

from apps.figures import shape_format
from apps.registry.inspection.findings import Finding
from compiler.errors import ModelError
from compiler.frontend import external

TENSOR_BYTES_MAX = 2**31
BITS_OF_SMALL_TYPES: dict[int, int] = {TensorProto.INT4: 4, TensorProto.UINT4: 4}
DEFAULT_DOMAINS = {"", "ai.onnx"}


def graphs_of(graph: GraphProto) -> Iterator[GraphProto]:
    """Yield the graph and all subgraphs of its If, Loop and Scan nodes."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                yield from graphs_of(attribute.g)
            for inner in attribute.graphs:
                yield from graphs_of(inner)


def label(node: NodeProto) -> str:
    """Return the node's name, or the name of its first output if the node has no name."""
    return node.name or next((name for name in node.output if name), "") or node.op_type


def unknown_operators(model: ModelProto, supported: Mapping[str, Collection[str]]) -> Iterator[Finding]:
    """Yield one finding for each unsupported operator type, with its number of occurrences."""
    places: dict[tuple[str, str], list[str]] = {}
    own = {(function.domain, function.name) for function in model.functions}
    for graph in graphs_of(model.graph):
        for node in graph.node:
            domain = "" if node.domain in DEFAULT_DOMAINS else node.domain
            if (node.domain, node.op_type) not in own and node.op_type not in supported.get(domain, ()):
                places.setdefault((domain, node.op_type), []).append(label(node))
    for (domain, kind), names in sorted(places.items()):
        full = f"{domain}.{kind}" if domain else kind
        yield Finding(
            "unknown-operator",
            f"The operator {full} is not supported ({len(names)} x, first in {names[0]!r}).",
            "Replace this operator with operators from the list in the documentation, or export with another opset."
            if not domain
            else f"Export without the custom domain {domain!r}; only operators of the ONNX standard can be compiled.",
            node=names[0],
            operator=full,
            count=len(names),
        )


def external_data(model: ModelProto, beside: Path | None) -> Iterator[Finding]:
    """Yield a finding for each tensor whose side file is missing or too short, and for side files that no tensor names."""
    outside = [t for t in tensors_of(model) if t.data_location == TensorProto.EXTERNAL or t.external_data]
    if outside and beside is None:
        yield Finding(
            "external-data",
            f"{len(outside)} weight tensors are stored outside the file (first: {outside[0].name!r}); they did not come with it.",
            "Upload the .onnx file together with its side files, or save the model in one file: onnx.save_model(model, path, "
            "save_as_external_data=False).",
            node=outside[0].name,
            count=len(outside),
        )
    elif beside is not None:
        yield from _unmapped(outside, beside)
        yield from _unnamed(model, beside)


def _unmapped(outside: list[TensorProto], beside: Path) -> Iterator[Finding]:
    """Yield a finding for each tensor that its side file does not hold."""
    for tensor in outside:
        try:
            external.mapped(tensor, beside, _claimed_bytes(tensor) or 0, f"The tensor {tensor.name[:80]!r}")
        except ModelError as error:
            yield Finding("external-data", error.message, "", node=tensor.name)


def _unnamed(model: ModelProto, beside: Path) -> Iterator[Finding]:
    """Yield a finding for each side file that no tensor names."""
    named = {*external.locations(model)}
    here = (path.relative_to(beside).as_posix() for path in beside.rglob("*") if path.is_file())
    for name in sorted(name for name in here if name not in named and not name.endswith(".onnx")):
        yield Finding(
            "unnamed-file",
            f"The file {name[:80]!r} came with the model, but no tensor of the model names it.",
            "Leave the file out, or give it the name that the model states.",
        )


def tensors_of(model: ModelProto) -> Iterator[TensorProto]:
    """Yield all stored tensors: weights, and tensors in attributes."""
    for graph in graphs_of(model.graph):
        yield from graph.initializer
        yield from (sparse.values for sparse in graph.sparse_initializer)
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.type == AttributeProto.TENSOR:
                    yield attribute.t
                yield from attribute.tensors


def tensor_sizes(model: ModelProto) -> Iterator[Finding]:
    """Yield findings for weights that are too large or invalid, or whose shape does not match the stored bytes."""
    for tensor in tensors_of(model):
        if tensor.data_location == TensorProto.EXTERNAL or tensor.external_data:
            continue
        claimed = _claimed_bytes(tensor)
        shape = shape_format(tensor.dims, "scalar")
        if claimed is None:
            yield Finding(
                "bad-weights",
                f"The weights {tensor.name!r} have the element type {tensor.data_type} and the shape {shape}, which is "
                "not valid.",
                "Export the model again; the file is damaged.",
                node=tensor.name,
            )
        elif claimed > TENSOR_BYTES_MAX:
            yield too_large(f"The weights {tensor.name!r}", tensor.dims, claimed, tensor.name)
        elif tensor.HasField("raw_data") and len(tensor.raw_data) != claimed:
            yield Finding(
                "bad-weights",
                f"The weights {tensor.name!r} of shape {shape} need {claimed:,} bytes; the file has {len(tensor.raw_data):,}.",
                "Export the model again; the file is damaged or was changed by hand.",
                node=tensor.name,
            )


def _claimed_bytes(tensor: TensorProto) -> int | None:
    if any(length < 0 for length in tensor.dims):
        return None
    if tensor.data_type == TensorProto.STRING:
        return 0 if not tensor.HasField("raw_data") else None
    bits = BITS_OF_SMALL_TYPES.get(tensor.data_type)
    if bits is None:
        try:
            bits = 8 * int(helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize)
        except (KeyError, TypeError, ValueError):
            return None
    return -(-int(prod(tensor.dims)) * bits // 8)


def too_large(what: str, shape: Collection[Any], size: int, node: str) -> Finding:
    """Return the finding for a tensor that exceeds the size limit."""
    return Finding(
        "too-large",
        f"{what} of shape {' x '.join(map(str, shape))} would take {size:,} bytes; the most for one tensor is "
        f"{TENSOR_BYTES_MAX:,}.",
        "Choose smaller sizes. No available processor can hold a tensor of this size.",
        node=node,
    )


def order(model: ModelProto) -> Iterator[Finding]:
    """Yield findings for cycles, values without a producer, and values with two producers."""
    graph = model.graph
    produced = Counter(name for node in graph.node for name in node.output if name)
    given = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    given |= {sparse.values.name for sparse in graph.sparse_initializer}
    yield from _defined_twice(produced, given)
    yield from _missing_values(graph, given | set(produced))
    yield from cycles(graph, given)


def _defined_twice(produced: Counter[str], given: set[str]) -> Iterator[Finding]:
    twice = sorted(name for name, count in produced.items() if count > 1 or name in given)
    if twice:
        yield Finding(
            "defined-twice",
            f"{len(twice)} values are defined more than once (first: {twice[0]!r}).",
            "Make sure that every value has exactly one producer. The exporter or a manual edit has broken the graph.",
            node=twice[0],
            count=len(twice),
        )


def _missing_values(graph: GraphProto, known: set[str]) -> Iterator[Finding]:
    wanted = [(name, label(node)) for node in graph.node for name in free_names(node) if name not in known]
    wanted += [(value.name, "the graph's outputs") for value in graph.output if value.name not in known]
    if wanted:
        yield Finding(
            "missing-value",
            f"{len(wanted)} values are read that nothing produces (first: {wanted[0][0]!r}, read by {wanted[0][1]!r}).",
            "Export the model again; a node or a weight is missing.",
            node=wanted[0][1],
            count=len(wanted),
        )


def free_names(node: NodeProto) -> set[str]:
    """Return the names that a node and its subgraphs read from the enclosing graph."""
    names = {name for name in node.input if name}
    for attribute in node.attribute:
        for body in [attribute.g] if attribute.type == AttributeProto.GRAPH else attribute.graphs:
            names |= _free_names_of_body(body)
    return names


def _free_names_of_body(body: GraphProto) -> set[str]:
    inside = {value.name for value in body.input} | {tensor.name for tensor in body.initializer}
    inside |= {name for inner in body.node for name in inner.output}
    reads = {name for inner in body.node for name in free_names(inner)} | {value.name for value in body.output}
    return reads - inside


def cycles(graph: GraphProto, given: set[str]) -> Iterator[Finding]:
    """Yield at most one finding, which names the nodes of a cycle."""
    producer = {
        name: index for index, node in enumerate(graph.node) for name in node.output if name and name not in given
    }
    needs = [{producer[name] for name in free_names(node) if name in producer} for node in graph.node]
    stuck = _stuck(needs)
    if stuck:
        ring = [label(graph.node[index]) for index in _ring(needs, stuck)]
        yield Finding(
            "cycle",
            f"The graph has a cycle of {len(ring)} operations: {' -> '.join([*ring[:6], ring[0]])}.",
            "A model must not have cycles. Unroll the recurrence, or express it with Loop, Scan, RNN, GRU or LSTM.",
            node=ring[0],
            count=len(ring),
        )


def _stuck(needs: list[set[int]]) -> set[int]:
    readers: dict[int, list[int]] = {}
    for index, sources in enumerate(needs):
        for source in sources:
            readers.setdefault(source, []).append(index)
    waiting = [len(sources) for sources in needs]
    ready = [index for index, count in enumerate(waiting) if count == 0]
    while ready:
        for reader in readers.get(ready.pop(), ()):
            waiting[reader] -= 1
            if waiting[reader] == 0:
                ready.append(reader)
    return {index for index, count in enumerate(waiting) if count}


def _ring(needs: list[set[int]], stuck: set[int]) -> list[int]:
    path: list[int] = []
    position: dict[int, int] = {}
    at = min(stuck)
    while at not in position:
        position[at] = len(path)
        path.append(at)
        at = min(needs[at] & stuck)
    return path[position[at] :][::-1]
