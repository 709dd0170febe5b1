"""Branches and states in other precisions."""

import numpy as np
import pytest
from onnx import helper

import compiler
from compiler.ir.verifier import verify
from compiler.passes import optimise
from compiler.precision.prepare import prepare
from tests.compiler.flow.decoder import decoder, states
from tests.compiler.flow.models import F32, SHAPE, arm, choice, feeds, model, nested_model, value


def products_in_branches():
    """Each branch multiplies by weights of its own; one factor is shared."""
    rng = np.random.default_rng(2)
    weights = [(f"w{n}", rng.standard_normal((8, 8)).astype(np.float32)) for n in range(2)]
    arms = [arm(n, [("Mul", k)]) for n, k in (("a", 1.5), ("b", 0.5))]
    for n, made in enumerate(arms):
        last = made.output[0].name
        made.node.append(helper.make_node("MatMul", [last, f"w{n}"], [f"p{n}"]))
        made.node.append(helper.make_node("MatMul", ["x", f"w{n}"], [f"q{n}"]))
        made.node.append(helper.make_node("Add", [f"p{n}", f"q{n}"], [f"r{n}"]))
        made.output[0].name = f"r{n}"
    nodes = [choice("pick", "c", "y", *arms)]
    return model(nodes, [value("c", 9), value("x", F32, SHAPE)], [value("y", F32, SHAPE)], weights)


@pytest.mark.parametrize("precision", ["float16", "int8"])
@pytest.mark.parametrize("data", [nested_model(), products_in_branches()], ids=["nested", "products"])
def test_branches_are_narrow_too(data, precision):
    graph = compiler.load(data)
    verify(prepare(optimise(graph), precision, None)[0])
    program, plain = (compiler.compile(graph, precision=p) for p in (precision, "float32"))
    for seed in range(2):
        feed = feeds(data, seed)
        (got, counters), (want, _) = (compiler.simulate(p.to_bytes(), feed) for p in (program, plain))
        for name in want:
            assert np.abs(got[name] - want[name]).max() <= 0.05 * np.abs(want[name]).max() + 1e-3
        assert counters.within(program.resources)


def test_a_decoder_keeps_its_caches_in_int8():
    graph = compiler.load(decoder(), dims={"cache": 16}, states=states())
    program, plain = (compiler.compile(graph, precision=p) for p in ("int8", "float32"))
    narrow, wide = compiler.Session(program.to_bytes()), compiler.Session(plain.to_bytes())
    noise = signal = 0.0
    for n in range(6):
        feed = {"token": np.array([3 * n]), "position": np.array([n])}
        (got, counters), (want, _) = narrow.run(feed), wide.run(feed)
        assert counters == program.resources
        signal += float((want["logits"] ** 2).sum())
        noise += float(((got["logits"] - want["logits"]) ** 2).sum())
    assert 10 * np.log10(signal / noise) > 20
