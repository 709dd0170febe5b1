"""Small models through the whole compiler, as samples for the independent checks."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import compiler
from compiler.isa.binary import Binary
from compiler.simulator import simulate
from tests.compiler.oracle.programs import Array, Sample


def _weights(seed: int, **shapes: tuple[int, ...]) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [numpy_helper.from_array(rng.standard_normal(s).astype("f4"), name) for name, s in shapes.items()]


def _model(nodes: list[Any], shape: tuple[int, ...], weights: list[Any], kind: int = TensorProto.FLOAT) -> bytes:
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        weights,
    )
    return bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    )


def dense() -> bytes:
    """Two dense layers with ReLU and a softmax."""
    n = helper.make_node
    nodes = [
        n("Gemm", ["x", "w", "b"], ["h"]),
        n("Relu", ["h"], ["r"]),
        n("Gemm", ["r", "v", "c"], ["z"]),
        n("Softmax", ["z"], ["y"], axis=-1),
    ]
    return _model(nodes, (3, 14), _weights(1, w=(14, 10), b=(10,), v=(10, 5), c=(5,)))


def convolutions() -> bytes:
    """A padded convolution, pooling, a residual block and a global average."""
    n = helper.make_node
    nodes = [
        n("Conv", ["x", "w", "b"], ["c1"], pads=[1, 1, 1, 1]),
        n("Relu", ["c1"], ["r1"]),
        n("MaxPool", ["r1"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        n("Conv", ["p", "v"], ["c2"], pads=[1, 1, 1, 1]),
        n("Add", ["c2", "p"], ["s"]),
        n("GlobalAveragePool", ["s"], ["y"]),
    ]
    return _model(nodes, (1, 2, 8, 8), _weights(2, w=(6, 2, 3, 3), b=(6,), v=(6, 6, 3, 3)))


def attention() -> bytes:
    """Queries against keys, softmax, values, and a normalised sum."""
    n = helper.make_node
    nodes = [
        n("MatMul", ["x", "wq"], ["q"]),
        n("MatMul", ["x", "wk"], ["k"]),
        n("MatMul", ["x", "wv"], ["v"]),
        n("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
        n("MatMul", ["q", "kt"], ["a"]),
        n("Softmax", ["a"], ["s"], axis=-1),
        n("MatMul", ["s", "v"], ["o"]),
        n("Add", ["o", "x"], ["m"]),
        n("LayerNormalization", ["m", "g", "h"], ["y"], axis=-1),
    ]
    return _model(nodes, (2, 4, 6), _weights(3, wq=(6, 6), wk=(6, 6), wv=(6, 6), g=(6,), h=(6,)))


def words() -> bytes:
    """Rows of a table by index, their mean, and a dense layer."""
    n = helper.make_node
    nodes = [
        n("Gather", ["t", "x"], ["e"]),
        n("ReduceMean", ["e"], ["m"], axes=[1], keepdims=0),
        n("MatMul", ["m", "w"], ["y"]),
    ]
    return _model(nodes, (2, 5), _weights(4, t=(9, 6), w=(6, 3)), TensorProto.INT64)


MODELS = {"dense": dense, "convolutions": convolutions, "attention": attention, "words": words}


def _feed(binary: Binary, seed: int) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    port = next(p for p in binary.ports if not p.output)
    values = rng.integers(0, 9, port.shape) if port.dtype == "i64" else rng.standard_normal(port.shape).astype("f4")
    return {"x": values}


@lru_cache(maxsize=1)
def samples() -> tuple[Sample, ...]:
    """Each model compiled for each target, with what the simulator gives for two feeds."""
    found = []
    for name, model in MODELS.items():
        for target in ("lpu", "lpu2"):
            objective = "interval" if target == "lpu" else "balanced"  # the first overlaps as much as it can
            program = compiler.compile(compiler.load(model()), target=target, objective=objective)
            binary = Binary.from_bytes(program.to_bytes())
            feeds = [_feed(binary, seed) for seed in range(1, 3 + (binary.memory.copies > 1))]
            found.append(Sample(f"{name}-{target}", binary, feeds, simulate(binary.to_bytes(), feeds)[0]))
    return tuple(found)
