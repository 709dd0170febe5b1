"""A result that a reshape reads is stored as the reshape takes it, where a copy would cost more than its reader saves."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import compiler
from compiler import targets


def grouped(channels, groups, size):
    """1x1, grouped 3x3 and 1x1 convolutions, as in ResNeXt and RegNet."""
    rng = np.random.default_rng(channels)
    weights = {
        "first": (channels, channels, 1, 1), "middle": (channels, channels // groups, 3, 3), "last": (channels, channels, 1, 1),
    }  # fmt: skip  # one kind of case to a line
    arrays = [numpy_helper.from_array(rng.standard_normal(s).astype(np.float32), n) for n, s in weights.items()]
    nodes = [
        helper.make_node("Conv", ["x", "first"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "middle"], ["c"], group=groups, pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["d"]),
        helper.make_node("Conv", ["d", "last"], ["e"]),
        helper.make_node("GlobalAveragePool", ["e"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, channels, size, size])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, channels, 1, 1])
    graph = helper.make_graph(nodes, "net", [x], [y], arrays)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()


@pytest.mark.parametrize(("channels", "groups", "size"), [(256, 32, 28), (128, 32, 14), (192, 8, 14)])
def test_groups_of_channels_are_not_copied(channels, groups, size):
    program = compiler.compile(
        compiler.load(grouped(channels, groups, size)), targets.resolve("lpu"), precision="int8", objective="latency"
    )
    assert not any(row["busy"].get("move") for row in program.per_operation)
