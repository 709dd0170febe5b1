"""Ranges, bytes, counters and results are the same whatever kernels the machine's libraries choose."""

from functools import cache

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from benchmarks.same import differing, environments, everywhere

RNG = np.random.default_rng(11)
SHAPE = (1, 3, 20, 20)


@cache
def network():
    """A convolution deep enough for two passes of a plane, a softmax, and a product of two values."""
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w"], ["c"], strides=[2, 2]),
        node("Reshape", ["c", "shape"], ["rows"]),
        node("Transpose", ["rows"], ["columns"], perm=[1, 0]),
        node("Softmax", ["rows"], ["p"], axis=-1),
        node("MatMul", ["p", "columns"], ["y"]),
    ]
    constants = {
        "w": (RNG.standard_normal((12, 3, 9, 9)) / 15).astype(np.float32),
        "shape": np.array([12, 36], np.int64),
    }
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", SHAPE), ("y", [12, 12]))]
    weights = [numpy_helper.from_array(a, n) for n, a in constants.items()]
    graph = helper.make_graph(nodes, "net", ports[:1], ports[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()


def found(change=""):
    feeds = [{"x": np.random.default_rng(n).standard_normal(SHAPE).astype(np.float32)} for n in range(2)]
    return everywhere(network(), {}, feeds, change)


def test_other_kernels_give_the_same_ranges_bytes_counters_and_results():
    digests = found()
    assert set(digests) == set(environments())
    assert not [differing(digests, precision) for precision in ("float32", "int8") if differing(digests, precision)]
    # The settings are no idle ones: what NumPy itself computes depends on them.
    assert differing(digests, "controls") == ["product", "exp"]


@pytest.mark.parametrize("change", ["exp", pytest.param("product", marks=pytest.mark.thorough)])
def test_arithmetic_that_depends_on_the_machine_is_noticed(change):
    digests = found(change)
    assert "results" in differing(digests, "float32")
    assert {"ranges", "binary"} & set(differing(digests, "int8"))
