"""A model, its inputs, and what a program makes of them; see make.py."""

from __future__ import annotations

import hashlib
import io
from typing import Any

import numpy as np

PROFILE = {
    "legal_name": "Acme Vision GmbH",
    "address": "Hauptstrasse 1\n10115 Berlin",
    "tax_id": "DE123456789",
}


def choosing_model(name: str = "choosing") -> bytes:
    """y = sigmoid(2 x + 1) in several steps where an element of x exceeds 0.9, else 2 x: its cost depends on the data."""
    from onnx import TensorProto, helper

    def tensor(name: str, shape: list[int]) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    def constant(name: str, value: float) -> Any:
        return helper.make_tensor(name, TensorProto.FLOAT, [], [value])

    dear = helper.make_graph(
        [
            helper.make_node("Mul", ["x", "two"], ["d0"]),
            helper.make_node("Add", ["d0", "one"], ["d1"]),
            helper.make_node("Sigmoid", ["d1"], ["dear"]),
        ],
        "dear",
        [],
        [tensor("dear", [1, 16])],
    )
    cheap = helper.make_graph(
        [helper.make_node("Mul", ["x", "two"], ["cheap"])], "cheap", [], [tensor("cheap", [1, 16])]
    )
    graph = helper.make_graph(
        [
            helper.make_node("ReduceMax", ["x"], ["top"], keepdims=0),
            helper.make_node("Greater", ["top", "edge"], ["large"]),
            helper.make_node("If", ["large"], ["y"], then_branch=dear, else_branch=cheap),
        ],
        name,
        [tensor("x", [1, 16])],
        [tensor("y", [1, 16])],
        [constant("two", 2.0), constant("one", 1.0), constant("edge", 0.9)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


def pictures(count: int) -> Any:
    """Examples for calibration."""
    return np.random.default_rng(7).uniform(0, 16, (count, 1, 8, 8)).astype(np.float32)


def packed(**arrays: Any) -> bytes:
    """A .npz file."""
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def feeds_of(program: Any, items: int) -> dict[str, Any]:
    """That many items for the program, the same ones for the same count."""
    dice = np.random.default_rng(items)
    return {one["name"]: dice.random((items, *one["shape"])).astype("float32") for one in program.inputs}


def computed(program: Any) -> dict[str, Any]:
    """What the program gives for three items: a digest over its outputs, and its counters."""
    import compiler
    from apps.compilation.models import OwnProcessor
    from apps.compilation.selectors import program_bytes

    feeds, own = feeds_of(program, 3), OwnProcessor.objects.filter(name=program.target).first()
    outputs, counters = compiler.simulate(
        program_bytes(program),
        [{n: a[i] for n, a in feeds.items()} for i in range(3)],
        target=compiler.targets.parse(own.text) if own else None,
    )
    digest = hashlib.sha256()
    for output in outputs:
        for name in sorted(output):
            digest.update(np.ascontiguousarray(output[name]).tobytes())
    return {"outputs": digest.hexdigest(), "counters": counters.to_json()}
