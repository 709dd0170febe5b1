"""Models whose course or whose sizes the data decides: those of ``models``, and the standard's operators of that kind."""

import numpy as np
from onnx import helper

from tests.compiler.flow.models import BOOL, F32, I64, model, value
from tests.compiler.flow.models import MODELS as COURSES


def non_zero():
    return model([helper.make_node("NonZero", ["x"], ["y"])], [value("x", F32, [3, 7])], [value("y", I64, [2, None])])


def compress():
    node = helper.make_node("Compress", ["x", "keep"], ["y"], axis=0)
    return model([node], [value("x", F32, [9, 4]), value("keep", BOOL, [9])], [value("y", F32, [None, 4])])


def unique():
    node = helper.make_node("Unique", ["x"], ["y"], sorted=1)
    return model([node], [value("x", F32, [12])], [value("y", F32, [None])])


def boxes():
    """The best boxes of one class, at most four."""
    node = helper.make_node("NonMaxSuppression", ["boxes", "scores", "most", "overlap", "least"], ["y"])
    constants = [("most", np.int64(4)), ("overlap", np.float32(0.4)), ("least", np.float32(0.1))]
    inputs = [value("boxes", F32, [1, 8, 4]), value("scores", F32, [1, 1, 8])]
    return model([node], inputs, [value("y", I64, [None, 3])], constants)


def count_then_choose():
    """How many elements are there decides which branch runs."""
    big = helper.make_graph([helper.make_node("Exp", ["x"], ["e"])], "big", [], [value("e", F32, [5, 6])])
    small = helper.make_graph(
        [
            helper.make_node("Mul", ["x", "x"], ["s0"]),
            helper.make_node("Tanh", ["s0"], ["s1"]),
            helper.make_node("MatMul", ["s1", "w"], ["s2"]),
        ],
        "small",
        [],
        [value("s2", F32, [5, 6])],
    )
    nodes = [
        helper.make_node("Greater", ["x", "zero"], ["p"]),
        helper.make_node("Cast", ["p"], ["q"], to=F32),
        helper.make_node("ReduceSum", ["q"], ["n"], keepdims=0),
        helper.make_node("Greater", ["n", "ten"], ["c"]),
        helper.make_node("If", ["c"], ["y"], name="which", then_branch=big, else_branch=small),
    ]
    constants = [("zero", np.float32(0)), ("ten", np.float32(10)), ("w", np.eye(6, dtype=np.float32))]
    return model(nodes, [value("x", F32, [5, 6])], [value("y", F32, [5, 6])], constants)


MODELS = {
    **COURSES,
    "count then choose": (count_then_choose(), {}),
    "non zero": (non_zero(), {}),
    "compress": (compress(), {}),
    "unique": (unique(), {}),
    "non max suppression": (boxes(), {}),
}
