"""Variables that stay on the processor: recurrent state, caches, generation token by token."""

import numpy as np
import onnxruntime
import pytest
from onnx import helper

import compiler
from compiler.bundle import Bundle
from compiler.isa.instruction import Op
from compiler.sessions import fitted, move
from tests.compiler.flow.decoder import DEPTH, HEADS, decoder, greedy, states
from tests.compiler.flow.models import F32, model, value
from tests.models import model_bytes

SIZES = [16, 64, 256]


@pytest.fixture(scope="module")
def data():
    return decoder()


@pytest.fixture(scope="module")
def bundle(data):
    return compiler.compile(compiler.load(data, dims={"cache": SIZES}, states=states()))


class Runtime:
    """ONNX Runtime with explicit caches of one length."""

    def __init__(self, data, cache):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(data, options)
        self.caches = {past: np.zeros((HEADS, cache, DEPTH), np.float32) for past, _ in states()}

    def step(self, token, position):
        logits, *rest = self.session.run(None, {"token": token, "position": position, **self.caches})
        self.caches = dict(zip(self.caches, rest, strict=True))
        return logits


def test_a_decoder_generates_as_onnx_runtime_does_and_every_token_costs_what_was_promised(data, bundle):
    program, reference = bundle.programs[0], Runtime(data, SIZES[0])
    session = compiler.Session(program.to_bytes())
    assert program.resources.exact

    def step(token, position):
        outputs, counters = session.run({"token": token, "position": position})
        assert counters == program.resources
        assert outputs["logits"].shape == (1, 40)
        np.testing.assert_allclose(outputs["logits"], reference.step(token, position), atol=1e-4)
        for name, array in session.state.items():
            np.testing.assert_allclose(array, reference.caches[name], atol=1e-4)
        return outputs["logits"]

    tokens = greedy(step, [3, 1, 4], 10)
    assert len(set(tokens)) > 3
    assert tokens == greedy(Runtime(data, SIZES[0]).step, [3, 1, 4], 10)


def test_caches_are_neither_sent_nor_copied(bundle):
    for size, program in zip(SIZES, bundle.programs, strict=True):
        resources = program.resources
        assert resources.storage.state == len(states()) * -(-HEADS * size * DEPTH * 4 // 320) * 320
        assert (resources.io.bytes_in, resources.io.bytes_out) == (16, 160)
        written = sum(1 for i in program.binary.rows if i.opcode == Op.SCATTER)
        assert written == len(states()), "each cache is written by one instruction, where it lies"
        assert not any(i.opcode == Op.MOVE and i.count1 * i.count2 >= HEADS * size * DEPTH for i in program.binary.rows)


def test_the_price_of_a_token_is_that_of_its_bucket(bundle):
    cycles = dict(zip(SIZES, (program.resources.cycles for program in bundle.programs), strict=True))
    assert cycles[16] < cycles[256]
    for length in (1, 16, 17, 64, 65, 256):
        least = min(count for size, count in cycles.items() if size >= length)
        assert bundle.program_for(cache=length).resources.cycles == least


def test_steps_at_the_interval_respect_the_caches(bundle):
    program = bundle.programs[0]
    assert program.resources.interval <= program.resources.cycles
    feeds = [{"token": np.array([n]), "position": np.array([n])} for n in range(6)]
    outputs, counters = compiler.simulate(program.to_bytes(), feeds)
    assert counters == program.resources
    session = compiler.Session(program.to_bytes())
    for feed, output in zip(feeds, outputs, strict=True):
        np.testing.assert_array_equal(session.run(feed)[0]["logits"], output["logits"])


def test_a_sequence_that_outgrows_a_bucket_takes_its_caches_along(data, bundle):
    reference, session = Runtime(data, SIZES[-1]), bundle.session()
    seen = []

    def step(token, position):
        outputs, counters = session.run({"token": token, "position": position}, int(position[0]) + 1)
        assert counters == session.program.resources
        seen.append(session.program)
        np.testing.assert_allclose(outputs["logits"], reference.step(token, position), atol=1e-4)
        return outputs["logits"]

    greedy(step, [5, 2], 19 if bundle.program_for(cache=1) is bundle.programs[0] else 70)
    small, large = dict.fromkeys(seen)
    before, after = (SIZES[bundle.programs.index(p)] for p in (small, large))
    assert before < after
    expected = move(small, large)
    assert session.moves == [expected]
    row = len(states()) * HEADS * DEPTH * 4
    assert (expected.bytes_out, expected.bytes_in) == (row * before, row * after)
    assert expected.cycles == row * before // 32 + row * after // 32 + 32
    session.run({"token": np.array([1]), "position": np.array([0])}, 1)
    assert session.program is large, "what is kept does not fit a smaller bucket again"


def test_variables_survive_as_bytes(bundle):
    data = bundle.programs[0].to_bytes()
    feeds = [{"token": np.array([n]), "position": np.array([n])} for n in range(4)]
    whole = compiler.Session(data)
    expected = [whole.run(feed)[0]["logits"] for feed in feeds]
    first = compiler.Session(data)
    for feed in feeds[:2]:
        first.run(feed)
    second = compiler.Session(data, first.save())
    third = compiler.Session(data, first.state)
    for feed, want in zip(feeds[2:], expected[2:], strict=True):
        np.testing.assert_array_equal(second.run(feed)[0]["logits"], want)
        np.testing.assert_array_equal(third.run(feed)[0]["logits"], want)
    with pytest.raises(compiler.ModelError, match="not the variables of this program"):
        compiler.Session(bundle.programs[1].to_bytes(), first.save())
    with pytest.raises(compiler.ModelError, match=r"state 'past_k0' is .* the program keeps"):
        compiler.Session(data, {"past_k0": np.zeros((1, 2), np.float32)})
    with pytest.raises(compiler.ModelError, match="there is no state 'k'"):
        compiler.Session(data, {"k": np.zeros((1, 2), np.float32)})


def test_a_bundle_keeps_its_states_in_its_bytes(bundle):
    assert Bundle.from_bytes(bundle.to_bytes()).programs == bundle.programs


# -- names and first values -------------------------------------------------------------------------------------------


def counter_model():
    """``total`` grows by ``x``; ``old`` is what it was the time before."""
    nodes = [
        helper.make_node("Add", ["total", "x"], ["next"]),
        helper.make_node("Identity", ["total"], ["before"]),
        helper.make_node("Sub", ["next", "old"], ["y"]),
    ]
    shape = [3, 5]
    inputs = [value(n, F32, shape) for n in ("x", "total", "old")]
    return model(nodes, inputs, [value(n, F32, shape) for n in ("y", "next", "before")])


def test_a_state_may_become_another_states_old_value():
    first = np.full((3, 5), 7, np.float32)
    pairs = [("total", "next", first), ("old", "before")]
    program = compiler.compile(compiler.load(counter_model(), states=pairs))
    assert {p.name for p in program.binary.ports} == {"x", "y"}
    feeds = [{"x": np.full((3, 5), k, np.float32)} for k in (1, 2, 3, 4)]
    outputs, counters = compiler.simulate(program.to_bytes(), feeds)
    assert counters == program.resources
    total, old = first, np.zeros_like(first)
    for feed, output in zip(feeds, outputs, strict=True):
        following = total + feed["x"]
        np.testing.assert_array_equal(output["y"], following - old)
        total, old = following, total


def test_states_exchange_their_values():
    nodes = [
        helper.make_node("Identity", ["a"], ["b2"]),
        helper.make_node("Identity", ["b"], ["a2"]),
        helper.make_node("Add", ["a", "x"], ["y"]),
    ]
    data = model(nodes, [value(n, F32, [4]) for n in "xab"], [value(n, F32, [4]) for n in ("y", "a2", "b2")])
    pairs = [("a", "a2", np.ones(4, np.float32)), ("b", "b2", np.full(4, 5, np.float32))]
    program = compiler.compile(compiler.load(data, states=pairs))
    outputs, _ = compiler.simulate(program.to_bytes(), [{"x": np.zeros(4, np.float32)}] * 4)
    assert [float(o["y"][0]) for o in outputs] == [1, 5, 1, 5]


def test_recurrent_state_stays_between_calls():
    hidden, rng = 4, np.random.default_rng(1)
    constants = [
        ("w", rng.standard_normal((1, 4 * hidden, 3)).astype(np.float32)),
        ("r", rng.standard_normal((1, 4 * hidden, hidden)).astype(np.float32)),
    ]
    lstm = helper.make_node("LSTM", ["x", "w", "r", "", "", "h", "c"], ["y", "hn", "cn"], hidden_size=hidden)
    shapes = {"x": [2, 1, 3], "h": [1, 1, hidden], "c": [1, 1, hidden]}
    outputs = [value("y", F32, [2, 1, 1, hidden]), value("hn", F32, shapes["h"]), value("cn", F32, shapes["c"])]
    data = model([lstm], [value(n, F32, s) for n, s in shapes.items()], outputs, constants)
    session = compiler.Session(compiler.compile(compiler.load(data, states=[("h", "hn"), ("c", "cn")])).to_bytes())
    reference = onnxruntime.InferenceSession(data)
    kept = {n: np.zeros(shapes[n], np.float32) for n in "hc"}
    for _ in range(4):
        x = rng.standard_normal(shapes["x"]).astype(np.float32)
        want, kept["h"], kept["c"] = reference.run(None, {"x": x, **kept})
        got, _ = session.run({"x": x})
        np.testing.assert_allclose(got["y"], want, atol=1e-5)


def test_a_voice_detector_listens_piece_by_piece():
    data, dims = model_bytes("silero")
    program = compiler.compile(compiler.load(data, dims=dims, states=[("state", "stateN")]))
    session, reference = compiler.Session(program.to_bytes()), onnxruntime.InferenceSession(data)
    kept = np.zeros((2, 1, 128), np.float32)
    time, rng = np.arange(576) / 16_000, np.random.default_rng(3)
    for n in range(5):
        x = (0.3 * np.sin(2 * np.pi * (120 + 60 * n) * time) + 0.1 * rng.standard_normal(576)).astype(np.float32)[None]
        got, counters = session.run({"input": x})
        want, kept = reference.run(None, {"input": x, "state": kept})
        assert counters == program.resources
        np.testing.assert_allclose(got["output"], want, atol=1e-4)
        np.testing.assert_allclose(session.state["state"], kept, atol=1e-4)


@pytest.mark.parametrize(
    ("pairs", "why"),
    [
        ([("past", "next")], r"no input 'past' to make a state of; it has 'x', 'total', 'old'"),
        ([("total", "after")], r"no output 'after'"),
        ([("total", "next"), ("total", "before")], r"'total' is named by two states"),
        ([("total", "next", np.zeros(3, np.float32))], r"first value of state 'total' is float32\[3\]"),
    ],
)
def test_states_that_make_no_sense_are_refused(pairs, why):
    with pytest.raises(compiler.ModelError, match=why):
        compiler.load(counter_model(), states=pairs)


def test_a_state_becomes_something_of_its_own_type():
    data = model(
        [helper.make_node("Concat", ["past", "x"], ["present"], axis=0), helper.make_node("Exp", ["x"], ["y"])],
        [value("past", F32, [4]), value("x", F32, [1])],
        [value("present", F32, [5]), value("y", F32, [1])],
    )
    with pytest.raises(
        compiler.ModelError, match=r"'past', which is f32\[4\], and becomes 'present', which is f32\[5\]"
    ):
        compiler.load(data, states=[("past", "present")])


# -- buckets ------------------------------------------------------------------------------------------------------------


def test_a_job_runs_in_the_cheapest_bucket_that_holds_all_its_sizes():
    node = helper.make_node("Exp", ["x"], ["y"])
    data = model([node], [value("x", F32, ["rows", "columns"])], [value("y", F32, ["rows", "columns"])])
    sizes = {"rows": [2, 90], "columns": [30, 4, 200]}
    bundle = compiler.compile(compiler.load(data, dims=sizes))
    assert len(bundle.programs) == 6
    for rows in (1, 2, 3, 90):
        for columns in (1, 4, 5, 30, 31, 200):
            holding = [
                program.resources.cycles
                for dims, program in zip(bundle.dims, bundle.programs, strict=True)
                if dims["rows"] >= rows and dims["columns"] >= columns
            ]
            assert bundle.program_for(rows=rows, columns=columns).resources.cycles == min(holding)
    with pytest.raises(compiler.ModelError, match="no bucket holds"):
        bundle.program_for(rows=91, columns=1)
    with pytest.raises(compiler.ModelError, match="name the dimension: rows, columns"):
        bundle.program_for(3)


def test_values_keep_their_places_in_a_larger_variable():
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    larger = fitted(array, (2, 5))
    np.testing.assert_array_equal(larger[:, :3], array)
    assert not larger[:, 3:].any()


@pytest.mark.parametrize("target", ["lpu", "edge"])
@pytest.mark.parametrize("objective", ["balanced", "latency", "interval"])
def test_a_state_that_is_read_late_where_it_was_changed_is_not_changed_by_the_next_inference(target, objective):
    nodes = [helper.make_node("ScatterElements", ["s", "where", "new"], ["t"], axis=0)]
    nodes.append(helper.make_node("MatMul", ["x", "w0"], ["h0"]))
    for n in range(4):
        nodes.append(helper.make_node("Relu", [f"h{n}"], [f"r{n}"]))
        nodes.append(helper.make_node("MatMul", [f"r{n}", f"w{n + 1}"], [f"h{n + 1}"]))
    nodes.append(helper.make_node("MatMul", ["h4", "t"], ["y"]))
    weights = [(f"w{n}", np.random.default_rng(n).standard_normal((8, 8)).astype(np.float32)) for n in range(5)]
    inputs = [value("s", F32, [8, 4]), value("where", 7, [1, 4]), value("new", F32, [1, 4]), value("x", F32, [2, 8])]
    data = model(nodes, inputs, [value("y", F32, [2, 4]), value("t", F32, [8, 4])], weights)
    program = compiler.compile(compiler.load(data, states=[("s", "t")]), target, objective=objective).to_bytes()
    rng = np.random.default_rng(0)

    def feed():
        new, x = (rng.standard_normal(shape).astype(np.float32) for shape in ((1, 4), (2, 8)))
        return {"where": rng.integers(0, 8, (1, 4)), "new": new, "x": x}

    feeds = [feed() for _ in range(6)]
    session = compiler.Session(program)
    together, _ = compiler.simulate(program, feeds)
    for one, got in zip(feeds, together, strict=True):
        np.testing.assert_array_equal(session.run(one)[0]["y"], got["y"])
