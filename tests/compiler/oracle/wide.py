"""More small models through the whole compiler: every processor, every precision, and every instruction there is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from onnx import TensorProto, helper

import compiler
from compiler.isa.binary import Binary
from compiler.isa.element import NUMPY
from compiler.simulator import simulate
from tests.compiler.flow import models as flow
from tests.compiler.flow.bounded import non_zero
from tests.compiler.oracle import compiled
from tests.compiler.oracle.programs import Array, Sample

TARGETS = ("lpu", "lpu2", "systolic", "edge")
F32, I64 = TensorProto.FLOAT, TensorProto.INT64
EVERYWHERE = tuple((target, precision) for target in TARGETS for precision in ("float32", "float16", "int8"))


class Case(NamedTuple):
    """A model and what it is compiled for: (processor, precision) pairs."""

    model: Callable[[], bytes]
    places: tuple[tuple[str, str], ...]
    bounds: dict[str, int] = {}
    states: tuple[tuple[str, str], ...] = ()


def _values(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def heads() -> bytes:
    """Attention in three heads: small products side by side in one pass."""
    n = helper.make_node
    nodes = [
        n("MatMul", ["x", "w"], ["q"]),
        n("Reshape", ["q", "split"], ["h"]),
        n("Transpose", ["h"], ["left"], perm=[1, 0, 2]),
        n("Transpose", ["h"], ["right"], perm=[1, 2, 0]),
        n("MatMul", ["left", "right"], ["a"]),
        n("Softmax", ["a"], ["y"], axis=-1),
    ]
    constants = [("w", _values(1, 12, 12)), ("split", np.array([5, 3, 4]))]
    return flow.model(nodes, [flow.value("x", F32, [5, 12])], [flow.value("y", F32, [3, 5, 5])], constants)


def groups() -> bytes:
    """A convolution in groups and its sum with a depthwise one."""
    n = helper.make_node
    nodes = [
        n("Conv", ["x", "w"], ["g"], group=3, pads=[1, 1, 1, 1]),
        n("Conv", ["x", "v"], ["d"], group=6),
        n("Add", ["g", "d"], ["y"]),
    ]
    constants = [("w", _values(1, 6, 2, 3, 3)), ("v", _values(2, 6, 1, 1, 1))]
    return flow.model(nodes, [flow.value("x", F32, [1, 6, 4, 4])], [flow.value("y", F32, [1, 6, 4, 4])], constants)


def best() -> bytes:
    """The three largest of each row, and where they were."""
    nodes = [
        helper.make_node("TopK", ["x", "k"], ["v", "i"]),
        helper.make_node("Cast", ["i"], ["f"], to=F32),
        helper.make_node("Add", ["v", "f"], ["y"]),
    ]
    return flow.model(nodes, [flow.value("x", F32, [3, 9])], [flow.value("y", F32, [3, 3])], [("k", np.array([3]))])


def places() -> bytes:
    """Values added up at the places that an input names."""
    nodes = [helper.make_node("ScatterND", ["t", "i", "x"], ["y"], reduction="add")]
    inputs = [flow.value("i", I64, [5, 1]), flow.value("x", F32, [5, 4])]
    return flow.model(nodes, inputs, [flow.value("y", F32, [8, 4])], [("t", _values(1, 8, 4))], opset=18)


def recurrent() -> bytes:
    """A recurrent layer of two steps whose state stays on the processor."""
    node = helper.make_node("GRU", ["x", "w", "r", "b", "", "h"], ["seq", "last"], hidden_size=4)
    constants = [("w", _values(1, 1, 12, 3)), ("r", _values(2, 1, 12, 4)), ("b", _values(3, 1, 24))]
    inputs = [flow.value("x", F32, [2, 1, 3]), flow.value("h", F32, [1, 1, 4])]
    outputs = [flow.value("seq", F32, [2, 1, 1, 4]), flow.value("last", F32, [1, 1, 4])]
    return flow.model([node], inputs, outputs, constants)


def quantised() -> bytes:
    """A product of bytes as an int8 model carries it, with its own scales."""
    n = helper.make_node
    nodes = [
        n("QuantizeLinear", ["x", "s", "z"], ["q"]),
        n("DequantizeLinear", ["q", "s", "z"], ["d"]),
        n("DequantizeLinear", ["w", "t"], ["v"]),
        n("MatMul", ["d", "v"], ["y"]),
    ]
    weights = np.random.default_rng(1).integers(-127, 128, (20, 7)).astype(np.int8)
    constants = [("w", weights), ("s", np.float32(0.03)), ("t", np.float32(0.02)), ("z", np.uint8(120))]
    return flow.model(nodes, [flow.value("x", F32, [4, 20])], [flow.value("y", F32, [4, 7])], constants)


def wide() -> bytes:
    """Doubles: values of eight bytes through the vector units."""
    nodes = [helper.make_node("ReduceSum", ["x", "axes"], ["s"]), helper.make_node("Mul", ["x", "s"], ["y"])]
    kind = TensorProto.DOUBLE
    return flow.model(
        nodes, [flow.value("x", kind, [4, 9])], [flow.value("y", kind, [4, 9])], [("axes", np.array([1]))]
    )


_ALL32 = tuple((target, "float32") for target in TARGETS)
_ANY = (("lpu", "float32"), ("edge", "int8"), ("lpu2", "float16"), ("systolic", "float32"))
CASES: dict[str, Case] = {
    "dense": Case(compiled.dense, EVERYWHERE),
    "convolutions": Case(
        compiled.convolutions, (("systolic", "int8"), ("edge", "int8"), ("lpu", "int8"), ("lpu2", "float16"))
    ),
    "attention": Case(
        compiled.attention, (("lpu", "int8"), ("edge", "int8"), ("systolic", "int8"), ("lpu", "float16"))
    ),
    "words": Case(compiled.words, (("edge", "int8"), ("systolic", "float32"))),
    "heads": Case(heads, (*_ALL32, ("lpu", "int8"))),
    "groups": Case(groups, (*_ALL32, ("lpu", "int8"), ("edge", "int8"))),
    "best": Case(best, _ALL32),
    "places": Case(places, _ALL32),
    "recurrent": Case(recurrent, _ANY, states=(("h", "last"),)),
    "quantised": Case(quantised, (("lpu", "float32"), ("edge", "float32"), ("systolic", "float32"))),
    "wide": Case(wide, (("lpu", "float32"), ("edge", "float32"))),
    "non zero": Case(non_zero, _ALL32),
    "if": Case(lambda: flow.MODELS["if"][0], _ALL32),
    "nested": Case(lambda: flow.MODELS["nested"][0], (("lpu", "float32"), ("edge", "int8"))),
    "if in loop": Case(lambda: flow.MODELS["if in loop"][0], (("lpu2", "float32"), ("systolic", "float32"))),
    "early exit": Case(lambda: flow.MODELS["early exit"][0], (("lpu", "float32"),)),
}


def _feed(binary: Binary, seed: int) -> dict[str, Any]:
    """Normal numbers, truth values that differ from feed to feed, and small whole numbers."""
    rng = np.random.default_rng(seed)
    found = {}
    for port in binary.ports:
        if not port.output:
            dtype = NUMPY[port.host or port.dtype]
            values = rng.standard_normal(port.shape) if dtype.kind == "f" else rng.integers(0, 8, port.shape)
            found[port.name] = np.asarray(values if dtype.kind != "b" else values > 3, dtype)
    return found


def _made(name: str, case: Case, target: str, precision: str) -> Sample:
    graph = compiler.load(case.model(), states=case.states, bounds=case.bounds)
    binary = Binary.from_bytes(compiler.compile(graph, target=target, precision=precision).to_bytes())
    feeds = [_feed(binary, seed) for seed in (1, 2, 3)]
    return Sample(f"{name}-{target}-{precision}", binary, feeds, simulate(binary.to_bytes(), feeds)[0])


# Every case with each of its places: name, case, target, precision.
PLACED = [(name, case, *place) for name, case in CASES.items() for place in case.places]


def samples(every: int = 1) -> list[Sample]:
    """Every case (or one in ``every``) compiled for each of its places, with what the simulator gives for three feeds."""
    return [_made(*one) for one in PLACED[::every]]
