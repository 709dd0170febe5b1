"""Sorts and scatters through binary and simulator: the interpreter's bits, and counters as promised."""

import numpy as np
import pytest

import compiler
from compiler import targets
from compiler.ir.builder import Builder
from compiler.ir.interpreter import run
from compiler.ir.types import DType, TensorType
from compiler.isa.timing import sort_run
from compiler.simulator import SimulationError
from tests.compiler.ir.test_ordering import feeds, scattering

RUN = sort_run(targets.load("lpu"))


def checked(graph, given, target="lpu"):
    program = compiler.compile(graph, target)
    found, counters = compiler.simulate(program.to_bytes(), given)
    expected = run(graph, given)
    assert counters == program.resources
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        assert np.array_equal(found[name], array), name
    return program


@pytest.mark.parametrize(
    ("shape", "keep", "dtype"),
    [
        ((1,), 1, DType.I64),
        ((7,), 7, DType.I32),
        ((3, 50), 5, DType.U8),
        ((100, 7), 3, DType.I64),  # several rows at once
        ((2, RUN), RUN, DType.I64),
        ((2, RUN + 1), 9, DType.I64),  # a tournament of blocks
        ((3 * RUN,), 2 * RUN, DType.I32),  # a network of blocks
    ],
)
def test_rows_of_any_length_are_sorted(shape, keep, dtype):
    b = Builder("sort")
    b.source = ("s",)
    graph = b.finish({"y": b.sort(b.input("x", TensorType(dtype, shape)), keep)}, {}, {})
    limits = np.iinfo(dtype.numpy)
    rng = np.random.default_rng(sum(shape))
    x = rng.integers(max(limits.min, -99), min(limits.max, 99), shape).astype(dtype.numpy)
    x.reshape(-1)[::3] = limits.max  # as large as what fills blocks up
    program = checked(graph, {"x": x})
    assert program.resources.operations == x.size  # the same whatever the network needs


@pytest.mark.parametrize("target", ["lpu", "lpu2"])
@pytest.mark.parametrize("reducer", [None, "sum", "prod", "max", "min"])
def test_scattered_updates_meet_in_order(reducer, target):
    program = checked(scattering(reducer), feeds([1, 1, -1, 1, 0]), target)
    assert program.resources.operations == (15 if reducer else 0)


def test_a_place_outside_is_a_fault_of_the_run():
    program = compiler.compile(scattering())
    with pytest.raises(SimulationError, match="outside a dimension of 4"):
        compiler.simulate(program.to_bytes(), feeds([0, 1, 2, 3, 4]))


def test_inferences_back_to_back_do_not_meet_in_a_scattered_buffer():
    graph = scattering("sum")
    program = compiler.compile(graph)
    given = [feeds(rows) for rows in ([0, 0, 1, 1, 2], [3, 3, 3, 3, 3], [1, 2, 3, 0, 1])]
    found, counters = compiler.simulate(program.to_bytes(), given)
    assert counters == program.resources
    for outputs, feed in zip(found, given, strict=True):
        assert np.array_equal(outputs["y"], run(graph, feed)["y"])
