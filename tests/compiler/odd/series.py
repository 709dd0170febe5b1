"""Draws of operators over time and space: recurrent layers, attention, resizing, sampling, transforms, loops and branches."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from tests.compiler.odd.draft import Draft, Unfit

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
CELLS = ("Tanh", "Sigmoid", "Relu", "HardSigmoid", "LeakyRelu", "Elu", "Softsign")


def recurrent(d: Draft) -> None:
    kind = d.one(*GATES)
    gates, hidden, width = GATES[kind], d.whole(1, 4), d.whole(1, 4)
    steps, batch = d.whole(1, 4), d.whole(1, 3)
    way = d.one("forward", "reverse", "bidirectional")
    ways = 2 if way == "bidirectional" else 1
    layout = 1 if d.opset >= 14 and d.chance(0.15) else 0
    x = d.input(d.array((batch, steps, width) if layout else (steps, batch, width)) / np.float32(2))
    w, r = (d.either((d.array((ways, gates * hidden, n)) / 2).astype(np.float32)) for n in (width, hidden))
    b = d.either(d.array((ways, 2 * gates * hidden))) if d.chance(0.7) else ""
    lengths = d.either(d.rng.integers(1, steps + 1, batch).astype(np.int32)) if d.chance(0.4) else ""
    first = (batch, ways, hidden) if layout else (ways, batch, hidden)
    more = [d.input(d.array(first)) if d.chance() else "" for _ in range(2 if kind == "LSTM" else 1)]
    inputs = [x, w, r, b, lengths, *more]
    if kind == "LSTM" and d.chance(0.3):
        inputs.append(d.const(d.array((ways, 3 * hidden))))
    while not inputs[-1]:
        inputs.pop()
    given: dict[str, object] = {"hidden_size": hidden, "direction": way}
    if layout:
        given["layout"] = 1
    if d.chance(0.3):
        given["clip"] = d.one(0.5, 2.0)
    if d.chance(0.3):
        given["activations"] = [d.one(*CELLS) for _ in range({"RNN": 1, "GRU": 2, "LSTM": 3}[kind])] * ways
    if kind == "GRU" and d.chance():
        given["linear_before_reset"] = d.whole(0, 1)
    if kind == "LSTM" and d.chance(0.2):
        given["input_forget"] = 1
    d.node(kind, inputs, 3 if kind == "LSTM" else 2, **given)


def attention(d: Draft) -> None:
    if d.opset < 23:
        raise Unfit("newer operator")
    groups, kv = d.one(1, 2), d.one(1, 2)
    heads, size, vsize = groups * kv, d.whole(1, 4), d.whole(1, 4)
    batch, lq, lk = d.whole(1, 2), d.whole(1, 4), d.whole(1, 5)
    flat = d.chance(0.4)
    shapes = ((heads, lq, size), (kv, lk, size), (kv, lk, vsize))
    if flat:
        q, k, v = (d.input(d.array((batch, n, h * s))) for h, n, s in shapes)
    else:
        q, k, v = (d.input(d.array((batch, *s))) for s in shapes)
    given: dict[str, object] = {"q_num_heads": heads, "kv_num_heads": kv} if flat else {}
    mask = (
        d.input(
            d.array(
                d.one((lq, lk), (1, 1, lq, lk), (batch, 1, lq, lk), (batch, heads, lq, lk)), d.one(np.float32, np.bool_)
            )
        )
        if d.chance()
        else ""
    )
    if mask and d.like(mask).dtype == np.bool_:
        d.values[mask][..., 0] = True  # a row that sees nothing is not defined alike everywhere
    if d.chance(0.3):
        given["is_causal"] = 1
    if d.chance(0.3):
        given["softcap"] = 2.0
    if d.chance(0.3):
        given["scale"] = 0.4
    d.node("Attention", [q, k, v, mask] if mask else [q, k, v], **given)


def rotary(d: Draft) -> None:
    if d.opset < 23:
        raise Unfit("newer operator")
    batch, heads, steps, size = d.whole(1, 2), d.whole(1, 3), d.whole(1, 4), 2 * d.whole(1, 3)
    turned = d.one(0, 2 * d.whole(1, size // 2))
    half = (turned or size) // 2
    x = d.input(d.array((batch, heads, steps, size)))
    given = {"interleaved": d.whole(0, 1), **({"rotary_embedding_dim": turned} if turned else {})}
    if d.chance():
        tables = [d.either(d.array((6, half))) for _ in range(2)]
        d.node("RotaryEmbedding", [x, *tables, d.either(d.rng.integers(0, 6, (batch, steps)))], **given)
    else:
        d.node("RotaryEmbedding", [x, *(d.either(d.array((batch, steps, half))) for _ in range(2))], **given)


def resize(d: Draft) -> None:
    if d.opset < 11:
        raise Unfit("older form")
    rank = d.one(3, 4, 4)
    a = d.value(lambda x: x.size > 0, rank=rank, dtypes=[np.float32])
    shape = d.like(a).shape
    if not d.like(a).size:
        raise Unfit("nothing to resize")
    mode = d.one("nearest", "linear", "cubic")
    places = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"] + (
        ["half_pixel_symmetric"] if d.opset >= 19 else []
    )
    given: dict[str, object] = {"mode": mode, "coordinate_transformation_mode": d.one(*places)}
    if mode == "nearest":
        given["nearest_mode"] = d.one("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    if mode == "cubic":
        given["cubic_coeff_a"] = d.one(-0.5, -0.75)
    if mode != "nearest" and d.opset >= 18 and d.chance(0.3):
        given["antialias"] = 1
    if mode == "cubic" and d.chance(0.3):
        given["exclude_outside"] = 1
    roi = "" if d.opset >= 13 else d.const(np.zeros(0, np.float32))
    sizes = [*shape[:2], *(d.whole(1, 9) for _ in shape[2:])]
    # With scales the reference takes aligned corners of the exact size, ONNX Runtime of the whole one.
    if d.chance() or given["coordinate_transformation_mode"] == "align_corners":
        d.node(
            "Resize",
            [a, roi, "" if d.opset >= 13 else d.const(np.zeros(0, np.float32)), d.whole_const(*sizes)],
            **given,
        )
    else:
        scales = [1.0, 1.0, *(d.one(0.5, 2.0, 1.5, 0.7, 3.0, 1.0) for _ in shape[2:])]
        d.node("Resize", [a, roi, d.const(np.array(scales, np.float32))], **given)


def sample(d: Draft) -> None:
    if d.opset < 16:
        raise Unfit("newer operator")
    a = d.input(d.array((d.one(1, 2), d.whole(1, 2), d.whole(1, 4), d.whole(1, 4))))
    grid = d.input(np.round(d.array((d.like(a).shape[0], d.whole(1, 3), d.whole(1, 3), 2)), 2) * np.float32(0.8))
    modes = ("linear", "nearest", "cubic") if d.opset >= 20 else ("bilinear", "nearest", "bicubic")
    d.node(
        "GridSample",
        [a, grid],
        mode=d.one(*modes),
        padding_mode=d.one("zeros", "border", "reflection"),
        align_corners=d.whole(0, 1),
    )


def regions(d: Draft) -> None:
    if d.opset < 10:
        raise Unfit("newer operator")
    a = d.input(d.array((2, d.whole(1, 2), 6, 7)))
    count = d.whole(1, 3)
    corner = d.rng.random((count, 2)) * 3
    boxes = np.concatenate([corner, corner + d.rng.random((count, 2)) * 4 + 0.3], 1).astype(np.float32)
    given = {"coordinate_transformation_mode": d.one("half_pixel", "output_half_pixel")} if d.opset >= 16 else {}
    d.node(
        "RoiAlign",
        [a, d.input(boxes), d.input(d.rng.integers(0, 2, count))],
        mode=d.one("avg", "max"),
        output_height=d.whole(1, 3),
        output_width=d.whole(1, 3),
        sampling_ratio=d.whole(0, 2),
        spatial_scale=d.one(1.0, 0.5),
        **given,
    )


def fourier(d: Draft) -> None:
    if d.opset < 17:
        raise Unfit("newer operator")
    n, inverse = d.whole(1, 8), d.chance(0.3)
    a = d.input(d.array((d.whole(1, 2), n, 2 if inverse or d.chance() else 1)))
    given = {"inverse": 1} if inverse else {"onesided": 1} if d.like(a).shape[2] == 1 and d.chance() else {}
    if d.opset < 20:
        d.node("DFT", [a], axis=1, **given)
    else:
        d.node("DFT", [a, "", d.const(np.array(1, np.int64))], **given)


def deformable(d: Draft) -> None:
    if d.opset < 19:
        raise Unfit("newer operator")
    cin, cout, k = d.whole(1, 2), d.whole(1, 2), d.whole(1, 2)
    h, w = d.whole(3, 4), d.whole(3, 4)
    oh, ow = h - k + 1, w - k + 1
    x, weight = d.input(d.array((1, cin, h, w))), d.either(d.array((cout, cin, k, k)))
    more = [d.input(d.array((cout,))), d.input(np.abs(d.array((1, k * k, oh, ow))))][: d.whole(0, 2)]
    d.node("DeformConv", [x, weight, d.input(d.array((1, 2 * k * k, oh, ow))), *more])


def looped(d: Draft) -> None:
    """A carried value and what each trip gives; the count is known."""
    shape = d.shape(d.whole(0, 2), most=3)
    carried = d.input(d.array(shape))
    trips = d.whole(0, 4)
    tag = f"{len(d.nodes)}_{d._count}"
    info = lambda n, t, s: helper.make_tensor_value_info(f"{n}{tag}", t, s)  # noqa: E731
    body = helper.make_graph(
        [
            helper.make_node("Identity", [f"c{tag}"], [f"d{tag}"]),
            helper.make_node(d.one("Sin", "Abs", "Neg"), [f"x{tag}"], [f"y{tag}"]),
            helper.make_node("Identity", [f"y{tag}"], [f"z{tag}"]),
        ],
        "body",
        [info("i", TensorProto.INT64, []), info("c", TensorProto.BOOL, []), info("x", TensorProto.FLOAT, shape)],
        [info("d", TensorProto.BOOL, []), info("y", TensorProto.FLOAT, shape), info("z", TensorProto.FLOAT, shape)],
    )
    d.node("Loop", [d.const(np.array(trips, np.int64)), "", carried], 2, body=body)


def scanned(d: Draft) -> None:
    if d.opset < 9:
        raise Unfit("older form")
    steps, n = d.whole(1, 4), d.whole(1, 3)
    tag = f"{len(d.nodes)}_{d._count}"
    info = lambda name, s: helper.make_tensor_value_info(f"{name}{tag}", TensorProto.FLOAT, s)  # noqa: E731
    body = helper.make_graph(
        [
            helper.make_node("Add", [f"s{tag}", f"x{tag}"], [f"t{tag}"]),
            helper.make_node("Mul", [f"t{tag}", f"x{tag}"], [f"y{tag}"]),
        ],
        "body",
        [info("s", [n]), info("x", [n])],
        [info("t", [n]), info("y", [n])],
    )
    given = {
        "scan_input_directions": [d.whole(0, 1)],
        "scan_output_directions": [d.whole(0, 1)],
        "scan_input_axes": [d.one(0, 1)],
        "scan_output_axes": [d.one(0, 1)],
    }
    shape = (steps, n) if given["scan_input_axes"] == [0] else (n, steps)
    d.node("Scan", [d.input(d.array((n,))), d.input(d.array(shape))], 2, body=body, num_scan_inputs=1, **given)


MAKERS = [
    recurrent,
    recurrent,
    attention,
    attention,
    rotary,
    resize,
    resize,
    sample,
    regions,
    fourier,
    deformable,
    looped,
    scanned,
]
