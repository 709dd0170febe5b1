"""A small decoder as exporters write it: caches that grow by a Concat, a mask of what counts, positions."""

import numpy as np
from onnx import helper

from tests.compiler.flow.models import F32, I64, model, value

LAYERS, HEADS, DEPTH, VOCABULARY, LONGEST = 2, 2, 8, 40, 1100
WIDTH = HEADS * DEPTH
BATCH, TOKENS = "batch", "sequence"


def growing_decoder(seed=0, *, positions="input", mask="input", longest=LONGEST, width=1.0):
    """Bytes of the model. Inputs ``input_ids`` [batch, sequence], ``past_k0`` ... of shape [batch, heads, past, depth].

    ``positions``: an ``input``, or worked out from the ``shape`` of a cache or from the ``mask``. ``mask``: an ``input`` of
    shape [batch, past + sequence], or ``causal`` alone.
    """
    b = _Build(seed, longest, width)
    rows = b.node("Gather", b.node("Shape", "past_k0"), "two")
    new = b.node("Gather", b.node("Shape", "input_ids"), "one")
    total = b.node("Add", rows, new)
    if positions == "shape":
        places = b.node("Unsqueeze", b.node("Range", rows, total, "one"), "axis0")
    elif positions == "mask":
        counted = b.node("Sub", b.node("CumSum", "attention_mask", "one"), "one")
        ends = [b.node("Unsqueeze", v, "axis0") for v in (rows, total)]
        places = b.node("Slice", counted, *ends, "axis1")
    else:
        places = "position_ids"
    x = b.node("Add", b.node("Gather", "wte", "input_ids"), b.node("Gather", "wpe", places))
    here = b.node("Unsqueeze", b.node("Range", rows, total, "one"), "axis1")
    b.node("LessOrEqual", b.node("Range", "zero", total, "one"), here, out="causal")
    if mask == "input":
        counts = b.node("Unsqueeze", b.node("Cast", "attention_mask", to=9), "axes12")
        b.node("And", counts, "causal", out="seen")
    else:
        b.node("Identity", "causal", out="seen")
    for layer in range(LAYERS):
        x = b.layer(x, layer)
    x = b.norm(x, "final")
    b.node("MatMul", x, b.node("Transpose", "wte", perm=[1, 0]), out="logits")
    names = [f"{part}{layer}" for layer in range(LAYERS) for part in "kv"]
    inputs = [value("input_ids", I64, [BATCH, TOKENS])]
    inputs += [value("attention_mask", I64, [BATCH, "total"])] if "input" in (mask,) or positions == "mask" else []
    inputs += [value("position_ids", I64, [BATCH, TOKENS])] if positions == "input" else []
    inputs += [value(f"past_{n}", F32, [BATCH, HEADS, "past", DEPTH]) for n in names]
    outputs = [value("logits", F32, [BATCH, TOKENS, VOCABULARY])]
    outputs += [value(f"present_{n}", F32, [BATCH, HEADS, "total", DEPTH]) for n in names]
    return model(b.nodes, inputs, outputs, b.constants.items(), opset=17)


class _Build:
    def __init__(self, seed, longest, width):
        self.rng, self.scale = np.random.default_rng(seed), width
        self.nodes, self.count = [], 0
        self.constants = {
            "wte": self.random(VOCABULARY, WIDTH),
            "wpe": self.random(longest, WIDTH),
            "zero": np.int64(0),
            "one": np.int64(1),
            "two": np.int64(2),
            "axis0": np.array([0]),
            "axis1": np.array([1]),
            "axes12": np.array([1, 2]),
            "root": np.float32(DEPTH**-0.5),
            "low": np.float32(np.finfo(np.float32).min),
            "heads": np.array([0, 0, HEADS, DEPTH]),
            "flat": np.array([0, 0, WIDTH]),
        }

    def random(self, *shape):
        return (self.rng.standard_normal(shape) * 2 * self.scale / np.sqrt(shape[0])).astype(np.float32)

    def node(self, kind, *inputs, out=None, **attributes):
        self.count += 1
        name = out or f"t{self.count}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=f"{kind}_{name}", **attributes))
        return name

    def weight(self, name, *shape):
        self.constants[name] = self.random(*shape)
        return name

    def norm(self, x, name):
        self.constants |= {f"{name}_g": np.ones(WIDTH, np.float32), f"{name}_b": np.zeros(WIDTH, np.float32)}
        return self.node("LayerNormalization", x, f"{name}_g", f"{name}_b")

    def layer(self, x, n):
        y = self.norm(x, f"a{n}")
        q, k, v = (self.heads(self.node("MatMul", y, self.weight(f"{p}{n}", WIDTH, WIDTH))) for p in "qkv")
        for part, new in (("k", k), ("v", v)):
            self.node("Concat", f"past_{part}{n}", new, out=f"present_{part}{n}", axis=2)
        scores = self.node("MatMul", q, self.node("Transpose", f"present_k{n}", perm=[0, 1, 3, 2]))
        masked = self.node("Where", "seen", self.node("Mul", scores, "root"), "low")
        mixed = self.node("MatMul", self.node("Softmax", masked, axis=-1), f"present_v{n}")
        flat = self.node("Reshape", self.node("Transpose", mixed, perm=[0, 2, 1, 3]), "flat")
        x = self.node("Add", x, self.node("MatMul", flat, self.weight(f"o{n}", WIDTH, WIDTH)))
        wide = self.node("Relu", self.node("MatMul", self.norm(x, f"m{n}"), self.weight(f"u{n}", WIDTH, 4 * WIDTH)))
        return self.node("Add", x, self.node("MatMul", wide, self.weight(f"d{n}", 4 * WIDTH, WIDTH)))

    def heads(self, x):
        return self.node("Transpose", self.node("Reshape", x, "heads"), perm=[0, 2, 1, 3])
