"""Layers that most networks consist of, to try a processor on: small models with seeded weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from compiler.ir import Graph

NAMES = (
    "dense layers",
    "3 x 3 convolutions",
    "a depthwise convolution",
    "an attention product",
    "an elementwise layer",
    "softmax",
)
SIZES = (128, 64, 32)  # of the layers, the largest that fits is tried


def layer(name: str, size: int) -> Graph:
    """One of ``NAMES``. ``size``: its inner points; images have a sixteenth of as many channels, on an eighth of as many rows."""
    from onnx import helper

    node, tall, many = helper.make_node, size // 8, max(4, size // 8)
    image, rows = [1, many, tall, tall], [size // 4, size]
    pads: dict[str, Any] = {"pads": [1, 1, 1, 1]}
    nodes, inputs, weights = {
        "dense layers": (
            [node("MatMul", ["x", "w"], ["a"]), node("Relu", ["a"], ["b"]), node("MatMul", ["b", "v"], ["y"])],
            {"x": rows},
            {"w": [size, size], "v": [size, size]},
        ),
        "3 x 3 convolutions": (
            [
                node("Conv", ["x", "w"], ["a"], **pads),
                node("Relu", ["a"], ["b"]),
                node("Conv", ["b", "v"], ["y"], **pads),
            ],
            {"x": image},
            {"w": [many, many, 3, 3], "v": [many, many, 3, 3]},
        ),
        "a depthwise convolution": (
            [node("Conv", ["x", "w"], ["y"], group=many, **pads)],
            {"x": image},
            {"w": [many, 1, 3, 3]},
        ),
        "an attention product": (
            [node("MatMul", ["x", "k"], ["y"])],
            {"x": [2, *rows], "k": [2, rows[1], rows[0]]},
            {},
        ),
        "an elementwise layer": ([node("Sigmoid", ["x"], ["a"]), node("Mul", ["x", "a"], ["y"])], {"x": rows}, {}),
        "softmax": ([node("Softmax", ["x"], ["y"], axis=-1)], {"x": rows}, {}),
    }[name]
    return _loaded(nodes, inputs, weights)


def _loaded(nodes: list[Any], inputs: Mapping[str, list[int]], weights: Mapping[str, list[int]]) -> Graph:
    from onnx import TensorProto, helper, numpy_helper

    import compiler

    rng = np.random.default_rng(0)  # codes of eight bits lose nothing of such weights
    stored = [
        numpy_helper.from_array((rng.integers(-127, 128, shape) / np.float32(127)).astype(np.float32), name)
        for name, shape in weights.items()
    ]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()]
    graph = helper.make_graph(nodes, "layer", values, [helper.make_empty_tensor_value_info("y")], stored)
    return compiler.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))


def feeds(graph: Graph) -> list[dict[str, np.ndarray[Any, Any]]]:
    """Inputs between -1 and 1, to calibrate with."""
    rng = np.random.default_rng(1)
    shapes = {name: graph.types[name].shape for name in graph.inputs}
    return [{name: rng.uniform(-1, 1, shape).astype(np.float32) for name, shape in shapes.items()} for _ in range(2)]
