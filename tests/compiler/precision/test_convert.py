"""int8 and float16 graphs are legal, close to float32, executed as the interpreter says, and the same on every machine."""

from functools import cache

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import compiler
from compiler.errors import ModelError
from compiler.ir.interpreter import run
from compiler.ir.types import DType
from compiler.ir.verifier import verify
from compiler.passes import optimise
from compiler.precision.convert import convert
from compiler.precision.error import host_feeds
from compiler.precision.prepare import calibrated

RNG = np.random.default_rng(7)


def weight(name, *shape):
    scale = np.sqrt(2 / np.prod(shape[1:]))
    return numpy_helper.from_array((RNG.standard_normal(shape) * scale).astype(np.float32), name)


@cache
def network():
    """Every way of storing at once: strides, pads, a residual sum, a pool, h-swish, a depthwise layer, a join, a dense layer."""
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Relu", ["c1"], ["r1"]),
        node("MaxPool", ["r1"], ["p1"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Conv", ["p1", "w2", "b2"], ["c2"], pads=[1, 1, 1, 1]),
        node("Add", ["c2", "p1"], ["sum"]),
        node("HardSwish", ["sum"], ["h"]),
        node("Conv", ["h", "wd"], ["d"], pads=[1, 1, 1, 1], group=8),
        node("Concat", ["d", "h"], ["both"], axis=1),
        node("Conv", ["both", "w3", "b3"], ["c3"]),
        node("Relu", ["c3"], ["r3"]),
        node("GlobalAveragePool", ["r3"], ["g"]),
        node("Flatten", ["g"], ["flat"]),
        node("Gemm", ["flat", "w4", "b4"], ["y"], transB=1),
    ]
    weights = [weight("w1", 8, 3, 3, 3), weight("w2", 8, 8, 3, 3), weight("wd", 8, 1, 3, 3), weight("w3", 16, 16, 1, 1)]
    weights += [weight("w4", 5, 16), weight("b1", 8), weight("b2", 8), weight("b3", 16), weight("b4", 5)]
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [1, 3, 32, 32]), ("y", [1, 5]))]
    graph = helper.make_graph(nodes, "net", ports[:1], ports[1:], weights)
    return onnx.ModelProto.FromString(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()
    )


def feeds(count=4):
    return [{"x": np.random.default_rng(n).standard_normal((1, 3, 32, 32)).astype(np.float32)} for n in range(count)]


@pytest.mark.parametrize(("precision", "least"), [("int8", 25.0), ("float16", 50.0)])
def test_a_network_runs_as_the_interpreter_says_and_close_to_float32(precision, least):
    graph = optimise(compiler.load(network()))
    calibration = calibrated(graph, feeds(), precision)
    made = verify(convert(graph, precision, calibration).graph)
    program = compiler.compile(compiler.load(network()), precision=precision, calibration=calibration)
    signal = noise = 0.0
    for feed in feeds():
        outputs, counters = compiler.simulate(program.to_bytes(), feed)
        assert outputs["y"].dtype == np.float32
        np.testing.assert_array_equal(outputs["y"], run(made, host_feeds(made, feed))["y"])
        assert counters == program.resources
        reference = run(graph, feed)["y"]
        signal, noise = signal + float((reference**2).sum()), noise + float(((reference - outputs["y"]) ** 2).sum())
    measured = program.report()["accuracy"]["outputs"]["y"]
    assert measured["snr_db"] == pytest.approx(10 * np.log10(signal / noise), abs=0.01)
    assert measured["snr_db"] >= least
    assert measured["changed_top1"].endswith("/4")


def test_all_contractions_multiply_codes_and_the_link_carries_them():
    program = compiler.compile(compiler.load(network()), precision="int8", calibration=feeds())
    assert program.report()["accuracy"]["contractions"] == {"static": 5}
    assert program.resources.io.bytes_in == 3 * 32 * 32
    port = next(p for p in program.report()["ports"] if p["name"] == "x")
    assert (port["dtype"], port["wire"]) == ("f32", "i8")
    plain = compiler.compile(compiler.load(network()))
    assert 4 * program.resources.io.bytes_in == plain.resources.io.bytes_in


def test_the_link_carries_float16_where_float16_products_alone_read():
    """Two inputs that are multiplied with each other; a third one that an expression reads stays float32."""
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 4]) for name in "abc"]
    nodes = [helper.make_node("MatMul", ["a", "b"], ["ab"]), helper.make_node("Mul", ["ab", "c"], ["y"])]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 4])
    model = helper.make_model(
        helper.make_graph(nodes, "products", inputs, [output]), opset_imports=[helper.make_opsetid("", 17)]
    )
    program = compiler.compile(compiler.load(model.SerializeToString()), precision="int8")
    wires = {p["name"]: p["wire"] for p in program.report()["ports"] if p["name"] in "abc"}
    assert wires == {"a": "f16", "b": "f16", "c": "f32"}
    feed = {name: np.random.default_rng(n).standard_normal((4, 4)).astype(np.float32) for n, name in enumerate("abc")}
    a, b = (feed[name].astype(np.float16).astype(np.float64) for name in "ab")
    np.testing.assert_allclose(
        compiler.simulate(program.to_bytes(), feed)[0]["y"], (a @ b) * feed["c"], rtol=1e-5, atol=1e-5
    )


def test_the_link_takes_codes_as_well_as_floats():
    program = compiler.compile(compiler.load(network()), precision="int8", calibration=feeds())
    graph = optimise(compiler.load(network()))
    made = convert(graph, "int8", calibrated(graph, feeds(), "int8")).graph
    feed = feeds(1)[0]
    data = program.to_bytes()
    assert made.types["x"].dtype == DType.I8
    np.testing.assert_array_equal(
        compiler.simulate(data, host_feeds(made, feed))[0]["y"], compiler.simulate(data, feed)[0]["y"]
    )
    with pytest.raises(ModelError, match="takes float32"):
        compiler.simulate(data, {"x": feed["x"].astype(np.float64)})


def test_ranges_are_an_artefact_that_compiles_to_the_same_bytes():
    graph = compiler.load(network())
    text = compiler.calibrate(graph, feeds()).to_json()
    assert text == compiler.calibrate(compiler.load(network()), feeds()).to_json()
    again = compiler.compile(graph, precision="int8", calibration=compiler.Calibration.from_json(text))
    assert again == compiler.compile(graph, precision="int8", calibration=feeds())
    assert compiler.Program.from_bytes(again.to_bytes()) == again


def test_without_feeds_seeded_ones_are_made_and_the_report_says_so():
    program = compiler.compile(compiler.load(network()), precision="int8")
    accuracy = program.report()["accuracy"]
    assert (accuracy["calibration"], accuracy["feeds"]) == ("seeded feeds", 8)
    assert (
        "accuracy" not in compiler.compile(compiler.load(network())).report()
        or not compiler.compile(compiler.load(network())).report()["accuracy"]
    )


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([], "no feed"),
        ([{"y": np.zeros(1)}], "input 'x' is missing"),
        ([{"x": np.zeros((1, 3, 32, 32))}], "input 'x' is float64"),
    ],
)
def test_feeds_that_do_not_fit_are_refused(given, told):
    with pytest.raises(ModelError, match=told):
        compiler.compile(compiler.load(network()), precision="int8", calibration=given)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": 1, "ranges": 3}', '{"format": 1, "ranges": {"x": [0]}}'])
def test_ranges_that_are_none_are_refused(text):
    with pytest.raises(ModelError, match="not readable"):
        compiler.Calibration.from_json(text)


def test_ranges_of_another_model_are_refused():
    other = compiler.Calibration({"z": (0.0, 1.0)}, {}, seeded=True, count=1)
    with pytest.raises(ModelError, match="another model"):
        compiler.compile(compiler.load(network()), precision="int8", calibration=other)


@pytest.mark.parametrize(
    ("rows", "columns", "mode"), [(8, 300, "row"), (32, 300, "half"), (32, 1153, "row"), (8, 256, "half")]
)
def test_rows_have_scales_where_that_takes_less_than_larger_products(rows, columns, mode):
    ports = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, rows, n]) for name, n in (("x", 8), ("y", columns))
    ]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    graph = helper.make_graph(nodes, "net", ports[:1], ports[1:], [weight("w", 8, columns)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    loaded = optimise(compiler.load(model.SerializeToString()))
    assert convert(loaded, "int8", calibrated(loaded, None, "int8")).contractions == {mode: 1}


def only(node, shapes, result, weights=()):
    """A model of one operation; its inputs are called as the shapes are."""
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    graph = helper.make_graph(
        [node], "only", ports, [helper.make_tensor_value_info("y", TensorProto.FLOAT, result)], weights
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return compiler.load(model.SerializeToString())


@pytest.mark.parametrize("precision", ["float16", "int8"])
@pytest.mark.parametrize("strides", [[1, 1], [2, 2]])
def test_rows_of_a_padded_pointwise_layer_have_scales_of_their_own(precision, strides):
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[2, 1, 1, 1], strides=strides)
    side = [-(-(6 + pad) // step) for pad, step in zip((3, 2), strides, strict=True)]
    graph = only(node, {"x": [1, 9, 6, 6]}, [1, 40, *side], [weight("w", 40, 9, 1, 1)])
    feed = {"x": RNG.standard_normal((1, 9, 6, 6)).astype(np.float32) * np.logspace(-3, 0, 6, dtype=np.float32)}
    program = compiler.compile(graph, precision=precision, calibration=[feed])
    (given,), _ = compiler.simulate(program.to_bytes(), [feed])
    expected = run(graph, feed)["y"]
    assert np.abs(given["y"] - expected).max() < 0.05 * np.abs(expected).max()


def test_inputs_without_elements_have_no_range():
    graph = only(helper.make_node("Concat", ["x", "nothing"], ["y"], axis=0), {"x": [3, 4], "nothing": [0, 4]}, [3, 4])
    feed = {"x": RNG.standard_normal((3, 4)).astype(np.float32), "nothing": np.zeros((0, 4), np.float32)}
    program = compiler.compile(graph, precision="int8", calibration=compiler.calibrate(graph, [feed], "int8"))
    outputs, _ = compiler.simulate(program.to_bytes(), feed)
    assert np.abs(outputs["y"] - feed["x"]).max() < 0.05


@pytest.mark.parametrize("precision", ["int8", "float16"])
@pytest.mark.parametrize("reduction", ["none", "add", "max"])
def test_what_is_scattered_and_then_multiplied_stays_float(reduction, precision):
    """Messages summed at the nodes of a graph: data and updates are floats, so the result is one until it is multiplied."""
    rng = np.random.default_rng(3)
    nodes = [
        helper.make_node("ScatterElements", ["zero", "at", "x"], ["sums"], axis=0, reduction=reduction),
        helper.make_node("MatMul", ["sums", "w"], ["y"]),
    ]
    constants = [numpy_helper.from_array(np.zeros((10, 4), np.float32), "zero")]
    constants.append(numpy_helper.from_array(rng.standard_normal((4, 8)).astype(np.float32), "w"))
    info = helper.make_tensor_value_info
    inputs = [info("x", TensorProto.FLOAT, [9, 4]), info("at", TensorProto.INT64, [9, 4])]
    graph = helper.make_graph(nodes, "net", inputs, [info("y", TensorProto.FLOAT, [10, 8])], constants)
    loaded = compiler.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9))
    given = {"x": rng.standard_normal((9, 4)).astype(np.float32), "at": rng.integers(0, 10, (9, 4))}
    exact = compiler.simulate(compiler.compile(loaded, "lpu").to_bytes(), given)[0]["y"]
    program = compiler.compile(loaded, "lpu", precision, compiler.calibrate(loaded, [given], precision))
    found, counters = compiler.simulate(program.to_bytes(), given)
    assert counters == program.resources
    assert np.abs(found["y"] - exact).max() < 0.02 * np.abs(exact).max()
