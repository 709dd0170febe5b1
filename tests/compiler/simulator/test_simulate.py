"""Running programs: feeds, outputs, state, counters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from compiler import targets
from compiler.errors import ModelError
from compiler.isa.resources import Resources
from compiler.simulator import SimulationError, chrome_trace, simulate, timeline
from tests.compiler.oracle.programs import accumulator, convolution, embedding, product, softmax

PRODUCT = product()
DATA = PRODUCT.binary.to_bytes()


def test_one_feed_gives_one_output_and_a_list_gives_a_list() -> None:
    single, alone = simulate(DATA, PRODUCT.feeds[0])
    several, together = simulate(DATA, PRODUCT.feeds)
    np.testing.assert_array_equal(single["y"], several[0]["y"])
    assert len(several) == 2
    assert alone == together


def test_outputs_have_the_models_own_types_and_shapes() -> None:
    outputs, _ = simulate(DATA, PRODUCT.feeds[0])
    assert outputs["y"].dtype == np.float32
    assert outputs["y"].shape == (6, 9)


def test_the_same_program_gives_the_same_bits_again() -> None:
    first, second = (simulate(DATA, PRODUCT.feeds)[0][1]["y"].tobytes() for _ in range(2))
    assert first == second


def test_state_stays_from_one_inference_to_the_next_but_not_from_run_to_run() -> None:
    sample = accumulator()
    outputs, _ = simulate(sample.binary.to_bytes(), sample.feeds)
    start = np.arange(30, dtype="f4")
    np.testing.assert_array_equal(outputs[0]["y"], start + sample.feeds[0]["x"])
    np.testing.assert_array_equal(outputs[1]["y"], outputs[0]["y"] + sample.feeds[1]["x"])
    again, _ = simulate(sample.binary.to_bytes(), sample.feeds[1])
    np.testing.assert_array_equal(again["y"], start + sample.feeds[1]["x"])


def test_inferences_overlap_at_a_shorter_interval_until_they_collide() -> None:
    sample = convolution()
    shorter = replace(sample.binary, interval=sample.binary.interval - 20)
    outputs, counters = simulate(shorter.to_bytes(), sample.feeds * 3)
    np.testing.assert_allclose(outputs[5]["y"], sample.expected[1]["y"], rtol=1e-5, atol=1e-5)
    assert counters.interval == sample.binary.interval - 20
    assert counters.cycles == sample.binary.latency
    with pytest.raises(SimulationError):
        simulate(replace(sample.binary, interval=10).to_bytes(), sample.feeds)


def test_counters_are_those_of_the_formula_by_hand() -> None:
    _, counters = simulate(DATA, PRODUCT.feeds[0])
    assert counters.operations == 2 * 6 * 20 * 9 + 3 * 6 * 9
    assert (counters.io.bytes_in, counters.io.bytes_out) == (6 * 20 * 4 + 6 * 9 * 4, 6 * 9 * 4)
    weights, bias = 20 * 9 * 4, 9 * 4
    assert counters.memory.read == weights + 6 * 20 * 4 + bias + 6 * 9 * 4 + 6 * 9 * 4
    assert counters.memory.written == 6 * 20 * 4 + 6 * 9 * 4 + 6 * 9 * 4
    assert counters.storage.total == sum(
        getattr(counters.storage, name) for name in ("weights", "activations", "state", "instructions", "scratch")
    )
    assert Resources.from_json(counters.to_json()) == counters


def test_softmax_counts_reductions_and_maps() -> None:
    _, counters = simulate(softmax().binary.to_bytes(), softmax().feeds[0])
    assert counters.operations == 5 * 12 * (1 + 2 + 1 + 1)


@pytest.mark.parametrize(
    ("feed", "message"),
    [
        ({}, "input 'x' is missing; input 'r' is missing"),
        ({"x": PRODUCT.feeds[0]["x"]}, "input 'r' is missing"),
        (PRODUCT.feeds[0] | {"z": np.zeros(3)}, "there is no input 'z'"),
        (
            PRODUCT.feeds[0] | {"x": np.zeros((6, 21), "f4")},
            r"input 'x' has shape \[6, 21\], the program takes \[6, 20\]",
        ),
        (PRODUCT.feeds[0] | {"x": np.zeros((6, 20))}, "input 'x' is float64, the program takes float32"),
    ],
)
def test_a_wrong_feed_is_told_what_is_wrong(feed: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        simulate(DATA, feed)
    with pytest.raises(ModelError, match=f"feed 1: .*{message}"):
        simulate(DATA, [PRODUCT.feeds[0], feed])


def test_no_feed_at_all_is_refused() -> None:
    with pytest.raises(ModelError, match="at least one feed"):
        simulate(DATA, [])


def test_feeds_in_any_memory_order_and_byte_order_are_taken() -> None:
    feed = PRODUCT.feeds[0]
    turned = {"x": np.asfortranarray(feed["x"]), "r": feed["r"].astype(">f4")}
    np.testing.assert_array_equal(simulate(DATA, turned)[0]["y"], simulate(DATA, feed)[0]["y"])


def test_another_description_of_the_target_is_refused() -> None:
    with pytest.raises(ModelError, match="compile the model again"):
        simulate(replace(PRODUCT.binary, target_digest="0" * 64).to_bytes(), PRODUCT.feeds[0])
    with pytest.raises(ModelError, match="no target 'other'"):
        simulate(replace(PRODUCT.binary, target="other").to_bytes(), PRODUCT.feeds[0])


def test_a_program_larger_than_memory_is_refused_with_the_gap() -> None:
    memory = replace(PRODUCT.binary.memory, activations=230_686_720)
    with pytest.raises(ModelError, match=r"needs \d+ bytes of memory, \d+ more than lpu has"):
        simulate(replace(PRODUCT.binary, memory=memory).to_bytes(), PRODUCT.feeds[0])


def test_an_index_outside_its_dimension_is_a_fault_with_its_value() -> None:
    sample = embedding()
    for bad in (7, -8, 2**62):
        with pytest.raises(SimulationError, match=f"index {bad} is outside a dimension of 7"):
            simulate(sample.binary.to_bytes(), {"ids": np.array([0, 1, bad, 2, 3], "i8")})


def test_the_timeline_names_every_instruction_and_opens_in_trace_viewers() -> None:
    events = timeline(DATA)
    assert [e.operation for e in events] == [
        "RECV",
        "LOADW",
        "LOADW",
        "RECV",
        "MATMUL",
        "MATMUL",
        "SEND",
    ]
    assert max(e.end for e in events) == PRODUCT.binary.latency
    assert events[-1].source == "beta"
    trace = chrome_trace(DATA)
    spans = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert len(spans) == len(events)
    assert spans[-1]["args"]["cycle"] == events[-1].start
    clock = targets.load("lpu").clock_hz
    assert spans[-1]["ts"] == pytest.approx(events[-1].start / clock * 1e6)
