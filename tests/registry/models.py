"""Model files, good and hostile, made in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parents[2]
FLOAT = TensorProto.FLOAT


def model(
    nodes: list[NodeProto], *, weights: list[TensorProto] | None = None, shape: list[int | str] | None = None
) -> ModelProto:
    """Nodes from the input `x` to the output `y`, both of `shape` (default [1, 4])."""
    x = helper.make_tensor_value_info("x", FLOAT, shape or [1, 4])
    y = helper.make_tensor_value_info("y", FLOAT, shape or [1, 4])
    graph = helper.make_graph(nodes, "test", [x], [y], weights or [])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def small(seed: int = 0) -> bytes:
    """A matrix product and a Relu; other bytes for another seed."""
    weight = numpy_helper.from_array(np.random.default_rng(seed).standard_normal((4, 4)).astype(np.float32), "w")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], name="product"),
        helper.make_node("Relu", ["h"], ["y"], name="relu"),
    ]
    return model(nodes, weights=[weight]).SerializeToString()


def sample(name: str = "digits-large") -> bytes:
    return (ROOT / "samples" / f"{name}.onnx").read_bytes()


def empty() -> bytes:
    return b""


def truncated() -> bytes:
    return sample()[:200_000]


def claims_three_gigabytes() -> bytes:
    """A few bytes that say they are weights of 3 GB."""
    weight = TensorProto(name="w", data_type=FLOAT, dims=[1024, 768 * 1024], raw_data=b"\0" * 16)
    return model([helper.make_node("MatMul", ["x", "w"], ["y"])], weights=[weight]).SerializeToString()


def text() -> bytes:
    return b"import torch\nprint('this is no model')\n" * 40


def external_data() -> bytes:
    weight = TensorProto(name="w", data_type=FLOAT, dims=[4, 4], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", "../../../../etc/passwd"), ("offset", "0"), ("length", "64")):
        entry = weight.external_data.add()
        entry.key, entry.value = key, value
    return model([helper.make_node("MatMul", ["x", "w"], ["y"])], weights=[weight]).SerializeToString()


def with_side_file(**entries: str) -> dict[str, bytes]:
    """A model and its side file by name; `entries` replace what the model says of its weights' place."""
    weight = TensorProto(name="w", data_type=FLOAT, dims=[4, 4], data_location=TensorProto.EXTERNAL)
    for key, value in ({"location": "weights.bin", "offset": "0", "length": "64"} | entries).items():
        weight.external_data.add(key=key, value=value)
    made = model([helper.make_node("MatMul", ["x", "w"], ["y"])], weights=[weight])
    return {"net.onnx": made.SerializeToString(), "weights.bin": np.eye(4, dtype=np.float32).tobytes()}


def unknown_operators() -> bytes:
    nodes = [
        helper.make_node("Wibble", ["x"], ["a"], name="first"),
        helper.make_node("Wibble", ["a"], ["b"], name="second"),
        helper.make_node("FancyAttention", ["b"], ["y"], name="third", domain="com.example"),
    ]
    return model(nodes).SerializeToString()


def cyclic() -> bytes:
    nodes = [
        helper.make_node("Add", ["x", "b"], ["a"], name="forward"),
        helper.make_node("Relu", ["a"], ["b"], name="backward"),
        helper.make_node("Relu", ["b"], ["y"], name="last"),
    ]
    return model(nodes).SerializeToString()


def enormous_shape() -> bytes:
    nodes = [helper.make_node("Relu", ["x"], ["y"], name="relu")]
    return model(nodes, shape=[2**31, 2**31]).SerializeToString()


def too_large_for_a_processor() -> bytes:
    """Weights of 256 MiB, made by the model itself, so that the file stays small."""
    shape = numpy_helper.from_array(np.array([8192, 8192], np.int64), "shape")
    row = numpy_helper.from_array(np.ones((1, 8192), np.float32), "row")
    nodes = [
        helper.make_node("Expand", ["row", "shape"], ["w"], name="weights"),
        helper.make_node("MatMul", ["x", "w"], ["y"], name="product"),
    ]
    return model(nodes, weights=[shape, row], shape=[1, 8192]).SerializeToString()


def impossible_at_some_lengths() -> bytes:
    """Adds three numbers to a row of n: works for n = 3 (and 1), and for nothing else."""
    three = numpy_helper.from_array(np.ones(3, np.float32), "three")
    nodes = [helper.make_node("Add", ["x", "three"], ["y"], name="sum")]
    return model(nodes, weights=[three], shape=[1, "n"]).SerializeToString()


HOSTILE = {
    "an empty file": (empty, "empty"),
    "a truncated model": (truncated, "truncated"),
    "a claimed 3 GB": (claims_three_gigabytes, "too-large"),
    "a text file": (text, "not-a-model"),
    "external data": (external_data, "external-data"),
    "an unknown operator": (unknown_operators, "unknown-operator"),
    "a cyclic graph": (cyclic, "cycle"),
    "a shape of 2^31 x 2^31": (enormous_shape, "too-large"),
}
