"""The builder computes what is known, stores equal constants once, and keeps hostile graphs within bounds."""

import numpy as np
import pytest

from compiler.errors import ModelError
from compiler.ir import builder as module
from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.graph import Operand
from compiler.ir.terms import arg
from compiler.ir.types import DType, TensorType


def doubled(b, value):
    shape = b.shape(value)
    return b.compute(shape, [Operand(value, Access.identity(len(shape)))], arg(0, b.dtype(value)) * 2)


def test_what_depends_on_constants_alone_is_computed_at_once():
    b = Builder("g")
    made = doubled(b, b.constant(np.arange(3, dtype="i8")))
    assert not b.nodes
    assert b.known(made).tolist() == [0, 2, 4]


def test_equal_constants_are_one_value_and_cannot_be_changed():
    b = Builder("g")
    assert b.constant(np.ones(3)) == b.constant(np.ones(3))
    assert b.constant(np.ones(3)) != b.constant(np.ones(3, "f4"))
    with pytest.raises(ValueError, match="read-only"):
        b.known(b.constant(np.ones(3)))[0] = 2


def test_folding_has_a_budget(monkeypatch):
    monkeypatch.setattr(module, "FOLD_TOTAL", 100_000)
    b = Builder("g")
    value = b.constant(np.arange(20_000, dtype="f4"))
    for _ in range(4):
        value = doubled(b, value)
    assert b.nodes
    small = doubled(b, b.constant(np.arange(5)))
    assert b.known(small) is not None


def test_constants_tensors_and_operations_are_limited():
    with pytest.raises(ModelError, match="would take"):
        Builder("g", max_bytes=100).input("x", TensorType(DType.F32, (26,)))
    b = Builder("g", max_bytes=100, max_stored=200)
    b.constant(np.full(25, 1, "f4"))
    b.constant(np.full(25, 2, "f4"))
    with pytest.raises(ModelError, match="constants take more"):
        b.constant(np.full(25, 3, "f4"))
    b = Builder("g", max_nodes=3)
    value = b.input("x", TensorType(DType.F32, (2,)))
    for _ in range(3):
        value = doubled(b, value)
    with pytest.raises(ModelError, match="unrolls to more than 3"):
        doubled(b, value)


def test_outputs_keep_the_models_names_and_others_stay_unique():
    b = Builder("g")
    b.source = ("op",)
    x = b.input("x", TensorType(DType.F32, (2,)))
    first = doubled(b, x)
    second = doubled(b, first)
    graph = b.finish({"y": second, "z": second, "same": x}, {first: "x"}, {})
    assert graph.outputs == ("y", "z", "same")
    assert "x.2" in graph.types
    assert [n.output for n in graph.nodes] == ["x.2", "y", "z", "same"]
