"""A small decoder-only transformer with its caches as inputs and outputs, one token at a time."""

import numpy as np
from onnx import helper

from tests.compiler.flow.models import F32, I64, model, value

LAYERS, HEADS, DEPTH, VOCABULARY, LONGEST = 1, 2, 8, 40, 256
WIDTH = HEADS * DEPTH


def decoder(seed=0):
    """Bytes of the model. Inputs ``token``, ``position`` and the caches ``past_k0`` ... of shape [heads, cache, depth]."""
    build = _Build(seed)
    x = build.node("Add", build.node("Gather", "embedding", "token"), build.node("Gather", "places", "position"))
    build.node("Reshape", "position", "one", out="place")
    size = build.node("Gather", build.node("Shape", "past_k0"), "second")
    along = build.node("Range", "zero", size, "step")
    build.node("LessOrEqual", along, "position", out="seen")
    for layer in range(LAYERS):
        x = build.layer(x, layer)
    x = build.norm(x, "final")
    build.node("MatMul", x, build.node("Transpose", "embedding", perm=[1, 0]), out="logits")
    caches = [f"{part}{layer}" for layer in range(LAYERS) for part in "kv"]
    shape = [HEADS, "cache", DEPTH]
    inputs = [value("token", I64, [1]), value("position", I64, [1]), *(value(f"past_{c}", F32, shape) for c in caches)]
    outputs = [value("logits", F32, [1, VOCABULARY]), *(value(f"present_{c}", F32, shape) for c in caches)]
    return model(build.nodes, inputs, outputs, build.constants.items(), opset=18)


def states():
    """The pairs that stay on the processor."""
    return [(f"past_{part}{layer}", f"present_{part}{layer}") for layer in range(LAYERS) for part in "kv"]


class _Build:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.count = [], 0
        self.constants = {
            "embedding": self.random(VOCABULARY, WIDTH),
            "places": self.random(LONGEST, WIDTH),
            "one": np.array([1, 1, 1]),
            "zero": np.int64(0),
            "step": np.int64(1),
            "second": np.int64(1),
            "scale": np.float32(DEPTH**-0.5),
            "low": np.float32(-1e9),
            "heads": np.array([1, HEADS, DEPTH]),
            "flat": np.array([1, WIDTH]),
            "row": np.array([HEADS, 1, DEPTH]),
        }

    def random(self, *shape):
        return (self.rng.standard_normal(shape) * 2 / np.sqrt(shape[0])).astype(np.float32)

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
        where = self.node("Expand", "place", "row")
        for part, new in (("k", k), ("v", v)):
            self.node("ScatterElements", f"past_{part}{n}", where, new, out=f"present_{part}{n}", axis=1)
        scores = self.node("MatMul", q, self.node("Transpose", f"present_k{n}", perm=[0, 2, 1]))
        masked = self.node("Where", "seen", self.node("Mul", scores, "scale"), "low")
        mixed = self.node("MatMul", self.node("Softmax", masked, axis=-1), f"present_v{n}")
        flat = self.node("Reshape", self.node("Transpose", mixed, perm=[1, 0, 2]), "flat")
        x = self.node("Add", x, self.node("MatMul", flat, self.weight(f"o{n}", WIDTH, WIDTH)))
        wide = self.node("Relu", self.node("MatMul", self.norm(x, f"m{n}"), self.weight(f"u{n}", WIDTH, 4 * WIDTH)))
        return self.node("Add", x, self.node("MatMul", wide, self.weight(f"d{n}", 4 * WIDTH, WIDTH)))

    def heads(self, x):
        return self.node("Transpose", self.node("Reshape", x, "heads"), perm=[1, 0, 2])


def greedy(step, prompt, count):
    """Tokens that follow the prompt; ``step(token, position)`` answers the logits."""
    tokens = list(prompt)
    for position in range(count + len(prompt) - 1):
        logits = step(np.array([tokens[position]]), np.array([position]))
        if position >= len(prompt) - 1:
            tokens.append(int(np.argmax(logits)))
    return tokens
