"""From an ONNX model to a graph of primitives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, ValueInfoProto

from compiler.errors import Hint, ModelError
from compiler.frontend.caches import Names, with_context
from compiler.frontend.expansion import Expansion
from compiler.frontend.limits import DEFAULT, Limits
from compiler.frontend.lower import Lowering, too_many
from compiler.frontend.operators import RULES
from compiler.frontend.reader import Source, folder_of, opsets, read_model
from compiler.frontend.states import Pair, pair_problems, with_states
from compiler.frontend.tensors import ELEMENT_TYPES, element_type
from compiler.ir import DType, Graph, TensorType
from compiler.ir.builder import Builder, Contents
from compiler.ir.verifier import verify

__all__ = ["load", "operators", "symbolic_dims"]

Array = np.ndarray[Any, Any]
_NAMELESS = ("", "?", "None", "unk")


def operators() -> tuple[str, ...]:
    """Names of the operators with a lowering rule of their own (functions of the standard come on top)."""
    return tuple(sorted(RULES))


def symbolic_dims(model: Source) -> dict[str, list[str]]:
    """Dimensions to choose before compiling: name -> where it stands (``"input[axis]"``). Nameless ones get ``input.axis``."""
    return open_dims(read_model(model)[0])


def open_dims(proto: ModelProto) -> dict[str, list[str]]:
    """``symbolic_dims`` of a parsed model, which is not turned into bytes again."""
    found: dict[str, list[str]] = {}
    for value in _inputs(proto):
        for axis, dim in enumerate(_dims(value)):
            if isinstance(dim, str):
                found.setdefault(dim, []).append(f"{value.name}[{axis}]")
    return found


def load(
    model: Source,
    dims: Mapping[str, int] | None = None,
    constants: Mapping[str, Array] | None = None,
    limits: Limits = DEFAULT,
    *,
    states: Sequence[Pair] = (),
    bounds: Mapping[str, int] | None = None,
    context: int | None = None,
    caches: Sequence[Names] = (),
) -> Graph:
    """The graph of an ONNX model given as path, bytes or parsed proto.

    ``dims`` binds symbolic dimensions by name, ``constants`` binds graph inputs that must be known at compile time.
    ``states``: pairs of an input and the output that becomes its next value (and perhaps its first value): they stay on the
    processor. ``bounds``: the most trips of loops, by name, whose end depends on the data. ``context``: how many rows caches
    have that a run continues by concatenation, all that are found or the pairs in ``caches``. Raises ``ModelError`` whose
    ``problems`` lists everything that is wrong, each with the operation and what to change.
    """
    proto, digest = read_model(model, limits)
    given, known = dict(dims or {}), dict(constants or {})
    folder, stored = folder_of(model), dict[Contents, Array]()
    if context is None:
        return _lowered(proto, digest, folder, given, known, limits, states, bounds or {}, stored)
    return with_context(
        _inputs(proto),
        _dims,
        given,
        context,
        caches,
        lambda sizes, more: _lowered(
            proto, digest, folder, sizes, {**known, **more}, limits, states, bounds or {}, stored
        ),
    )


def _lowered(
    proto: ModelProto,
    digest: str,
    folder: Path | None,
    dims: Mapping[str, int],
    constants: Mapping[str, Array],
    limits: Limits,
    states: Sequence[Pair],
    bounds: Mapping[str, int],
    stored: dict[Contents, Array],
) -> Graph:
    """The graph for one choice of dimensions; graphs of one model share what is ``stored``."""
    if len(proto.graph.node) > limits.model_nodes:
        raise ModelError(f"The model has {len(proto.graph.node)} operations; the limit is {limits.model_nodes}.")
    builder = Builder(
        proto.graph.name[:200] or "model",
        max_bytes=limits.tensor_bytes,
        max_nodes=limits.graph_nodes,
        max_stored=limits.constant_bytes,
        stored=stored,
    )
    lowering = Lowering(builder, opsets(proto), proto.functions, limits)
    if Expansion(lowering.functions, limits).count(proto.graph.node) > limits.graph_nodes:
        raise too_many(limits)
    lowering.problems += lowering.unsupported(proto.graph)
    lowering.problems += pair_problems(states, [v.name for v in _inputs(proto)], [v.name for v in proto.graph.output])
    lowering.bounds, lowering.folder = dict(bounds), folder
    scope: dict[str, str | None] = {}
    _bind_inputs(proto, dims, constants, lowering, scope)
    _stop(lowering)
    lowering.graph(proto.graph, scope)
    outputs = _outputs(proto, lowering, scope)
    lowering.problems += [
        ModelError(f"The model has no loop {name!r} to bound; it has {', '.join(sorted(lowering.loops)) or 'none'}.")
        for name in lowering.bounds
        if name not in lowering.loops
    ]
    lowering.problems += _choosers(proto, lowering.problems, constants)
    _stop(lowering)
    builder.source = ()
    for value, name in ((v, n) for n, v in scope.items() if v is not None):
        lowering.names.setdefault(value, name)
    return verify(with_states(builder.finish(outputs, lowering.names, _metadata(proto, digest, dims)), states))


def _metadata(proto: ModelProto, digest: str, dims: Mapping[str, int]) -> dict[str, str]:
    """What a program tells of its model."""
    return {
        "opset": ", ".join(f"{d or 'ai.onnx'} {v}" for d, v in sorted(opsets(proto).items())),
        "producer": f"{proto.producer_name} {proto.producer_version}".strip()[:200],
        "sha256": digest,
        "dims": ", ".join(f"{k}={v}" for k, v in sorted(dims.items())),
    }


def _choosers(proto: ModelProto, problems: Sequence[ModelError], constants: Mapping[str, Array]) -> list[ModelError]:
    """Where branches are at fault: which inputs of one whole number may choose them, and could be constants."""
    branches = {node.name for node in proto.graph.node if node.op_type == "If"}
    whole = [v.name for v in _inputs(proto) if v.name not in constants and _is_whole_number(v)]
    if not whole or not any(p.node in branches or p.node.startswith("If_") for p in problems):
        return []
    said = f"If {' or '.join(map(repr, whole[:4]))} chooses the branch and is always the same, give its value."
    return [ModelError(said, hint=Hint("constants", {whole[0]: 1}))]


def _is_whole_number(value: ValueInfoProto) -> bool:
    kind = ELEMENT_TYPES.get(value.type.tensor_type.elem_type, DType.F32).numpy.kind
    return kind in "iub" and all(d == 1 for d in _dims(value))


def _stop(lowering: Lowering) -> None:
    """One error for all problems found so far."""
    problems = lowering.problems
    if len(problems) == 1:
        raise problems[0]
    if problems:
        raise ModelError(f"The model cannot be compiled for {len(problems)} reasons:", problems=tuple(problems))


def _inputs(proto: ModelProto) -> list[ValueInfoProto]:
    """The graph's real inputs: weights that old files list as inputs are none."""
    stored = {t.name for t in proto.graph.initializer}
    return [v for v in proto.graph.input if v.name not in stored]


def _dims(value: ValueInfoProto) -> list[int | str]:
    """Each dimension as its size, or the name under which ``dims`` gives it."""
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        raise ModelError(
            f"The input {value.name!r} is a {(kind or 'value without type').removesuffix('_type')}; only tensors are supported."
        )
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        raise ModelError(f"The input {value.name!r} has no shape. Export the model with the number of its dimensions.")
    found: list[int | str] = []
    for axis, dim in enumerate(tensor.shape.dim):
        if dim.HasField("dim_value") and dim.dim_value >= 0:
            found.append(int(dim.dim_value))
        else:
            named = dim.dim_param if dim.dim_param not in _NAMELESS else ""
            found.append(named or f"{value.name}.{axis}")
    return found


def _bind_inputs(
    proto: ModelProto,
    dims: Mapping[str, int],
    constants: Mapping[str, Array],
    lowering: Lowering,
    scope: dict[str, str | None],
) -> None:
    known, problems = open_dims(proto), lowering.problems
    problems += _open_problems(known, dims, constants)
    problems += _size_problems(known, dims)
    names = [v.name for v in _inputs(proto)]
    for name in constants:
        if name not in names:
            problems.append(
                ModelError(f"The model has no input {name!r} to make constant; it has {', '.join(map(repr, names))}.")
            )
    if len(set(names)) < len(names):
        problems.append(ModelError("Two inputs have the same name. Export the model anew."))
    if problems:
        return
    for value in _inputs(proto):
        lowering._collect(lambda value=value: _bind(value, dims, constants, lowering, scope))


def _open_problems(
    known: Mapping[str, list[str]], dims: Mapping[str, int], constants: Mapping[str, Array]
) -> list[ModelError]:
    """One problem for all dimensions that neither ``dims`` nor a constant's shape gives."""
    open_dims = [d for d in known if d not in dims and not all(w.rsplit("[", 1)[0] in constants for w in known[d])]
    if not open_dims:
        return []
    where = "; ".join(f"{d!r} ({', '.join(known[d][:3])})" for d in open_dims)
    said = f"The model leaves dimensions open: {where}. Choose a size for each."
    return [ModelError(said, hint=Hint("dims", dict.fromkeys(open_dims, 1)))]


def _size_problems(known: Mapping[str, list[str]], dims: Mapping[str, int]) -> list[ModelError]:
    """A problem for each of ``dims`` that the model does not have, or whose size is none."""
    problems = []
    for name, size in dims.items():
        if name not in known:
            listed = f"it has {', '.join(map(repr, known))}" if known else "all of its dimensions are fixed"
            problems.append(ModelError(f"The model has no open dimension {name!r}; {listed}."))
        elif not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 1 << 31:
            said = f"The dimension {name!r} needs a whole number from 0 to {(1 << 31) - 1}, not {size!r}."
            problems.append(ModelError(said))
    return problems


def _bind(
    value: ValueInfoProto,
    dims: Mapping[str, int],
    constants: Mapping[str, Array],
    lowering: Lowering,
    scope: dict[str, str | None],
) -> None:
    scope[value.name] = None
    dtype = element_type(value.type.tensor_type.elem_type, f"The input {value.name!r}")
    given = constants.get(value.name)
    shape = tuple(
        given.shape[axis]
        if isinstance(d, str) and d not in dims and given is not None and given.ndim > axis
        else int(dims.get(d, 0) if isinstance(d, str) else d)
        for axis, d in enumerate(_dims(value))
    )
    kind = TensorType(dtype, shape)
    if given is None:
        scope[value.name] = lowering.b.input(value.name, kind)
        return
    given = _converted(given, kind)
    if TensorType(DType.of(given.dtype), given.shape) != kind:
        raise ModelError(
            f"The constant for {value.name!r} is {given.dtype}{list(given.shape)}, but the input is {kind}."
        )
    scope[value.name] = lowering.b.constant(given)


def _converted(given: Array, kind: TensorType) -> Array:
    """The constant in the input's type, where nothing but the rounding of floats is lost; one number in a shape of ones."""
    array = given.reshape(kind.shape) if given.size == 1 == kind.elements else given
    with np.errstate(over="ignore", invalid="ignore"):
        made = array.astype(kind.dtype.numpy)
    floats = kind.dtype.is_float and (given.dtype.kind == "f" or given.dtype == made.dtype)
    whole = given.dtype.kind in "iub" and np.array_equal(made, array)
    return made if floats or whole else given


def _outputs(proto: ModelProto, lowering: Lowering, scope: Mapping[str, str | None]) -> dict[str, str]:
    outputs = {}
    for value in proto.graph.output:
        if value.name not in scope:
            lowering.problems.append(
                ModelError(f"Nothing computes the output {value.name[:80]!r}. Export the model anew.")
            )
        elif scope[value.name] is not None:
            outputs[value.name] = scope[value.name] or ""
        elif value.name in lowering.withheld:
            lowering.problems.append(lowering.withheld[value.name])
    if len(outputs) < len(proto.graph.output) and not lowering.problems:
        lowering.problems.append(ModelError("An output is listed twice or cannot be computed. Export the model anew."))
    return outputs
