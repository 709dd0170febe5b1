"""Small models whose course the data decides, built with the onnx package."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

SHAPE = [4, 8]
F32, I64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def value(name, kind=F32, shape=()):
    return helper.make_tensor_value_info(name, kind, list(shape))


def model(nodes, inputs, outputs, constants=(), opset=17):
    graph = helper.make_graph(
        nodes, "g", inputs, outputs, [numpy_helper.from_array(np.asarray(a), n) for n, a in constants]
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    return made.SerializeToString()


def arm(name, steps, shape=SHAPE):
    """A branch that applies (operator, literal) pairs to ``x``."""
    nodes, last = [], "x"
    for n, (kind, literal) in enumerate(steps):
        constant = numpy_helper.from_array(np.float32(literal), f"{name}k{n}")
        nodes += [
            helper.make_node("Constant", [], [f"{name}k{n}"], value=constant),
            helper.make_node(kind, [last, f"{name}k{n}"], [f"{name}{n}"]),
        ]
        last = f"{name}{n}"
    return helper.make_graph(nodes, name, [], [value(last, F32, shape)])


def choice(name, condition, output, yes, no):
    return helper.make_node("If", [condition], [output], name=name, then_branch=yes, else_branch=no)


def if_model(yes=(("Mul", 2.0),), no=(("Add", 1.0),)):
    nodes = [choice("outer", "c", "y", arm("a", yes), arm("b", no)), helper.make_node("Exp", ["y"], ["z"])]
    return model(nodes, [value("c", BOOL), value("x", F32, SHAPE)], [value("z", F32, SHAPE)])


def nested_model():
    """An If inside an If whose condition comes from outside, and one behind them on the same condition."""
    inner = choice("inner", "c2", "iy", arm("p", [("Mul", 3.0), ("Add", 1.0)]), arm("q", [("Sub", 4.0)]))
    outer = helper.make_graph([inner], "o", [], [value("iy", F32, SHAPE)])
    again = choice("again", "c", "w", arm("r", [("Mul", 0.5)]), arm("s", [("Add", 2.0)] * 3))
    nodes = [
        choice("outer", "c", "y", outer, arm("b", [("Add", 1.0)])),
        again,
        helper.make_node("Add", ["y", "w"], ["z"]),
    ]
    inputs = [value("c", BOOL), value("c2", BOOL), value("x", F32, SHAPE)]
    return model(nodes, inputs, [value("z", F32, SHAPE)])


def loop_model(trips=None, given=False):
    """Doubles ``x`` until its sum passes 100, at most ``trips`` times; with ``given`` the input ``m`` limits it too."""
    nodes = [
        helper.make_node("Add", ["v", "v"], ["v2"]),
        helper.make_node("ReduceSum", ["v2"], ["s"], keepdims=0),
        helper.make_node("Less", ["s", "hundred"], ["more"]),
    ]
    body = helper.make_graph(
        nodes,
        "body",
        [value("i", I64), value("on", BOOL), value("v", F32, SHAPE)],
        [value("more", BOOL), value("v2", F32, SHAPE)],
    )
    constants = [("hundred", np.float32(100))]
    if trips is not None and not given:
        constants.append(("m", np.int64(trips)))
    limit = "m" if given or trips is not None else ""
    loop = helper.make_node("Loop", [limit, "", "x"], ["y"], body=body, name="grow")
    inputs = [value("x", F32, SHAPE), *([value("m", I64)] if given else [])]
    return model([loop], inputs, [value("y", F32, SHAPE)], constants)


def loop_with_choice():
    """A loop of at most 5 trips with an If in its body."""
    body = helper.make_graph(
        [
            helper.make_node("ReduceMax", ["v"], ["top"], keepdims=0),
            helper.make_node("Greater", ["top", "two"], ["big"]),
            helper.make_node(
                "If",
                ["big"],
                ["v2"],
                name="step",
                then_branch=helper.make_graph(
                    [helper.make_node("Mul", ["v", "half"], ["t"])], "t", [], [value("t", F32, SHAPE)]
                ),
                else_branch=helper.make_graph(
                    [helper.make_node("Add", ["v", "two"], ["e"])], "e", [], [value("e", F32, SHAPE)]
                ),
            ),
            helper.make_node("ReduceMean", ["v2"], ["mean"], keepdims=0),
            helper.make_node("Less", ["mean", "two"], ["more"]),
        ],
        "body",
        [value("i", I64), value("on", BOOL), value("v", F32, SHAPE)],
        [value("more", BOOL), value("v2", F32, SHAPE)],
    )
    loop = helper.make_node("Loop", ["m", "c", "x"], ["y"], body=body, name="walk")
    constants = [("two", np.float32(2)), ("half", np.float32(0.5)), ("m", np.int64(5))]
    inputs = [value("c", BOOL), value("x", F32, SHAPE)]
    return model([loop], inputs, [value("y", F32, SHAPE)], constants)


MODELS = {
    "if": (if_model(), {}),
    "nested": (nested_model(), {}),
    "early exit": (loop_model(6), {}),
    "stated": (loop_model(), {"grow": 14}),
    "given": (loop_model(given=True), {"grow": 7}),
    "if in loop": (loop_with_choice(), {}),
}


def feeds(data, seed, scale=4.0):
    """Seeded feeds of a model by the types of its inputs."""
    from onnx import load_from_string

    rng = np.random.default_rng(seed)
    made = {}
    for port in load_from_string(data).graph.input:
        kind = port.type.tensor_type
        shape = [d.dim_value for d in kind.shape.dim]
        if kind.elem_type == BOOL:
            made[port.name] = rng.random(shape) < 0.5
        elif kind.elem_type == I64:
            made[port.name] = rng.integers(0, 8, shape)
        else:
            made[port.name] = (rng.random(shape) * rng.random() * scale).astype(np.float32)
    return {name: np.asarray(array) for name, array in made.items()}
