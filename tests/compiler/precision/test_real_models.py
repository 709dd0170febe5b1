"""A recurrent model of real speech frames keeps its signal in int8 and float16; one with int8 weights runs as it is."""

import numpy as np
import onnxruntime
import pytest

import compiler
from benchmarks.feeds import representative
from compiler.frontend import load
from compiler.ir.interpreter import run
from compiler.passes import optimise
from tests.models import model_bytes


def reference(data, feeds):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    return [dict(zip(names, session.run(None, feed), strict=True)) for feed in feeds]


@pytest.mark.parametrize(
    ("precision", "least"), [("int8", 20.0), pytest.param("float16", 45.0, marks=pytest.mark.thorough)]
)
def test_sixteen_frames_of_sound_keep_their_signal(precision, least):
    data, dims = model_bytes("silero")
    graph = compiler.load(data, dims=dims)
    program = compiler.compile(graph, precision=precision, calibration=representative("silero", graph, 16, first=16))
    feeds = representative("silero", graph)
    signal, noise = {}, {}
    for feed, expected in zip(feeds, reference(data, feeds), strict=True):
        outputs, counters = compiler.simulate(program.to_bytes(), feed)
        assert counters == program.resources
        for name, theirs in expected.items():
            signal[name] = signal.get(name, 0.0) + float((theirs.astype("f8") ** 2).sum())
            noise[name] = noise.get(name, 0.0) + float(((outputs[name].astype("f8") - theirs) ** 2).sum())
    for name, power in signal.items():
        assert 10 * np.log10(power / noise[name]) >= least
    assert set(program.report()["accuracy"]["outputs"]) == set(signal)


def test_a_model_with_int8_weights_runs_as_it_is():
    data, dims = model_bytes("minilm-int8")
    graph = optimise(load(data, dims | {"sequence": 16}))
    feed = representative("minilm-int8", graph, 1)[0]
    for name, theirs in reference(data, [feed])[0].items():
        assert np.abs(run(graph, feed)[name] - theirs).max() <= 1e-3 * np.abs(theirs).max()
