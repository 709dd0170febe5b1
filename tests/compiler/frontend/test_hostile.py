"""Models that ask for the impossible: each ends in a program or in one sentence, within seconds and little memory."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

import compiler
from compiler import targets
from compiler.bounds import bounds
from compiler.errors import ModelError
from tests.compiler.frontend.mutants import REFUSED, verdict

F, I64 = TensorProto.FLOAT, TensorProto.INT64
LARGEST = (1 << 63) - 1


def model(node: NodeProto, shape=(2, 3), kind=F, versions=(("", 21), ("com.microsoft", 1), ("ai.onnx.ml", 3)), **known):
    """One operation on ``x``; ``known``: its other inputs."""
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info("y", F, None)],
        [numpy_helper.from_array(value, name) for name, value in known.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(*v) for v in versions])


def whole(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


RELU = helper.make_node("Relu", ["x"], ["y"])
BITS = {"w": np.zeros((8, 2, 16), np.uint8), "s": np.ones(16, np.float32)}
TREE = {
    "nodes_treeids": [0, 0, 0],
    "nodes_nodeids": [0, 1, 2],
    "nodes_featureids": [0, 0, 0],
    "nodes_values": [0.5, 0.0, 0.0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0],
    "target_treeids": [0, 0],
    "target_nodeids": [1, 2],
    "target_ids": [0, 0],
    "target_weights": [1.0, 2.0],
    "n_targets": 1,
}


def packed(**sizes: int) -> ModelProto:
    given = {"K": 64, "N": 8, "bits": 4, "block_size": 32} | sizes
    node = helper.make_node("MatMulNBits", ["x", "w", "s"], ["y"], domain="com.microsoft", **given)
    return model(node, (2, 64), **BITS)


def tree(**changed: object) -> ModelProto:
    return model(helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", **TREE | changed))


def long_path(steps: int) -> ModelProto:
    """A tree whose nodes each have a leaf on one side and the next node on the other."""
    count, nodes = 2 * steps + 1, range(2 * steps + 1)
    return tree(
        nodes_treeids=[0] * count,
        nodes_nodeids=list(nodes),
        nodes_featureids=[0] * count,
        nodes_values=[0.5] * count,
        nodes_modes=["BRANCH_LEQ" if n % 2 == 0 and n < count - 1 else "LEAF" for n in nodes],
        nodes_truenodeids=[min(n + 1, count - 1) for n in nodes],
        nodes_falsenodeids=[min(n + 2, count - 1) for n in nodes],
        target_treeids=[0],
        target_nodeids=[1],
        target_ids=[0],
        target_weights=[1.0],
    )


def sized(kind: str, *sizes: int, **attributes: object) -> ModelProto:
    return model(helper.make_node(kind, ["x", "s"], ["y"], **attributes), s=whole(*sizes))


def one(kind: str, shape: tuple[int, ...] = (2, 3), **attributes: object) -> ModelProto:
    return model(helper.make_node(kind, ["x"], ["y"], **attributes), shape)


def functions_in_functions(calls: int, depth: int) -> ModelProto:
    """Functions that each call the one before so many times."""
    made, versions = [], [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    for level in range(depth):
        kind, domain = (f"f{level - 1}", "own") if level else ("Relu", "")
        names = ["a", *(f"t{n}" for n in range(1, calls)), "b"]
        body = [helper.make_node(kind, [p], [q], domain=domain) for p, q in pairwise(names)]
        made.append(helper.make_function("own", f"f{level}", ["a"], ["b"], body, versions))
    called = model(helper.make_node(f"f{depth - 1}", ["x"], ["y"], domain="own"), versions=(("", 21), ("own", 1)))
    called.functions.extend(made)
    return called


HOSTILE = {
    "opset 0": model(RELU, versions=[("", 0)]),
    "opset 999": model(RELU, versions=[("", 999)]),
    "opset -1": model(RELU, versions=[("", -1)]),
    "two opsets": model(RELU, versions=[("", 13), ("ai.onnx", 21)]),
    "opset of trees": model(RELU, versions=[("", 13), ("ai.onnx.ml", 1_000_000)]),
    "no opset": model(RELU, versions=[]),
    "packed: K": packed(K=1 << 40),
    "packed: N": packed(N=1 << 40),
    "packed: both": packed(K=1 << 62, N=1 << 62),
    "packed: bits": packed(bits=1 << 40),
    "packed: blocks": packed(block_size=1 << 40),
    "packed: negative": packed(K=-64, N=-8),
    "tree: features": tree(nodes_featureids=[0]),
    "tree: values": tree(nodes_values=[0.5]),
    "tree: modes": tree(nodes_modes=["BRANCH_LEQ"]),
    "tree: weights": tree(target_weights=[1.0]),
    "tree: results": tree(n_targets=1 << 40),
    "tree: feature": tree(nodes_featureids=[1 << 40, 0, 0]),
    "tree: child": tree(nodes_truenodeids=[1 << 62, 0, 0]),
    "tree: circle": tree(nodes_truenodeids=[0, 0, 0]),
    "tree: long path": long_path(10_000),
    "expand": sized("Expand", 1 << 62, 1, 1),
    "tile": sized("Tile", 1 << 31, 1 << 31),
    "pad": sized("Pad", 0, 1 << 62, 0, 0),
    "shape": sized("Reshape", LARGEST, LARGEST),
    "axis": one("Softmax", axis=LARGEST),
    "order": one("Transpose", perm=[LARGEST, -LARGEST]),
    "split": one("Split", num_outputs=LARGEST),
    "type": one("Cast", to=1 << 30),
    "window": one("MaxPool", (1, 3, 8, 8), kernel_shape=[LARGEST, LARGEST]),
    "strides": one("AveragePool", (1, 3, 8, 8), kernel_shape=[2, 2], strides=[0, 0]),
    "blocks": one("DepthToSpace", (1, 4, 8, 8), blocksize=LARGEST),
    "transform": model(helper.make_node("DFT", ["x", "s"], ["y"]), (1, 64, 1), s=np.array(1 << 40)),
    "one of many": model(
        helper.make_node("OneHot", ["x", "s", "v"], ["y"]),
        kind=I64,
        s=np.array(1 << 62),
        v=np.array([0, 1], np.float32),
    ),
    "functions": functions_in_functions(10, 7),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_it_is_refused_with_a_sentence(name: str) -> None:
    assert verdict(HOSTILE[name].SerializeToString(), {}) == REFUSED


def test_functions_that_multiply_are_counted_before_they_are_put_in() -> None:
    with pytest.raises(ModelError, match="unrolls to more than 60000 operations"):
        compiler.load(functions_in_functions(10, 20).SerializeToString())
    assert len(compiler.load(functions_in_functions(4, 3).SerializeToString()).nodes) == 1 << 6


def test_chains_longer_than_calls_may_be_nested_have_a_bound() -> None:
    graph = compiler.load(long_path(150).SerializeToString())
    assert bounds(graph, targets.load("lpu")).latency > 150
