"""Real models mean the same after reading and optimising as in ONNX Runtime."""

import functools

import numpy as np
import onnxruntime
import pytest

from compiler.frontend import load, symbolic_dims
from compiler.ir.graph import Compute
from compiler.ir.interpreter import run
from compiler.ir.parse import parse
from compiler.ir.text import blobs, to_text
from compiler.ir.verifier import verify
from compiler.passes import optimise
from tests.models import CASES, light_model, model_bytes, sensible_feeds
from tests.tiers import some

TOLERANCE = 1e-3


@functools.cache
def loaded(case):
    data, dims = model_bytes(case)
    return load(data, dims)


def session(data):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(data, options)


def agree(graph, reference, feeds):
    expected = dict(zip([o.name for o in reference.get_outputs()], reference.run(None, feeds), strict=True))
    got = run(graph, feeds)
    assert list(got) == list(expected)
    for name, theirs in expected.items():
        ours = got[name]
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        if theirs.dtype.kind != "f":
            assert np.array_equal(ours, theirs), name
            continue
        assert np.isfinite(ours).all()
        assert np.abs(ours - theirs).max() <= TOLERANCE * np.abs(theirs).max(), name


LONG = ("minilm-64", "minilm-128")


@pytest.mark.parametrize("case", [pytest.param(c, marks=pytest.mark.thorough) if c in LONG else c for c in CASES])
def test_an_optimised_model_computes_what_onnx_runtime_computes(case):
    data, _ = model_bytes(case)
    graph = optimise(loaded(case), check=verify)
    reference = session(data)
    for seed in range(some(5)):
        agree(graph, reference, sensible_feeds(graph, seed))


@pytest.mark.parametrize("name", ["shufflenet", pytest.param("inception_v2", marks=pytest.mark.thorough)])
def test_other_networks_of_the_onnx_package_compute_the_same(name):
    model = light_model(name)
    graph = optimise(load(model))
    agree(graph, session(model.SerializeToString()), sensible_feeds(graph, 1))


@pytest.mark.parametrize("case", ["cls", "minilm-16"])
def test_the_text_form_holds_a_real_model(case):
    graph = optimise(loaded(case))
    assert parse(to_text(graph), blobs(graph)) == graph


def test_passes_do_for_real_models_what_they_are_for():
    counts = {case: len(optimise(loaded(case)).nodes) for case in ("squeezenet", "cls", "magika", "minilm-16")}
    assert counts == {"squeezenet": 43, "cls": 78, "magika": 18, "minilm-16": 72}
    squeezenet = optimise(loaded("squeezenet"))
    macs = sum(n.points * n.reduction for n in squeezenet.nodes if isinstance(n, Compute) and n.is_contraction)
    assert macs == 349_151_936


def test_every_operation_names_where_it_comes_from():
    data, dims = model_bytes("cls")
    graph = optimise(load(data, dims))
    sources = {s for node in graph.nodes for s in node.source}
    assert any("conv" in s.lower() for s in sources)
    assert graph.metadata["opset"] == "ai.onnx 11"
    assert graph.metadata["dims"] == "x.0=1, x.2=48, x.3=192"
    assert len(graph.metadata["sha256"]) == 64


def test_open_dimensions_are_listed_before_anything_is_compiled():
    data, dims = model_bytes("minilm-16")
    listed = symbolic_dims(data)
    assert set(listed) == set(dims)
    assert listed["sequence_length"] == ["input_ids[1]", "attention_mask[1]"]


def test_loading_twice_gives_the_same_graph():
    data, dims = model_bytes("magika")
    assert to_text(optimise(load(data, dims))) == to_text(optimise(load(data, dims)))
