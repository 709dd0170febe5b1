"""A bundle of a prefill and a step program: one image of weights, one set of caches, a price for each token."""

import numpy as np
import pytest

import compiler
from compiler.__main__ import main
from compiler.bundle import SHARED, Bundle, read_programs
from tests.compiler.flow.growing import VOCABULARY, growing_decoder
from tests.compiler.flow.test_caches import Runtime

CONTEXT, PREFILL = 40, 8


@pytest.fixture(scope="module")
def data():
    return growing_decoder(positions="shape")


@pytest.fixture(scope="module", params=["float32", "int8"])
def bundle(request, data):
    graphs = compiler.load(data, {"batch": 1, "sequence": [1, PREFILL]}, context=CONTEXT)
    return compiler.compile(graphs, precision=request.param)


def test_prefills_and_steps_take_turns_on_one_sequence(data, bundle):
    session, reference, rng = bundle.session(), Runtime(data), np.random.default_rng(5)
    signal = noise = 0.0
    for count in (PREFILL, PREFILL, 1, 1, PREFILL, 1, 1, 1):
        ids = rng.integers(0, VOCABULARY, (1, count))
        outputs, counters = session.run({"input_ids": ids}, sequence=count)
        assert session.program is bundle.program_for(sequence=count)
        assert counters == session.program.resources
        want = reference.step(ids).astype(np.float64)
        signal, noise = signal + (want**2).sum(), noise + ((want - outputs["logits"]) ** 2).sum()
    assert 10 * np.log10(signal / noise) > (
        100 if bundle.programs[0].report()["headline"]["precision"] == "float32" else 20
    )
    assert session.moves == [], "caches lie where they lay"


def test_weights_and_caches_lie_at_the_same_addresses(bundle):
    step, prefill = (program.binary for program in bundle.programs)
    assert step.constants == prefill.constants
    assert [(s.name, s.base, s.dtype) for s in step.states] == [(s.name, s.base, s.dtype) for s in prefill.states]
    assert step.memory.constants == prefill.memory.constants == len(step.constants)


def test_the_bytes_hold_the_shared_weights_once(bundle):
    held = bundle.to_bytes()
    assert held[: len(SHARED)] == SHARED
    apart = sum(len(program.to_bytes()) for program in bundle.programs)
    assert len(held) < apart - len(bundle.shared_constants) + 1024
    assert read_programs(held).programs == bundle.programs
    with pytest.raises(compiler.ModelError, match="not a bundle"):
        Bundle.from_bytes(held[:-3])


def test_shared_float32_weights_take_no_more_than_one_program(data):
    graphs = compiler.load(data, {"batch": 1, "sequence": [1, PREFILL]}, context=CONTEXT)
    together = compiler.compile(graphs)
    alone = max(len(compiler.compile(graph).binary.constants) for graph in graphs.graphs)
    assert len(together.shared_constants) < 1.02 * alone


def test_the_report_prices_a_prefill_and_a_decode_token(bundle):
    step, prefill = (program.report()["sequence"] for program in bundle.programs)
    assert (step["kind"], step["tokens"], step["context"]) == ("decode", 1, CONTEXT)
    assert (prefill["kind"], prefill["tokens"], prefill["context"]) == ("prefill", PREFILL, CONTEXT)
    assert float(step["cycles_per_token"]) == bundle.programs[0].resources.cycles
    assert float(prefill["cycles_per_token"]) == pytest.approx(bundle.programs[1].resources.cycles / PREFILL, abs=0.06)
    assert float(prefill["cycles_per_token"]) < float(step["cycles_per_token"])
    assert step["link_bytes_per_token"] == f"{8 + 4 * VOCABULARY:.1f}"


def test_a_program_that_continues_no_sequence_has_no_price_of_a_token(data):
    program = compiler.compile(compiler.load(data, {"batch": 1, "sequence": 1, "past": 3, "total": 4}))
    assert program.report()["sequence"] == {}


def test_the_command_line_prices_a_decode_token(data, tmp_path, capsys):
    path = tmp_path / "decoder.onnx"
    path.write_bytes(data)
    sizes = ["--dim", "batch=1", "--dim", "sequence=1", "--context", str(CONTEXT)]
    assert main(["report", str(path), *sizes]) == 0
    assert "decode token" in capsys.readouterr().out
    assert main(["report", str(path), *sizes, "--cache", "past_k0=present_v0"]) != 0
    assert "'present_v0' is not 'past_k0' with new rows behind it" in capsys.readouterr().err
    assert main(["report", str(path), "--dim", "batch=1", "--cache", "past_k0=present_k0"]) != 0
    assert "named without a context" in capsys.readouterr().err
