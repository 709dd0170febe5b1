"""Made-up inputs are of the size that the model itself normalises, and of bytes they span all."""

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import compiler
from compiler.ir.interpreter import run
from compiler.passes import optimise
from compiler.precision.calibrate import Measure
from compiler.precision.convert import convert
from compiler.precision.error import measure
from compiler.precision.feeds import seeded
from compiler.precision.inputs import normals
from compiler.precision.prepare import calibrated
from tests.tiers import some

RNG = np.random.default_rng(3)


def model(nodes, shape, weights, kind=TensorProto.FLOAT, result="n"):
    ports = [
        helper.make_tensor_value_info("x", kind, shape),
        helper.make_tensor_value_info(result, TensorProto.FLOAT, None),
    ]
    arrays = [numpy_helper.from_array(np.asarray(a), name) for name, a in weights.items()]
    graph = helper.make_graph([helper.make_node(*n[:3], **n[3]) for n in nodes], "net", ports[:1], ports[1:], arrays)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    return optimise(compiler.load(onnx.ModelProto.FromString(made.SerializeToString())))


def network(way, *, seed=0, kind=TensorProto.FLOAT, shape=(1, 3, 32, 32)):
    """``way``: nodes and constants from ``x`` to ``n``; behind it two convolutions and a dense layer."""
    rng, (nodes, constants) = np.random.default_rng(seed), way
    weights = {
        name: (rng.standard_normal(size) * (2 / np.prod(size[1:])) ** 0.5).astype(np.float32)
        for name, size in (("w1", (16, 3, 3, 3)), ("w2", (16, 16, 3, 3)), ("w3", (10, 16)))
    }
    net = [
        ("Conv", ["n", "w1"], ["c1"], {"pads": [1, 1, 1, 1]}),
        ("Relu", ["c1"], ["r1"], {}),
        ("Conv", ["r1", "w2"], ["c2"], {"strides": [2, 2]}),
        ("Relu", ["c2"], ["r2"], {}),
        ("GlobalAveragePool", ["r2"], ["p"], {}),
        ("Flatten", ["p"], ["row"], {}),
        ("Gemm", ["row", "w3"], ["y"], {"transB": 1}),
    ]
    return model([*nodes, *net], shape, constants | weights, kind, "y")


def f32(*values):
    return np.array(values, np.float32)


CAST, TURN = ("Cast", ["x"], ["f"], {"to": 1}), {"perm": [0, 3, 1, 2]}
MEAN, DEVIATION = (f32(*v).reshape(1, 3, 1, 1) for v in ((123.7, 116.3, 103.5), (58.4, 57.1, 57.4)))
BATCH = {"s": f32(1, 1, 1), "b": f32(0, 0, 0), "m": f32(120, 115, 100), "v": f32(3600, 3400, 3500)}
WAYS = {
    "mean and deviation": (
        [("Sub", ["x", "m"], ["t0"], {}), ("Div", ["t0", "d"], ["n"], {})],
        {"m": MEAN, "d": DEVIATION},
    ),
    "a byte's end": ([("Div", ["x", "k"], ["n"], {})], {"k": f32(255)}),
    "a product": (
        [("Mul", ["x", "k"], ["t0"], {}), ("Add", ["t0", "l"], ["n"], {})],
        {"k": f32(1 / 127.5), "l": f32(-1)},
    ),
    "a mean": ([("Sub", ["x", "m"], ["n"], {})], {"m": MEAN}),
    "statistics": ([("BatchNormalization", ["x", *BATCH], ["n"], {})], BATCH),
    "channels last": (
        [("Sub", ["x", "m"], ["t0"], {}), ("Div", ["t0", "d"], ["t"], {}), ("Transpose", ["t"], ["n"], TURN)],
        {"m": MEAN.reshape(3), "d": DEVIATION.reshape(3)},
    ),
    "bytes": ([CAST, ("Div", ["f", "k"], ["n"], {})], {"k": f32(255)}),
    "bytes as they are": ([(*CAST[:2], ["n"], *CAST[3:])], {}),
    "bytes, channels last": (
        [CAST, ("Transpose", ["f"], ["t"], TURN), ("Div", ["t", "k"], ["n"], {})],
        {"k": f32(255)},
    ),
}


def pictures(shape, dtype, count=8):
    """Smooth pictures of brightness 0 to 255."""
    axes = (1, 2) if shape[-1] == 3 else (2, 3)
    for _ in range(count):
        x = RNG.standard_normal(shape)
        for axis in axes:
            x = (x + np.roll(x, 1, axis) + np.roll(x, 2, axis)) / 3**0.5
        yield {"x": np.rint(np.clip(x * 64 + 128, 0, 255)).astype(dtype)}


@pytest.mark.parametrize("name", list(WAYS))
def test_pictures_lose_little_more_than_what_is_promised(name):
    shape = (1, 32, 32, 3) if "last" in name else (1, 3, 32, 32)
    graph = network(WAYS[name], kind=TensorProto.UINT8 if "bytes" in name else TensorProto.FLOAT, shape=shape)
    calibration = calibrated(graph, None, "int8")
    feeds = list(pictures(shape, graph.types["x"].dtype.numpy))
    asked = Measure(feeds, [run(graph, feed) for feed in feeds], {})
    found = measure(convert(graph, "int8", calibration).graph, asked)["y"]
    assert found["snr_db"] >= max(26.0, calibration.errors["int8"]["y"]["snr_db"] - 12.0)


@settings(max_examples=some(60), deadline=None)
@given(
    sizes=st.lists(st.integers(1, 5), min_size=2, max_size=4),
    mean=st.floats(-300, 300, width=32),
    deviation=st.floats(0.5, 500, width=32),
    perm=st.randoms(use_true_random=False),
    seed=st.integers(0, 99),
)
def test_what_is_made_up_becomes_what_was_asked_for(sizes, mean, deviation, perm, seed):
    """Behind any mean, deviation and order of dimensions the normalised value is the one that was drawn."""
    rng = np.random.default_rng(seed)
    order = list(range(len(sizes)))
    perm.shuffle(order)
    constants = {
        "m": np.full(sizes[-1], mean, np.float32) + rng.uniform(1, 2, sizes[-1]).astype(np.float32),
        "d": np.full(sizes[-1], deviation, np.float32) * rng.uniform(1, 2, sizes[-1]).astype(np.float32),
    }
    nodes = [
        ("Sub", ["x", "m"], ["t0"], {}),
        ("Div", ["t0", "d"], ["t"], {}),
        ("Transpose", ["t"], ["n"], {"perm": order}),
    ]
    graph = model(nodes, sizes, constants)
    normal = normals(graph)["x"]
    drawn = rng.standard_normal(normal.shape)
    made = run(graph, {"x": normal.input(drawn, graph.types["x"])})["n"]
    assert made.size == drawn.size
    np.testing.assert_allclose(made.reshape(-1), normal.size * drawn.reshape(-1), rtol=0.0, atol=0.05)


@pytest.mark.parametrize(
    "nodes",
    [
        [("Mul", ["x", "k"], ["n"], {})],  # louder: nothing says how loud
        [("Div", ["x", "k"], ["n"], {})],  # by the root of a width
        [("Sub", ["one", "x"], ["t0"], {}), ("Mul", ["t0", "many"], ["n"], {})],  # a mask
        [("Add", ["x", "many"], ["n"], {})],
        [("Mul", ["x", "x"], ["n"], {})],
        [("Relu", ["x"], ["n"], {})],
        [("Sub", ["x", "k"], ["t0"], {}), ("Mul", ["t0", "x"], ["n"], {})],  # of which a part is read apart
        [("Div", ["one", "x"], ["n"], {})],
        [("Add", ["x", "endless"], ["n"], {})],  # a mask, too
    ],
)
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_other_beginnings_tell_nothing(nodes):
    constants = {"k": f32(8), "one": f32(1), "many": f32(-10000), "endless": f32(-np.inf)}
    used = {name: a for name, a in constants.items() if any(name in n[1] for n in nodes)}
    assert normals(model(nodes, (1, 4, 6), used)) == {}


@settings(max_examples=40, deadline=None)
@given(mean=st.floats(-300, 300, width=32), sign=st.sampled_from(["Sub", "Add"]))
def test_a_mean_alone_tells_how_large_inputs_are(mean, sign):
    normal = normals(model([(sign, ["x", "m"], ["n"], {})], (1, 4, 6), {"m": f32(mean)})).get("x")
    assert (1.0 if normal is None else normal.size) == pytest.approx(max(1.0, abs(mean) / 2), rel=1e-3)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize(
    ("kind", "divisor"), [(TensorProto.FLOAT, np.float32(3e38)), (TensorProto.FLOAT16, np.float16(2**14))]
)
def test_what_is_divided_by_the_largest_numbers_stays_a_number(kind, divisor):
    nodes = [("Div", ["x", "k"], ["t0"], {}), ("Cast", ["t0"], ["n"], {"to": 1})]
    found = np.stack([feed["x"] for feed in seeded(model(nodes, (1, 400), {"k": divisor}, kind))])
    assert np.isfinite(found).all()
    assert np.abs(found).max() > divisor


def test_bytes_span_all_and_places_stay_places():
    graph = network(WAYS["bytes"], kind=TensorProto.UINT8)
    found = np.stack([feed["x"] for feed in seeded(graph)])
    assert (found.dtype, found.min() < 40, found.max() > 215) == (np.uint8, True, True)
    assert 64 < found.mean() < 192
    table = {"w": RNG.standard_normal((7, 4)).astype(np.float32)}
    nodes = [("Cast", ["x"], ["i"], {"to": 7}), ("Gather", ["w", "i"], ["n"], {})]
    assert max(feed["x"].max() for feed in seeded(model(nodes, (1, 2, 9), table, TensorProto.UINT8))) == 6


COLUMNS = np.array([40, 1000, 0.5, -3, 60000, 12, 1990, 3e5]), np.array([12, 400, 0.2, 1, 15000, 5, 8, 9e4])
SCALER = {"domain": "ai.onnx.ml", "offset": [float(m) for m in COLUMNS[0]], "scale": [float(1 / d) for d in COLUMNS[1]]}
TABLES = {
    "divided": ([("Sub", ["x", "m"], ["t"], {}), ("Div", ["t", "d"], ["n"], {})], {"m": COLUMNS[0], "d": COLUMNS[1]}),
    "multiplied": (
        [("Mul", ["x", "k"], ["t"], {}), ("Add", ["t", "o"], ["n"], {})],
        {"k": 1 / COLUMNS[1], "o": -COLUMNS[0] / COLUMNS[1]},
    ),
    "statistics": (
        [("BatchNormalization", ["x", "s", "b", "m", "v"], ["n"], {"epsilon": 1e-9})],
        {"s": np.ones(8), "b": np.zeros(8), "m": COLUMNS[0], "v": COLUMNS[1] ** 2},
    ),
    "scaler": ([("Scaler", ["x"], ["n"], SCALER)], {}),
    "clamped": (
        [("Sub", ["x", "m"], ["t"], {}), ("Div", ["t", "d"], ["u"], {}), ("Clip", ["u", "low", "high"], ["n"], {})],
        {"m": COLUMNS[0], "d": COLUMNS[1], "low": np.float32(-5), "high": np.float32(5)},
    ),
}


def table(name):
    """A normalisation of columns of very different sizes, and a dense layer."""
    nodes, constants = TABLES[name]
    dense = ("Gemm", ["n", "w"], ["y"], {})
    weights = constants | {"w": np.random.default_rng(3).standard_normal((8, 24)) / 3}
    return model([*nodes, dense], (1, 8), {n: np.asarray(a, np.float32) for n, a in weights.items()}, result="y")


@pytest.mark.parametrize("name", list(TABLES))
@pytest.mark.parametrize("precision", ["int8", "float16"])
def test_columns_of_any_size_lose_little_more_than_what_is_promised(name, precision):
    graph, (mean, deviation) = table(name), COLUMNS
    normal = normals(graph)["x"]
    np.testing.assert_allclose(normal.factor, 1 / deviation, rtol=1e-4)
    np.testing.assert_allclose(normal.term, -mean / deviation, rtol=1e-4)
    calibration, rng = calibrated(graph, None, precision), np.random.default_rng(1)
    feeds = [{"x": (mean + deviation * rng.standard_normal((1, 8))).astype(np.float32)} for _ in range(16)]
    made = convert(graph, precision, calibration).graph
    found = measure(made, Measure(feeds, [run(graph, feed) for feed in feeds], {}))["y"]
    assert found["snr_db"] >= max(26.0, calibration.errors[precision]["y"]["snr_db"] - 12.0)


@settings(max_examples=some(40), deadline=None)
@given(mean=st.floats(1, 1e6, width=32), odd=st.sampled_from([0.0, 1e-9, 1e9, np.inf]), place=st.integers(0, 7))
def test_one_odd_feature_does_not_hide_the_others(mean, odd, place):
    deviation = np.full(8, 50, np.float32)
    deviation[place] = odd
    nodes = [("Sub", ["x", "m"], ["t"], {}), ("Div", ["t", "d"], ["n"], {})]
    graph = model(nodes, (1, 8), {"m": np.full(8, mean, np.float32), "d": deviation})
    normal, others = normals(graph)["x"], np.arange(8) != place
    np.testing.assert_allclose(normal.factor[others], 1 / 50, rtol=1e-6)
    np.testing.assert_allclose(normal.term[others], -mean / 50, rtol=1e-6)
    assert all(np.isfinite(feed["x"]).all() for feed in seeded(graph))


def test_a_divisor_in_float16_is_seen():
    nodes = [("Div", ["x", "k"], ["t"], {}), ("Cast", ["t"], ["n"], {"to": 1})]
    graph = model(nodes, (1, 8), {"k": np.float16(255)}, TensorProto.FLOAT16)
    np.testing.assert_allclose(normals(graph)["x"].factor, 1 / 255)
