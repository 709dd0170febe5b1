"""Real models for tests: small ones of the onnx package with weights put in, and those that ``bin/models.py`` fetches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def light_model(name: str, seed: int = 0) -> onnx.ModelProto:
    """One of the onnx package's light models (it stores shapes, not weights) with seeded, He-scaled weights in it.

    Weights of convolutions and dense layers are normal with variance 2 / fan-in; what is one per channel (biases, means,
    scales) is drawn near the value that leaves activations alone.
    """
    model = onnx.load(str(LIGHT / f"light_{name}.onnx"))
    rng = np.random.default_rng(seed)
    shapes = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    kept = []
    for node in model.graph.node:
        if node.op_type != "ConstantOfShape":
            kept.append(node)
            continue
        shape = [int(n) for n in shapes[node.input[0]]]
        made = _weights(rng, shape, _role(model, node.output[0]))
        model.graph.initializer.append(numpy_helper.from_array(made, node.output[0]))
    del model.graph.node[:]
    model.graph.node.extend(kept)
    return model


def _role(model: onnx.ModelProto, name: str) -> str:
    for node in model.graph.node:
        if name in node.input:
            return f"{node.op_type} {list(node.input).index(name)}"
    return ""


def _weights(rng: np.random.Generator, shape: list[int], role: str) -> np.ndarray:
    if len(shape) > 1:
        fan_in = int(np.prod(shape[1:]))
        return (rng.standard_normal(shape) * np.sqrt(2 / fan_in)).astype(np.float32)
    if role in ("BatchNormalization 1", "BatchNormalization 4") or role.startswith("Unsqueeze"):
        return (1 + 0.1 * rng.random(shape)).astype(np.float32)
    return (0.05 * rng.standard_normal(shape)).astype(np.float32)
