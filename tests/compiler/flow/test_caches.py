"""Caches that grow by concatenation become variables of a fixed length, written row by row."""

import tracemalloc

import numpy as np
import onnxruntime
import pytest
from onnx import helper

import compiler
from compiler.isa.instruction import Op
from tests.compiler.flow.growing import DEPTH, HEADS, LAYERS, VOCABULARY, growing_decoder
from tests.compiler.flow.models import F32, model, value

CONTEXT = 12
CACHES = [f"{part}{layer}" for layer in range(LAYERS) for part in "kv"]
KINDS = [
    ("input", "input"),
    ("shape", "input"),
    ("mask", "input"),
    ("shape", "causal"),
]  # where positions come from, where the mask comes from


class Runtime:
    """ONNX Runtime with caches that grow from nothing."""

    def __init__(self, data):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = 1, 3
        self.session = onnxruntime.InferenceSession(data, options)
        self.names = [i.name for i in self.session.get_inputs()]
        self.caches = {f"past_{n}": np.zeros((1, HEADS, 0, DEPTH), np.float32) for n in CACHES}
        self.length = 0

    def step(self, ids):
        end = self.length + ids.shape[1]
        feed = {"input_ids": ids, "position_ids": np.arange(self.length, end)[None]}
        feed["attention_mask"] = np.ones((1, end), np.int64)
        feed = {name: array for name, array in feed.items() if name in self.names}
        logits, *rest = self.session.run(None, {**feed, **self.caches})
        self.caches, self.length = dict(zip(self.caches, rest, strict=True)), end
        return logits


def fed(program, ids, length):
    """What the program takes of ids and positions."""
    feed = {"input_ids": ids, "position_ids": np.arange(length, length + ids.shape[1])[None]}
    return {p.name: feed[p.name] for p in program.binary.ports if p.name in feed}


def loaded(data, tokens=1, context=CONTEXT, **rest):
    return compiler.load(data, {"batch": 1, "sequence": tokens}, context=context, **rest)


@pytest.mark.parametrize(("positions", "mask"), KINDS)
@pytest.mark.parametrize("tokens", [1, 3])
def test_steps_from_an_empty_cache_equal_onnx_runtime_until_the_context_is_full(positions, mask, tokens):
    data = growing_decoder(positions=positions, mask=mask)
    program, reference = compiler.compile(loaded(data, tokens)), Runtime(data)
    session, rng = compiler.Session(program.to_bytes()), np.random.default_rng(1)
    assert program.resources.exact
    for n in range(0, CONTEXT, tokens):
        ids = rng.integers(0, VOCABULARY, (1, tokens))
        outputs, counters = session.run(fed(program, ids, n))
        assert counters == program.resources
        np.testing.assert_allclose(outputs["logits"], reference.step(ids), atol=1e-5)
        for name, array in session.state.items():
            if name != "cache_length":
                np.testing.assert_allclose(array[:, :, : n + tokens], reference.caches[name], atol=1e-5)
    with pytest.raises(compiler.ModelError, match=rf"hold {CONTEXT} of at most {CONTEXT} tokens"):
        session.run(fed(program, ids, 0))


def test_the_link_carries_ids_and_logits_and_a_row_is_written_where_it_lies():
    program = compiler.compile(loaded(growing_decoder(positions="shape")))
    assert {p.name for p in program.binary.ports} == {"input_ids", "logits"}
    assert (program.resources.io.bytes_in, program.resources.io.bytes_out) == (8, VOCABULARY * 4)
    assert sum(i.opcode == Op.SCATTER for i in program.binary.rows) == len(CACHES)
    longer = compiler.compile(loaded(growing_decoder(positions="shape"), context=4 * CONTEXT))
    assert longer.resources.io == program.resources.io


def test_a_table_of_positions_may_end_with_the_context():
    data = growing_decoder(positions="shape", longest=CONTEXT)
    session, reference = compiler.Session(compiler.compile(loaded(data)).to_bytes()), Runtime(data)
    for n in range(CONTEXT):
        ids = np.array([[n]])
        np.testing.assert_allclose(session.run({"input_ids": ids})[0]["logits"], reference.step(ids), atol=1e-5)


def test_rows_that_were_not_written_influence_nothing():
    data = growing_decoder()
    program = compiler.compile(loaded(data))
    clean, used = (compiler.Session(program.to_bytes()) for _ in range(2))
    rng = np.random.default_rng(2)
    used.set_state(
        {n: rng.standard_normal(a.shape).astype(np.float32) * 1e4 for n, a in used.state.items() if "past" in n}
    )
    for n in range(CONTEXT):
        feed = fed(program, rng.integers(0, VOCABULARY, (1, 1)), n)
        np.testing.assert_array_equal(clean.run(feed)[0]["logits"], used.run(feed)[0]["logits"])


def test_a_model_with_an_empty_cache_compiles():
    data, ids = growing_decoder(mask="causal"), np.array([[3, 1, 4]])
    program = compiler.compile(compiler.load(data, {"batch": 1, "sequence": 3, "past": 0}))
    empty = {f"past_{n}": np.zeros((1, HEADS, 0, DEPTH), np.float32) for n in CACHES}
    outputs, _ = compiler.simulate(program.to_bytes(), {**fed(program, ids, 0), **empty})
    np.testing.assert_allclose(outputs["logits"], Runtime(data).step(ids), atol=1e-5)


# -- biases, and what is refused -----------------------------------------------------------------------------------------


def node(kind, inputs, output, **attributes):
    return helper.make_node(kind, inputs, [output], name=f"{kind}_{output}", **attributes)


def attention(*extra, scores="scores", outputs=()):
    """One head whose two new tokens attend to a cache; ``extra`` nodes lie between ``scores`` and the softmax."""
    nodes = [
        node("Concat", ["past", "x"], "present", axis=1),
        node("Gather", [node_shape.output[0], "one"], "total"),
        node("Transpose", ["present"], "turned", perm=[0, 2, 1]),
        node("MatMul", ["x", "turned"], "scores"),
        *extra,
        node("Softmax", [scores], "probabilities", axis=-1),
        node("MatMul", ["probabilities", "present"], "y"),
    ]
    return model(
        [node_shape, *nodes],
        [value("past", F32, [1, "rows", 4]), value("x", F32, [1, 2, 4])],
        [value("y", F32, [1, 2, 4]), value("present", F32, [1, "all", 4]), *outputs],
        [("zero", np.int64(0)), ("one", np.int64(1)), ("minus", np.int64(-1)), ("slope", np.float32(-0.25))],
    )


node_shape = node("Shape", ["present"], "sizes")
ALONG = [node("Range", ["zero", "total", "one"], "along"), node("Cast", ["along"], "far", to=1)]
BIASES = {
    "by position": [*ALONG, node("Mul", ["far", "slope"], "bias"), node("Add", ["scores", "bias"], "biased")],
    "by distance": [
        *ALONG,
        node("Cast", ["total"], "end", to=1),
        node("Sub", ["end", "far"], "distance"),
        node("Mul", ["distance", "slope"], "bias"),
        node("Add", ["scores", "bias"], "biased"),
    ],
    "by a share of the rows": [
        *ALONG,
        node("Cast", ["total"], "end", to=1),
        node("Div", ["far", "end"], "bias"),
        node("Add", ["scores", "bias"], "biased"),
    ],
}


@pytest.mark.parametrize("bias", ["by position", "by distance"])
def test_a_bias_over_the_rows_moves_with_the_length(bias):
    data = attention(*BIASES[bias], scores="biased")
    session = compiler.Session(compiler.compile(compiler.load(data, context=9)).to_bytes())
    reference, past = onnxruntime.InferenceSession(data), np.zeros((1, 0, 4), np.float32)
    rng = np.random.default_rng(3)
    for _ in range(4):
        x = rng.standard_normal((1, 2, 4)).astype(np.float32)
        want, past = reference.run(None, {"x": x, "past": past})
        np.testing.assert_allclose(session.run({"x": x})[0]["y"], want, atol=1e-5)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (attention(*BIASES["by a share of the rows"], scores="biased"), "Add_biased: reads a constant that follows"),
        (
            attention(
                node("ReduceMean", ["past"], "mean", axes=[1], keepdims=1), outputs=[value("mean", F32, [1, 1, 4])]
            ),
            "ReduceMean_mean: reads the cache 'past' itself, not 'present'",
        ),
        (
            attention(outputs=[value("probabilities", F32, [1, 2, "all"])]),
            "The output 'probabilities' grows with the caches",
        ),
        (
            attention(node("Gather", ["present", "minus"], "last", axis=1), outputs=[value("last", F32, [1, 4])]),
            "Gather_last: .*places that follow the caches' length",
        ),
        (
            attention(node("CumSum", ["scores", "minus"], "biased"), scores="biased"),
            "CumSum_biased: does other operations|CumSum_biased: .*cannot replace",
        ),
        (
            attention(
                node("Concat", ["scores", "scores"], "biased", axis=2),
                scores="scores",
                outputs=[value("biased", F32, [1, 2, "twice"])],
            ),
            "Concat_biased: makes a dimension of the caches' rows and of something else",
        ),
    ],
)
def test_what_a_cache_of_fixed_length_cannot_replace_is_refused(data, why):
    with pytest.raises(compiler.ModelError, match=why):
        compiler.load(data, context=9)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"context": 1}, "whole number of at least 2"),
        ({"context": 2}, "A run adds 2 tokens"),
        ({"caches": [("past", "present")]}, "Caches are named without a context"),
        ({"context": 9, "caches": [("past", "y")]}, "'y' is not 'past' with new rows behind it"),
        ({"context": 9, "dims": {"rows": 4}}, "no input has rows that are left open"),
    ],
)
def test_arguments_that_make_no_cache_are_refused(arguments, why):
    with pytest.raises(compiler.ModelError, match=why):
        compiler.load(attention(), **arguments)


def test_a_model_without_a_continued_input_has_no_cache():
    data = model([node("Exp", ["x"], "y")], [value("x", F32, [1, "n", 4])], [value("y", F32, [1, "n", 4])])
    with pytest.raises(compiler.ModelError, match="No output is an input with new rows behind it, although 'n'"):
        compiler.load(data, context=8)


def test_a_mask_of_floats_says_nothing_of_what_counts():
    data = model(
        [node("Concat", ["past", "x"], "present", axis=1), node("MatMul", ["mask", "present"], "y")],
        [value("past", F32, [1, "rows", 4]), value("x", F32, [1, 1, 4]), value("mask", F32, [1, "total"])],
        [value("y", F32, [1, 4]), value("present", F32, [1, "total", 4])],
    )
    with pytest.raises(compiler.ModelError, match="The mask 'mask' holds floats"):
        compiler.load(data, context=8)


def test_loading_holds_the_weights_once_beside_what_is_parsed(tmp_path):
    """The model is lowered for two numbers of rows, whose graphs share their constants, and is not made into bytes again."""
    weights = [(f"w{n}", np.full((1, 2, 1 << 15), n, np.float32)) for n in range(32)]
    sums = [node("Add", [f"s{n}", name], f"s{n + 1}") for n, (name, _) in enumerate(weights)]
    nodes = [node("Concat", ["past", "x"], "present", axis=1), node("MatMul", ["x", "turned"], "y"), *sums]
    nodes.insert(1, node("Transpose", ["present"], "turned", perm=[0, 2, 1]))
    path = tmp_path / "decoder.onnx"
    path.write_bytes(
        model(
            nodes,
            [value("past", F32, [1, "rows", 4]), value("x", F32, [1, 2, 4]), value("s0", F32, [1, 2, 1 << 15])],
            [value("s32", F32, [1, 2, 1 << 15]), value("present", F32, [1, "all", 4])],
            weights,
        )
    )
    size = sum(array.nbytes for _, array in weights)
    compiler.load(path, context=9)  # what is imported on the way counts nowhere
    tracemalloc.start()
    graph = compiler.load(path, context=9)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sum(array.nbytes for array in graph.constants.values()) >= size
    assert most < 1.25 * size


# -- in fewer bits -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("precision", "least"), [("float16", 45.0), ("int8", 20.0)])
def test_caches_are_kept_as_the_planes_read_them_and_their_error_is_reported(precision, least):
    data = growing_decoder(positions="shape")
    program = compiler.compile(loaded(data), precision=precision)
    kinds = {s.name: s.dtype for s in program.binary.states}
    assert {kind for name, kind in kinds.items() if name != "cache_length"} == {"f16"}
    session, reference, rng = compiler.Session(program.to_bytes()), Runtime(data), np.random.default_rng(4)
    signal = noise = 0.0
    for _ in range(CONTEXT):
        ids = rng.integers(0, VOCABULARY, (1, 1))
        outputs, counters = session.run({"input_ids": ids})
        assert counters == program.resources
        want = reference.step(ids).astype(np.float64)
        signal, noise = signal + (want**2).sum(), noise + ((want - outputs["logits"]) ** 2).sum()
    assert 10 * np.log10(signal / noise) > least
    assert program.report()["accuracy"]["outputs"]["logits"]["snr_db"] > least


def test_a_cache_is_converted_row_by_row():
    """What a step costs in vector cycles grows by what it reads, not by a conversion of all rows."""
    data = growing_decoder(positions="shape")
    short, long = (compiler.compile(loaded(data, context=n), precision="int8") for n in (16, 256))
    converted = [
        i
        for i in long.binary.rows
        if i.opcode not in (Op.LOADW, Op.MATMUL) and i.count1 * i.count2 >= 256 * HEADS * DEPTH
    ]
    assert not converted
    assert long.resources.storage.state < 256 * 2 * len(CACHES) * HEADS * DEPTH + 1024
    assert long.resources.cycles < 2 * short.resources.cycles


def test_calibration_begins_another_sequence_where_the_context_is_full():
    graph = loaded(growing_decoder(positions="shape"), context=4)
    feeds = [{"input_ids": np.array([[n % VOCABULARY]])} for n in range(11)]
    found = compiler.calibrate(graph, feeds, "int8")
    assert found.errors["int8"]["logits"]["snr_db"] > 15
