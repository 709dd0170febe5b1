"""Networks of `samples.networks` as ONNX files: float32, opset 17, the same bytes for the same weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from samples.networks import CLASSES, SIDE, Array, Convolution, Dense, Image, Layer, MaxPool, Relu

# Weights are rounded to this grid, so that harmless differences of the last bit do not reach the file.
GRID = 2.0**-12


class Exporter:
    """Collects nodes and weights while walking along the layers."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.value = "image"

    def constant(self, name: str, array: Array) -> str:
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def node(self, kind: str, name: str, *extra: str, **attributes: Any) -> None:
        output = f"{name}_out"
        self.nodes.append(helper.make_node(kind, [self.value, *extra], [output], name=name, **attributes))
        self.value = output

    def layer(self, index: int, layer: Layer) -> None:
        if isinstance(layer, Dense):
            if not any(node.op_type == "Flatten" for node in self.nodes):
                self.node("Flatten", f"flatten{index}", axis=1)
            weight, bias = (rounded(p) for p in layer.parameters)
            names = self.constant(f"dense{index}.weight", weight), self.constant(f"dense{index}.bias", bias)
            self.node("Gemm", f"dense{index}", *names)
        elif isinstance(layer, Convolution):
            weight, bias = (rounded(p) for p in layer.parameters)
            names = self.constant(f"conv{index}.weight", weight), self.constant(f"conv{index}.bias", bias)
            self.node("Conv", f"conv{index}", *names, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        elif isinstance(layer, MaxPool):
            self.node("MaxPool", f"pool{index}", kernel_shape=[2, 2], strides=[2, 2])
        elif isinstance(layer, Relu):
            self.node("Relu", f"relu{index}")
        elif not isinstance(layer, Image):
            raise TypeError(f"{type(layer).__name__} has no ONNX form here.")


def rounded(array: Array) -> Array:
    """Weights on the grid, float32."""
    return np.asarray(np.round(array.astype(np.float64) / GRID) * GRID, dtype=np.float32)


def model(name: str, layers: list[Layer], *, batch: int | str = 1, description: str) -> onnx.ModelProto:
    """`image` float32 [batch, 1, 8, 8] with values 0 to 16 -> `probabilities` float32 [batch, 10]."""
    exporter = Exporter()
    exporter.node("Mul", "scale", exporter.constant("scale.factor", np.array(1 / 16, np.float32)))
    for index, layer in enumerate(layers):
        exporter.layer(index, layer)
    exporter.node("Softmax", "softmax", axis=-1)
    exporter.nodes[-1].output[0] = "probabilities"
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [batch, 1, SIDE, SIDE])
    answer = helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [batch, CLASSES])
    graph = helper.make_graph(exporter.nodes, name, [image], [answer], exporter.weights)
    result = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    result.producer_name, result.doc_string = "takt samples", description
    return result
