"""Real models for tests: small ones of the onnx package with weights put in, and those that ``bin/models.py`` fetches."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from bin.models import fetch
from compiler.ir.graph import Graph

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


# Open dimensions of the fetched models, as the compiler asks for them.
CASES: dict[str, tuple[str, dict[str, int]]] = {
    "squeezenet": ("light:squeezenet", {}),
    "cls": ("cls", {"x.0": 1, "x.2": 48, "x.3": 192}),
    "magika": ("magika", {"unk__214": 1}),
    "minilm-16": ("minilm", {"batch_size": 1, "sequence_length": 16}),
    "minilm-64": ("minilm", {"batch_size": 1, "sequence_length": 64}),
    "minilm-128": ("minilm", {"batch_size": 1, "sequence_length": 128}),
}


# Those that take longer than a test may.
LARGE: dict[str, tuple[str, dict[str, int]]] = {
    "resnet50": ("light:resnet50", {}),
    "det": ("det", {f"p2o.DynamicDimension.{n}": size for n, size in enumerate((1, 480, 640))}),
    "rec": ("rec", {"p2o.DynamicDimension.0": 1, "x.2": 48, "p2o.DynamicDimension.1": 320}),
    "silero": ("silero", {"input.0": 1, "input.1": 576, "state.1": 1}),
    "minilm-int8": ("minilm-int8", {"batch": 1, "sequence": 64}),
}
BOUND: dict[str, dict[str, np.ndarray]] = {
    "silero": {"sr": np.array(16_000, np.int64)}
}  # inputs with one sensible value


def model_bytes(case: str) -> tuple[bytes, dict[str, int]]:
    """A model of ``CASES`` or ``LARGE`` and the sizes of its open dimensions."""
    name, dims = {**CASES, **LARGE}[case]
    if name.startswith("light:"):
        return light_model(name.removeprefix("light:")).SerializeToString(deterministic=True), dims
    data = fetch(name).read_bytes()
    return bound(data, BOUND[name]) if name in BOUND else data, dims


def bound(data: bytes, values: dict[str, np.ndarray]) -> bytes:
    """The model with some of its inputs made constants of its own."""
    model = onnx.load_from_string(data)
    left = [i for i in model.graph.input if i.name not in values]
    del model.graph.input[:]
    model.graph.input.extend(left)
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in values.items())
    return model.SerializeToString(deterministic=True)


WORDS = 30_000  # of a vocabulary
KINDS = {"bytes": 257, "token_type_ids": 2}  # rows of the tables that these inputs are looked up in


def sensible_feeds(graph: Graph, seed: int) -> dict[str, np.ndarray]:
    """Seeded inputs of a graph, each in the model's own range."""
    return seeded_feeds({name: (graph.types[name].dtype.numpy, graph.types[name].shape) for name in graph.inputs}, seed)


def seeded_feeds(kinds: Mapping[str, tuple[Any, tuple[int, ...]]], seed: int) -> dict[str, np.ndarray]:
    """Inputs by name, each of its (element type, shape): noise for images, bytes, word numbers, masks with a padded tail."""
    rng = np.random.default_rng(seed)
    feeds = {}
    for name, (dtype, shape) in kinds.items():
        if name == "attention_mask":
            values = np.ones(shape)
            values[:, shape[1] - seed * shape[1] // 8 :] = 0
        elif np.dtype(dtype).kind == "f":
            values = rng.standard_normal(shape)
        else:
            values = rng.integers(0, KINDS.get(name, WORDS), shape)
        feeds[name] = values.astype(dtype)
    return feeds
