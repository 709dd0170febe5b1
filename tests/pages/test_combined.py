"""The report lists the contractions that became one (A6)."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import compiler
from apps.pages.report.rows import combined_rows


def test_projections_of_one_input_are_reported_as_one_group() -> None:
    dice = np.random.default_rng(1)
    weights = [numpy_helper.from_array(dice.normal(size=(16, 16)).astype(np.float32), name) for name in "qkv"]
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", name], [f"y{name}"], name=f"project_{name}") for name in "qkv"],
        "attention",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8, 16])],
        [helper.make_tensor_value_info(f"y{name}", TensorProto.FLOAT, [8, 16]) for name in "qkv"],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    report = compiler.report(compiler.compile(compiler.load(model.SerializeToString())))
    assert combined_rows(report) == [["project_q", "project_k", "project_v"]]
