"""What a model calls its operations and values changes nothing but names in the program."""

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import compiler
from compiler import targets
from compiler.ir.types import DType, TensorType
from compiler.passes.rewriter import Rewriter
from tests.compiler.checks import binary_of
from tests.compiler.flow import bounded, models
from tests.compiler.flow.decoder import decoder
from tests.compiler.graphs import graphs
from tests.compiler.passes.test_row_tiling import transformer
from tests.compiler.renaming import nameless, read, renamed
from tests.models import light_model, model_bytes
from tests.tiers import some

LARGE_SEED = 1 << 30


def compiled(graph, precision="float32", target="lpu", **more):
    return nameless(read(compiler.compile(graph, target, precision, **more)))


@settings(max_examples=some(300), deadline=None)
@given(graphs(), st.integers(0, LARGE_SEED), st.sampled_from(["lpu", "edge"]))
def test_any_graph_compiles_to_the_same_under_other_names(graph, seed, target):
    other, _ = renamed(graph, seed)
    assert compiled(graph, target=target) == compiled(other, target=target)


@settings(max_examples=some(24), deadline=None)
@given(graphs(), st.integers(0, LARGE_SEED))
def test_any_graph_is_planned_the_same_without_passes(graph, seed):
    other, _ = renamed(graph, seed)
    target = targets.load("lpu")
    assert nameless(binary_of(graph, target)[1]) == nameless(binary_of(other, target)[1])


def attention():
    return compiler.load(transformer(4 * 16, 4, 24, 2, masked=True, wide=2))


FLOW = {
    "attention": attention,
    "lookup": lambda: compiler.load(transformer(64, 4, 24, 1, words=30)),
    "if": lambda: compiler.load(models.if_model()),
    "nested": lambda: compiler.load(models.nested_model()),
    "loop": lambda: compiler.load(models.loop_with_choice()),
    "non_zero": lambda: compiler.load(bounded.non_zero()),
    "decoder": lambda: compiler.load(decoder(), dims={"cache": 16}),
    "digits": lambda: compiler.load("samples/digits-small.onnx"),
    "squeezenet": lambda: compiler.load(light_model("squeezenet").SerializeToString()),
}


@pytest.mark.parametrize("name", FLOW)
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_networks_compile_to_the_same_under_other_names(name, precision):
    graph = FLOW[name]()
    want = compiled(graph, precision)
    for seed in range(some(4)):
        assert compiled(renamed(graph, seed)[0], precision) == want


def test_a_model_with_names_that_look_like_parts_compiles_to_the_same():
    """Names in the file itself, before the compiler gives any of its own."""
    data, dims = model_bytes("minilm-16")
    model = onnx.load_from_string(data)
    for number, node in enumerate(model.graph.node):
        node.name = f"layer~strip{number % 3}~group{number % 2}"
        if number % 5 == 0:
            node.name += f"~band{number}"
    want = compiled(compiler.load(data, dims=dims), "int8")
    assert compiled(compiler.load(model.SerializeToString(), dims=dims), "int8") == want


def test_a_rewriter_never_gives_a_name_that_is_taken():
    graph = compiler.load("samples/digits-small.onnx")
    writer = Rewriter(graph)
    kind = TensorType(DType.F32, (2,))
    taken = {*graph.types}
    for base in [*graph.types, "a", "a", "a'2", "a"]:
        name = writer.value(base, kind)
        assert name not in taken
        taken.add(name)
    assert writer.constant("a", np.zeros(2, np.float32)) not in taken
    nodes = {node.name for node in graph.nodes}
    assert not nodes & {writer.name(name) for name in nodes}
