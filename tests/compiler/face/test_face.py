"""The public face: load, compile, simulate, bytes, bundles, refusals."""

import json
import os
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import compiler
from compiler import targets

CODE = """
import sys, compiler
print(compiler.compile(compiler.load(sys.argv[1], dims={"length": [2, 5]}), target="lpu2").digest)
"""


def two_layers(hidden=12, seed=0):
    """x[length, 7] -> Gemm, Relu, Gemm."""
    rng = np.random.default_rng(seed)
    arrays = {
        "w1": rng.standard_normal((7, hidden)),
        "b1": rng.standard_normal(hidden),
        "w2": rng.standard_normal((hidden, 3)),
        "b2": rng.standard_normal(3),
    }
    weights = [numpy_helper.from_array(a.astype(np.float32), n) for n, a in arrays.items()]
    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["h"], "first"),
        helper.make_node("Relu", ["h"], ["r"], "relu"),
        helper.make_node("Gemm", ["r", "w2", "b2"], ["y"], "second"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["length", 7])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["length", 3])
    graph = helper.make_graph(nodes, "two-layers", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), arrays


@pytest.mark.parametrize("target", targets.names())
def test_two_layers_compile_run_and_cost_what_was_said(target):
    model, a = two_layers()
    program = compiler.compile(compiler.load(model, dims={"length": 4}), target=target)
    x = np.random.default_rng(1).standard_normal((4, 7)).astype(np.float32)
    outputs, counters = compiler.simulate(program.to_bytes(), {"x": x})
    expected = np.maximum(x @ a["w1"] + a["b1"], 0) @ a["w2"] + a["b2"]
    np.testing.assert_allclose(outputs["y"], expected, rtol=1e-4, atol=1e-5)
    assert counters == program.resources
    assert counters.exact
    assert counters.io.bytes_in == 4 * 7 * 4
    assert counters.io.bytes_out == 4 * 3 * 4
    # a multiply-accumulate is two operations, the biases and the relu one per element
    assert counters.operations == 2 * 4 * 12 * (7 + 3) + 4 * 12 + 4 * 12 + 4 * 3


def test_a_program_survives_its_bytes_with_everything_that_is_shown_of_it():
    model, _ = two_layers()
    program = compiler.compile(compiler.load(model, dims={"length": 4}))
    again = compiler.Program.from_bytes(program.to_bytes())
    assert again == program
    assert again.digest == program.digest
    assert again.report() == program.report()
    assert json.loads(json.dumps(again.report())) == again.report()
    assert again.schedule == program.schedule
    assert len(again.chrome_trace()["traceEvents"]) > len(again.schedule)
    assert "MATMUL" in again.disassemble()


def test_the_report_names_every_operation_and_the_bounds_hold():
    model, _ = two_layers()
    program = compiler.compile(compiler.load(model, dims={"length": 4}))
    report = compiler.report(program)
    sources = {s for row in report["per_operation"] for s in row["source"]}
    assert {"first", "relu", "second"} <= {s.split("@")[0] for s in sources} | sources
    for name in ("latency", "interval", "memory"):
        assert report["bounds"][name]["ours"] >= report["bounds"][name]["bound"] > 0
    assert report["totals"]["cycles"] == report["headline"]["latency_cycles"]
    assert max(segment[1] + segment[2] for segment in report["timeline"]) <= report["headline"]["latency_cycles"]


def test_stages_are_told_in_order():
    model, _ = two_layers()
    heard = []
    graph = compiler.load(model, dims={"length": 4}, on_stage=heard.append)
    compiler.compile(graph, on_stage=heard.append)
    assert heard == ["read", "shapes", "lower", "fuse", "schedule", "memory", "binary"]


def test_buckets_make_a_bundle_and_the_smallest_that_holds_a_job_is_chosen():
    model, _ = two_layers()
    bundle = compiler.compile(compiler.load(model, dims={"length": [8, 2, 4]}))
    assert [d["length"] for d in bundle.dims] == [2, 4, 8]
    assert bundle.program_for(3) == bundle.programs[1]
    assert bundle.program_for(length=8) == bundle.programs[2]
    again = compiler.read_programs(bundle.to_bytes())
    assert again.to_bytes() == bundle.to_bytes()
    assert again.programs == bundle.programs
    with pytest.raises(compiler.ModelError, match="length up to 8"):
        bundle.program_for(9)
    with pytest.raises(compiler.ModelError, match="there is no dimension 'width'"):
        bundle.program_for(width=1)


@pytest.mark.parametrize("cut", [0, 5, 9, 40, -1])
def test_bytes_that_are_no_bundle_are_refused(cut):
    model, _ = two_layers()
    data = compiler.compile(compiler.load(model, dims={"length": [2, 4]})).to_bytes()
    with pytest.raises(compiler.ModelError):
        compiler.read_programs(data[:cut])


def test_every_process_writes_the_same_bytes(tmp_path):
    model, _ = two_layers()
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    digests = {
        subprocess.run(
            [sys.executable, "-c", CODE, str(path)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "77")
    }
    assert len(digests) == 1


def test_a_precision_that_does_not_exist_is_refused_with_those_that_do():
    model, _ = two_layers()
    with pytest.raises(compiler.ModelError, match="float32"):
        compiler.compile(compiler.load(model, dims={"length": 4}), precision="int4")


def test_an_unknown_target_is_refused_with_the_known_ones():
    model, _ = two_layers()
    with pytest.raises(compiler.ModelError, match="lpu, lpu2"):
        compiler.compile(compiler.load(model, dims={"length": 4}), target="tpu")


@pytest.mark.thorough  # for every change, `test_shortage` does the same with small processors
def test_what_does_not_fit_says_what_is_missing_and_what_would_help():
    size = 8192
    w = numpy_helper.from_array(np.zeros((size, size), np.float32), "w")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, size])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, size])
    model = helper.make_model(
        helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"], "big")], "big", [x], [y], [w]),
        opset_imports=[helper.make_opsetid("", 17)],
    )
    graph = compiler.load(model)
    with pytest.raises(compiler.DoesNotFit) as refused:
        compiler.compile(graph, target="lpu")
    error = refused.value
    assert error.available == targets.load("lpu").memory_bytes
    assert error.gap == error.asked - error.available > 0
    assert {lever["lever"] for lever in error.levers} >= {"precision", "target"}
    assert all(lever["effect"] > 0 for lever in error.levers)
    assert json.loads(json.dumps(error.to_json()))["gap"] == error.gap
    more = next(lever["effect"] for lever in error.levers if lever["lever"] == "target")
    assert (more >= error.gap) == (targets.load("lpu2").memory_bytes >= error.asked)
