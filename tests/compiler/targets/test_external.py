"""External memory, units that are not there, and what every target agrees on."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import compiler
from compiler import targets
from compiler.bounds import bounds
from compiler.errors import ModelError
from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.graph import Operand
from compiler.ir.interpreter import run
from compiler.ir.terms import arg
from compiler.ir.types import DType, TensorType
from compiler.isa.binary import Binary
from compiler.isa.instruction import Op
from compiler.program import Program
from compiler.reporting import resources_of
from compiler.targets import catalogue
from compiler.tiling.external import EVERYTHING, RESIDENT, WEIGHTS
from tests.compiler.checks import binary_of, check_program, check_rows, same
from tests.compiler.tiling import test_narrow
from tests.compiler.tiling.test_narrow import feeds
from tests.tiers import some

PEBBLE = Path(__file__).parents[1] / "probing" / "pebble.toml"
SAMPLES = Path(__file__).parents[3] / "samples"
BYTES = (DType.U8, DType.I8)


def product(m, k, n, out=None, *, constant=True):
    """A product of bytes whose second factor is a constant."""
    return test_narrow.product(m, k, n, BYTES, out, constant)


@pytest.fixture
def pebble():
    return targets.read(PEBBLE)


def without(name: str, *sections: str) -> targets.Target:
    """A shipped target without some of its units."""
    text = (catalogue.HERE / f"{name}.toml").read_text(encoding="utf-8")
    for section in sections:
        text = re.sub(rf"^\[{section}[.\]].*?(?=^\[(?!{section}\b)|\Z)", "", text, flags=re.M | re.S)
    return targets.parse(text)


@settings(max_examples=some(10), deadline=None)
@given(
    st.integers(1, 40),
    st.integers(1, 120),
    st.integers(1, 120),
    st.sampled_from([None, DType.I8]),
    st.booleans(),
    st.sampled_from(["systolic", "pebble"]),
    st.sampled_from([WEIGHTS, EVERYTHING]),
)
def test_fetched_weights_give_the_same_numbers_and_cost_what_was_said(m, k, n, out, constant, name, extent):
    graph = product(m, k, n, out, constant=constant)
    name = name if name == "systolic" else str(PEBBLE)
    plan, binary = check_program(graph, name, [feeds(graph, seed) for seed in (1, 2)], extent)
    found = resources_of(binary, plan.target)
    loaded = constant and any(i.opcode == Op.LOADW for i in binary.rows)  # else the vector unit was quicker
    assert found.io.external_in >= (k * n if loaded else 0)
    assert found.storage.external >= (k * n if loaded else 0)
    proven = bounds(graph, plan.target)
    assert proven.latency <= plan.latency
    assert proven.interval <= plan.interval


@pytest.mark.parametrize(
    ("kernel", "stride", "dilation", "side"), [(3, 2, 1, 14), (5, 2, 1, 15), (5, 1, 1, 28), (3, 1, 2, 20)]
)
def test_a_filter_held_as_a_band_is_fetched_from_where_it_is(kernel, stride, dilation, side):
    """The addresses of a band's cells that are off begin before the filter, and end behind it."""
    rng = np.random.default_rng(7)
    pads, channels = dilation * (kernel // 2), 32
    node = onnx.helper.make_node(
        "Conv", ["x", "w"], ["y"], group=channels, pads=[pads] * 4, strides=[stride] * 2, dilations=[dilation] * 2
    )
    weights = onnx.numpy_helper.from_array(rng.standard_normal((channels, 1, kernel, kernel)).astype("f4"), "w")
    value = onnx.helper.make_tensor_value_info
    given, made = value("x", 1, [1, channels, side, side]), value("y", 1, None)
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "band", [given], [made], [weights]))
    graph = compiler.load(model.SerializeToString())
    feed = {"x": rng.standard_normal((1, channels, side, side)).astype("f4")}
    ranges = compiler.calibrate(graph, [feed])
    results = []
    for name in ("systolic", "lpu"):
        program = compiler.compile(graph, name, precision="int8", calibration=ranges)
        outputs, counters = compiler.simulate(program.to_bytes(), feed)
        assert counters == program.resources
        results.append((outputs["y"], counters.operations, counters.io.bytes_in))
    assert same(results[0][0], results[1][0])
    assert results[0][1:] == results[1][1:]


def test_weights_stay_on_the_chip_where_they_fit_and_the_processor_allows_it(pebble):
    small, large = product(4, 64, 64, DType.I8), product(4, 512, 256, DType.I8)
    assert compiler.compile(small, pebble).resources.storage.external == 0
    program = compiler.compile(large, pebble)
    assert program.resources.storage.external >= 512 * 256 > pebble.memory_bytes
    assert program.resources.storage.total - program.resources.storage.instructions <= pebble.memory_bytes
    check_rows(program.binary, pebble, program.resources)
    feed = feeds(large, 5)
    outputs, counters = compiler.simulate(program.to_bytes(), feed)
    assert counters == program.resources
    assert same(outputs["y"], run(large, feed, {})["y"])
    assert compiler.compile(small, "systolic").resources.storage.external >= 64 * 64


def test_what_fits_nowhere_is_refused_with_the_gap(pebble):
    with pytest.raises(compiler.DoesNotFit) as refused:
        compiler.compile(product(400, 16, 64), pebble)
    assert refused.value.available == pebble.memory_bytes
    assert refused.value.gap > 0


def test_planes_that_take_their_weights_from_outside_refuse_constants():
    target = targets.load("systolic")
    graph = product(4, 100, 100)
    _, binary = binary_of(graph, target, RESIDENT)
    with pytest.raises(compiler.SimulationError, match="constants from external memory only"):
        compiler.simulate(binary.to_bytes(), feeds(graph, 1))


def test_a_program_larger_than_external_memory_is_refused(pebble):
    _, binary = binary_of(product(4, 100, 100), pebble, WEIGHTS)
    small = replace(pebble, external=replace(pebble.external, capacity=5_000))
    with pytest.raises(ModelError, match=r"bytes of external memory, .* more than pebble has"):
        compiler.simulate(binary.to_bytes(), {"x": np.zeros((4, 100), np.uint8)}, small)


def test_external_memory_survives_the_container_and_its_text(pebble):
    from compiler.isa.assembly import disassemble
    from tests.compiler.assembler import assemble

    _, binary = binary_of(product(4, 100, 100), pebble, WEIGHTS)
    assert Binary.from_bytes(binary.to_bytes()) == binary
    assert assemble(disassemble(binary), binary.constants, binary.external) == binary


def test_without_planes_the_vector_unit_multiplies():
    target = without("lpu", "matrix", "weights")
    graph = product(5, 20, 30, DType.I8)
    program = compiler.compile(graph, target)
    assert not {Op.LOADW, Op.MATMUL} & {i.opcode for i in program.binary.rows}
    feed = feeds(graph, 3)
    outputs, counters = compiler.simulate(program.to_bytes(), feed)
    assert counters == program.resources
    assert same(outputs["y"], run(graph, feed, {})["y"])


@pytest.mark.parametrize("section", ["vector", "move"])
def test_an_operation_without_its_unit_is_named(section):
    b = Builder("rows")
    b.source = ("rows",)
    table, at = b.input("table", TensorType(DType.F32, (5, 4))), b.input("at", TensorType(DType.I64, (3,)))
    taken = b.gather(table, (3, 4), Access((0, 0), ((0, 0), (0, 1))), [Operand(at, Access((0,), ((1, 0),))), None])
    twice = arg(0, DType.F32) + arg(0, DType.F32)
    y = b.compute((3, 4), [Operand(taken, Access.identity(2))], twice, parallel=2)
    with pytest.raises(ModelError, match=rf"^rows.*: it needs the unit '{section}', which the processor does not have"):
        compiler.compile(b.finish({"y": y}, {}, {}), without("lpu", section))


@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize(
    ("model", "dims"), [("digits-small", {}), ("digits-large", {}), ("digits-batch", {"batch": 3})]
)
def test_operations_and_io_are_the_same_on_every_target(model, dims, precision):
    graph = compiler.load(SAMPLES / f"{model}.onnx", dims)
    ranges = None if precision == "float32" else compiler.calibrate(graph, None, precision)
    chosen = [*targets.names(), without("lpu2", "matrix", "weights")]
    found = [compiler.compile(graph, target, precision, ranges).resources for target in chosen]
    assert len({(r.operations, r.io.bytes_in, r.io.bytes_out) for r in found}) == 1
    assert len({r.cycles for r in found}) > 1


def test_a_processor_given_by_its_file_serves_from_compile_to_simulate(monkeypatch, tmp_path):
    graph = product(4, 30, 30)
    program = compiler.compile(graph, str(PEBBLE))
    data = program.to_bytes()
    assert Program.from_bytes(data).report()["headline"]["target"] == "pebble"
    assert compiler.simulate(data, feeds(graph, 1))[1] == program.resources
    target = program.target
    monkeypatch.setattr(catalogue, "_read", {})
    with pytest.raises(ModelError, match="there is no target 'pebble'"):
        compiler.simulate(data, feeds(graph, 1))
    assert compiler.simulate(data, feeds(graph, 1), target)[1] == program.resources
    (tmp_path / "pebble.toml").write_text(PEBBLE.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setenv("TAKT_TARGETS", str(tmp_path))
    assert compiler.simulate(data, feeds(graph, 1))[1] == program.resources
    assert Program.from_bytes(data).target.digest == target.digest


@pytest.mark.parametrize("name", ["../pebble", "/etc/passwd", "", "a/b", ".hidden"])
def test_a_programs_target_is_never_a_path(monkeypatch, name):
    monkeypatch.setenv("TAKT_TARGETS", str(PEBBLE.parent / "inner"))
    with pytest.raises(ModelError, match="there is no target"):
        targets.find(name, "0" * 64)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"\xff\xfe", "is not UTF-8 text"), (b"name = 3", "'version' must be"), (b"#" * (1 << 20 | 1), "is larger than")],
)
def test_a_file_that_is_no_processor_is_told_what_is_wrong(tmp_path, content, message):
    path = tmp_path / "chip.toml"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=message) as refused:
        targets.resolve(str(path))
    said = str(refused.value).splitlines()
    assert all(line.startswith("- ") for line in said[1:])  # a sentence for each fault
    with pytest.raises(ModelError, match="there is no target file"):
        targets.resolve(str(tmp_path / "none.toml"))


def test_a_comparison_says_what_fits_and_what_does_not(pebble):
    from compiler.comparison import compare

    rows = compare(product(400, 16, 64), ["lpu", pebble, "systolic"])
    assert [(row["target"], row["fits"]) for row in rows] == [("lpu", True), ("pebble", False), ("systolic", True)]
    assert rows[1]["gap"] == rows[1]["asked"] - rows[1]["available"] > 0
    assert rows[0]["operations"] == rows[2]["operations"]
    assert json.loads(json.dumps(rows)) == rows
