"""GPT-2 as exporters write it, with seeded weights: tied tables, caches that grow by concatenation, positions as an input."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

WIDTH, HEADS, VOCABULARY, POSITIONS = 768, 12, 50_257, 1024
SPREAD = 0.02  # of the published initialisation


def gpt2(layers: int = 12, vocabulary: int = VOCABULARY, seed: int = 0) -> ModelProto:
    """Inputs ``input_ids`` and ``position_ids`` [batch, sequence], ``past_k0`` ... [batch, heads, past, depth]; outputs
    ``logits`` [batch, sequence, vocabulary] and ``present_k0`` ... [batch, heads, total, depth]."""
    b = _Build(seed)
    b.weight("wte", vocabulary, WIDTH)
    b.weight("wpe", POSITIONS, WIDTH, spread=SPREAD / 2)
    rows = b.node("Gather", b.node("Shape", "past_k0"), "two")
    total = b.node("Add", rows, b.node("Gather", b.node("Shape", "input_ids"), "one"))
    here = b.node("Unsqueeze", b.node("Range", rows, total, "one"), "axis1")
    b.node("LessOrEqual", b.node("Range", "zero", total, "one"), here, out="seen")
    x = b.node("Add", b.node("Gather", "wte", "input_ids"), b.node("Gather", "wpe", "position_ids"))
    for layer in range(layers):
        x = b.layer(x, layer, SPREAD / (2 * layers) ** 0.5)
    b.node("MatMul", b.norm(x, "final"), b.node("Transpose", "wte", perm=[1, 0]), out="logits")
    caches = [f"{part}{layer}" for layer in range(layers) for part in "kv"]
    shape = ["batch", HEADS, "past", WIDTH // HEADS]
    inputs = [_value(n, TensorProto.INT64, ["batch", "sequence"]) for n in ("input_ids", "position_ids")]
    inputs += [_value(f"past_{c}", TensorProto.FLOAT, shape) for c in caches]
    outputs = [_value("logits", TensorProto.FLOAT, ["batch", "sequence", vocabulary])]
    outputs += [_value(f"present_{c}", TensorProto.FLOAT, [*shape[:2], "total", shape[3]]) for c in caches]
    stored = [numpy_helper.from_array(array, name) for name, array in b.constants.items()]
    graph = helper.make_graph(b.nodes, "gpt2", inputs, outputs, stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def _value(name: str, kind: int, shape: list[Any]) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


class _Build:
    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {
            **{name: np.asarray(n) for n, name in enumerate(("zero", "one", "two"))},
            "axis1": np.array([1]),
            "root": np.float32((WIDTH // HEADS) ** -0.5),
            "low": np.float32(np.finfo(np.float32).min),
            "heads": np.array([0, 0, HEADS, WIDTH // HEADS]),
            "flat": np.array([0, 0, WIDTH]),
            "thirds": np.array([WIDTH] * 3),
            "half": np.float32(0.5),
            "cube": np.float32(0.044715),
            "gain": np.float32((2 / np.pi) ** 0.5),
            "whole": np.float32(1),
        }

    def weight(self, name: str, *shape: int, spread: float = SPREAD) -> str:
        self.constants[name] = self.rng.standard_normal(shape, dtype=np.float32) * np.float32(spread)
        return name

    def node(self, kind: str, *inputs: str, out: str = "", **attributes: Any) -> str:
        name = out or f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=f"{kind}_{name}", **attributes))
        return name

    def norm(self, x: str, name: str) -> str:
        self.constants |= {f"{name}_g": np.ones(WIDTH, np.float32), f"{name}_b": np.zeros(WIDTH, np.float32)}
        return self.node("LayerNormalization", x, f"{name}_g", f"{name}_b", epsilon=1e-5)

    def dense(self, x: str, name: str, before: int, after: int, spread: float = SPREAD) -> str:
        product = self.node("MatMul", x, self.weight(name, before, after, spread=spread))
        return self.node("Add", product, self.weight(f"{name}_bias", after, spread=SPREAD / 2))

    def layer(self, x: str, n: int, spread: float) -> str:
        parts = [f"{part}{n}" for part in "qkv"]
        joint = self.dense(self.norm(x, f"before{n}"), f"qkv{n}", WIDTH, 3 * WIDTH)
        self.nodes.append(helper.make_node("Split", [joint, "thirds"], parts, name=f"Split_{n}", axis=2))
        q, k, v = (self.node("Transpose", self.node("Reshape", p, "heads"), perm=[0, 2, 1, 3]) for p in parts)
        for part, new in (("k", k), ("v", v)):
            self.node("Concat", f"past_{part}{n}", new, out=f"present_{part}{n}", axis=2)
        scores = self.node("MatMul", q, self.node("Transpose", f"present_k{n}", perm=[0, 1, 3, 2]))
        masked = self.node("Where", "seen", self.node("Mul", scores, "root"), "low")
        mixed = self.node("MatMul", self.node("Softmax", masked, axis=-1), f"present_v{n}")
        flat = self.node("Reshape", self.node("Transpose", mixed, perm=[0, 2, 1, 3]), "flat")
        x = self.node("Add", x, self.dense(flat, f"out{n}", WIDTH, WIDTH, spread))
        wide = self.gelu(self.dense(self.norm(x, f"after{n}"), f"up{n}", WIDTH, 4 * WIDTH))
        return self.node("Add", x, self.dense(wide, f"down{n}", 4 * WIDTH, WIDTH, spread))

    def gelu(self, x: str) -> str:
        cubed = self.node("Mul", self.node("Mul", self.node("Mul", x, x), x), "cube")
        bent = self.node("Tanh", self.node("Mul", self.node("Add", x, cubed), "gain"))
        return self.node("Mul", self.node("Mul", x, "half"), self.node("Add", bent, "whole"))
