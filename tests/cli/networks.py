"""Small networks to compile and to verify."""

from __future__ import annotations

import random
from pathlib import Path

import onnx
from onnx import TensorProto, helper


def network_write(path: Path, *, width: int) -> Path:
    """A small two-layer network with weights from a fixed seed, as a file; returns its path."""
    dice = random.Random(width)

    def weights(name: str, *shape: int) -> onnx.TensorProto:
        size = shape[0] * (shape[1] if len(shape) > 1 else 1)
        return helper.make_tensor(name, TensorProto.FLOAT, shape, [dice.uniform(-1, 1) for _ in range(size)])

    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "a"], ["h"]),
            helper.make_node("Relu", ["h"], ["r"]),
            helper.make_node("MatMul", ["r", "b"], ["y"]),
        ],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
        [weights("a", 8, width), weights("b", width, 4)],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path
