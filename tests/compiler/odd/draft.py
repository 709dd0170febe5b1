"""Small models drawn at random: odd attributes, ranks, types, opsets, sizes of nothing, dimensions left open.

Every operation is run by itself as soon as it is drawn, so that what is drawn next knows real shapes and values; a draw that
neither ONNX Runtime nor the reference implementation of the standard accepts is forgotten.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]
NEWEST, OLDEST = 26, 7  # opsets that ONNX Runtime takes
FLOATS = (np.float32, np.float32, np.float32, np.float32, np.float16, np.float64)
WHOLES = (np.int64, np.int32, np.int8, np.uint8, np.int16, np.uint32)


# Operators that the reference implementation computes otherwise than the standard says (activations, directions, last channels).
UNTRUSTED = ("Resize", "GlobalMaxPool", "RNN", "GRU", "LSTM", "LRN", "RoiAlign", "ConvTranspose", "LpNormalization")


class Unfit(Exception):
    """A draw that no runtime accepts, or one that is not offered in the drawn opset."""


class Draft:
    """A model that grows by operations; ``values`` holds what each name was computed to be."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.opset = int(rng.integers(OLDEST, NEWEST + 1)) if rng.random() < 0.5 else int(rng.integers(17, 24))
        self.values: Arrays = {}
        self.inputs: list[str] = []
        self.constants: list[str] = []
        self.nodes: list[Any] = []
        self.made: list[str] = []
        self.second: set[str] = set()  # values that only the reference computes
        self._count = 0

    # -- choosing ---------------------------------------------------------------------------------------------------------

    def one(self, *options: Any) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def whole(self, low: int, high: int) -> int:
        """From ``low`` to ``high``, both included."""
        return int(self.rng.integers(low, high + 1))

    def chance(self, share: float = 0.5) -> bool:
        return bool(self.rng.random() < share)

    def shape(self, rank: int | None = None, *, most: int = 5) -> tuple[int, ...]:
        """Small sizes, 1 often, 0 seldom."""
        rank = self.whole(0, 4) if rank is None else rank
        return tuple(0 if self.rng.random() < 0.015 else self.one(1, *range(1, most + 1)) for _ in range(rank))

    def axis(self, rank: int) -> int:
        return self.whole(-rank, rank - 1)

    def axes(self, rank: int, least: int = 0) -> list[int]:
        """Some different axes in any order, counted from either end."""
        chosen = self.rng.permutation(rank)[: self.whole(least, rank)]
        return [int(a) - (rank if self.chance(0.3) else 0) for a in chosen]

    def array(self, shape: Sequence[int], dtype: Any = np.float32) -> Array:
        """Values with ties, zeros and negative ones among them."""
        kind = np.dtype(dtype).kind
        if kind == "b":
            return np.asarray(self.rng.random(shape) < 0.5)
        if kind in "iu":
            return np.asarray(self.rng.integers(0 if kind == "u" else -9, 10, shape)).astype(dtype)
        values = self.rng.standard_normal(shape) * self.one(1.0, 1.0, 3.0)
        return np.asarray(np.round(values * 8) / 8 if self.chance(0.4) else values).astype(dtype)

    # -- values -----------------------------------------------------------------------------------------------------------

    def _name(self) -> str:
        self._count += 1
        return f"v{self._count}"

    def input(self, array: Array) -> str:
        """A new input of the model."""
        name = self._name()
        self.values[name] = array
        self.inputs.append(name)
        return name

    def const(self, array: Any) -> str:
        """A new constant of the model."""
        name = self._name()
        self.values[name] = np.asarray(array)
        self.constants.append(name)
        return name

    def whole_const(self, *values: int) -> str:
        return self.const(np.array(values, np.int64))

    def either(self, array: Array) -> str:
        """A new input or a constant."""
        return self.input(array) if self.chance(0.7) else self.const(array)

    def value(
        self,
        fit: Callable[[Array], bool] = lambda _: True,
        *,
        rank: int | None = None,
        dtypes: Sequence[Any] = FLOATS,
        most: int = 5,
    ) -> str:
        """A value that was computed before and fits, else a new input."""
        kinds = {np.dtype(d) for d in dtypes}
        known = [n for n in self.made if self.values[n].dtype in kinds and fit(self.values[n])]
        known = [n for n in known if rank is None or self.values[n].ndim == rank]
        if known and self.chance(0.75):
            return str(self.one(*known))
        array = self.array(self.shape(rank, most=most), self.one(*dtypes))
        return self.input(array)

    def like(self, name: str) -> Array:
        return self.values[name]

    # -- operations -------------------------------------------------------------------------------------------------------

    def node(self, kind: str, inputs: Sequence[str], outputs: int = 1, **attributes: Any) -> list[str]:
        """One operation: computed now, kept if that works; answers the names of its outputs."""
        if not (onnx.defs.has(kind) and _offered(kind, self.opset)):
            raise Unfit(f"{kind} is not in this opset")
        names = [self._name() for _ in range(outputs)]
        made = helper.make_node(kind, list(inputs), names, name=f"{kind}_{len(self.nodes)}", **attributes)
        given = {n: self.values[n] for n in inputs if n}
        alone = model([made], given, {}, names, self.opset)
        results = by_runtime(alone, names, given)
        if results is None:
            results = None if kind in UNTRUSTED else by_reference(alone, names, given)
            self.second.update(names)
        if results is None:
            raise Unfit(kind)
        self.nodes.append(made)
        for name, array in zip(names, results, strict=True):
            if array is None:
                continue
            if array.nbytes > 1 << 18:
                raise Unfit("too large")
            self.values[name] = array
            if array.dtype.kind != "f" or np.isfinite(array).all():
                self.made.append(name)
        return names

    def finished(self) -> tuple[bytes, Arrays, dict[str, int]] | None:
        """The model, its feeds, and sizes for dimensions that it leaves open; None for a model without an operation."""
        results = [o for n in self.nodes for o in n.output if o in self.values]
        if not results:
            return None
        read = {i for n in self.nodes for i in n.input}
        left = [o for o in results if o not in read] or results[-1:]
        feeds = {n: self.values[n] for n in self.inputs if n in read}
        constants = {n: self.values[n] for n in self.constants if n in read}
        dims: dict[str, int] = {}
        shapes: dict[str, list[int | str]] = {}
        for name, array in feeds.items():
            shapes[name] = list(array.shape)
            for axis, size in enumerate(array.shape):
                if size and self.chance(0.15):
                    dims[f"n{name}_{axis}"] = size
                    shapes[name][axis] = f"n{name}_{axis}"
        return model(self.nodes, feeds, constants, left, self.opset, shapes), feeds, dims


def model(
    nodes: Sequence[Any],
    feeds: Mapping[str, Array],
    constants: Mapping[str, Array],
    outputs: Sequence[str],
    opset: int,
    shapes: Mapping[str, Any] | None = None,
) -> bytes:
    """A model with the inputs' types and shapes; outputs have whatever they come to."""
    made = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), (shapes or {}).get(n, a.shape))
        for n, a in feeds.items()
    ]
    results = [helper.make_empty_tensor_value_info(n) for n in outputs]
    stored = [numpy_helper.from_array(a, n) for n, a in constants.items()]
    graph = helper.make_graph(list(nodes), "odd", made, results, stored)
    imports = [helper.make_opsetid("", opset)]
    return bytes(helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString())


def by_runtime(data: bytes, outputs: Sequence[str], feeds: Mapping[str, Array]) -> list[Any] | None:
    """What ONNX Runtime makes of it; None when it refuses."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    try:
        session: Any = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        return list(session.run(list(outputs), dict(feeds)))
    except Exception:  # noqa: BLE001 - whatever it says, it does not answer
        return None


def by_reference(data: bytes, outputs: Sequence[str], feeds: Mapping[str, Array]) -> list[Any] | None:
    """What the standard's reference implementation makes of it; None when it refuses."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            found = ReferenceEvaluator(data).run(list(outputs), dict(feeds))
        return [np.asarray(a) for a in found]
    except Exception:  # noqa: BLE001 - as above
        return None


def _offered(kind: str, opset: int) -> bool:
    try:
        return not onnx.defs.get_schema(kind, opset).deprecated
    except onnx.defs.SchemaError:
        return False
