"""Small models of one operation, run by ONNX Runtime and by the compiler's interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from compiler.frontend import load
from compiler.ir.graph import Graph
from compiler.ir.interpreter import run
from compiler.ir.verifier import verify
from compiler.passes import optimise

Arrays = Mapping[str, np.ndarray]


def model(nodes: Sequence[Any], feeds: Arrays, constants: Arrays, outputs: Mapping[str, int], opset: int = 21) -> bytes:
    """``outputs``: name -> ONNX element type. Inputs have the shapes and types of ``feeds``."""
    made = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in feeds.items()
    ]
    graph = helper.make_graph(
        list(nodes),
        "one",
        made,
        [helper.make_tensor_value_info(n, t, None) for n, t in outputs.items()],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()],
    )
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString()


def both(data: bytes, feeds: Arrays) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], Graph]:
    """Our outputs (by the interpreter, after the passes), ONNX Runtime's, and the graph."""
    graph = optimise(load(data), check=verify)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    theirs = dict(zip([o.name for o in session.get_outputs()], session.run(None, dict(feeds)), strict=True))
    return run(graph, dict(feeds)), theirs, graph


def check(
    nodes: Sequence[Any],
    feeds: Arrays,
    constants: Arrays,
    outputs: Mapping[str, int],
    *,
    steps: int = 0,
    relative: float = 1e-4,
    opset: int = 21,
) -> Graph:
    """Integers may differ by ``steps``, floats by ``relative`` of the largest; answers the graph."""
    ours, theirs, graph = both(model(nodes, feeds, constants, outputs, opset), feeds)
    for name, expected in theirs.items():
        assert (ours[name].dtype, ours[name].shape) == (expected.dtype, expected.shape), name
        gap = np.abs(ours[name].astype(np.float64) - expected.astype(np.float64)).max(initial=0.0)
        limit = steps if expected.dtype.kind in "iu" else relative * max(np.abs(expected).max(initial=0.0), 1e-6)
        assert gap <= limit, f"{name}: {gap} > {limit}"
    return graph


FLOAT, INT8, UINT8, INT32 = TensorProto.FLOAT, TensorProto.INT8, TensorProto.UINT8, TensorProto.INT32
