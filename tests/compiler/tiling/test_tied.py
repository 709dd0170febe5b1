"""Tied embeddings: a table that is looked up and multiplied lies once on the chip where two copies do not fit."""

from dataclasses import replace

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import compiler
from compiler import targets

ROWS, WIDTH = 4096, 768


def tied():
    """Logits of the rows that ``ids`` names: by what is looked up, what it is multiplied with."""
    table = np.random.default_rng(0).standard_normal((ROWS, WIDTH), dtype=np.float32)
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"]),
        helper.make_node("Relu", ["rows"], ["x"]),
        helper.make_node("Gemm", ["x", "table"], ["y"], transB=1),
    ]
    ends = [
        helper.make_tensor_value_info("ids", TensorProto.INT64, [2]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, ROWS]),
    ]
    graph = helper.make_graph(nodes, "tied", ends[:1], ends[1:], [numpy_helper.from_array(table, "table")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), table


@pytest.mark.parametrize(("precision", "size"), [("float32", 4), ("int8", 1)])
def test_a_tied_table_is_stored_once_where_memory_lacks(precision, size):
    model, table = tied()
    graph, target, ids = compiler.load(model), targets.resolve("lpu"), np.array([17, 4000])
    once = table.size * size
    roomy = compiler.compile(graph, target, precision)
    tight = compiler.compile(graph, replace(target, memory_bytes=once * 3 // 2), precision)
    assert roomy.binary.memory.constants > 2 * once
    assert once < tight.binary.memory.constants < 1.1 * once
    found = [compiler.simulate(p.to_bytes(), {"ids": ids}, p.target)[0]["y"] for p in (roomy, tight)]
    np.testing.assert_array_equal(*found)
    want = np.maximum(table[ids], 0) @ table.T
    assert np.abs(found[1] - want).max() < 0.05 * np.abs(want).max()
