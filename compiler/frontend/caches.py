"""Caches that a model hands on by concatenation: which inputs they are, and for which sizes the model is lowered.

A decoder as exporters write it reads ``past`` with as many rows as tokens came before and gives ``present``, which is ``past``
with the rows of the new tokens behind it. Its graph holds for one number of rows. So it is lowered for two, which shows what
follows the number of rows and what does not; ``compiler.frontend.grown`` makes one graph of both whose caches are variables.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from onnx import ValueInfoProto

from compiler.errors import Hint, ModelError
from compiler.frontend.tensors import ELEMENT_TYPES
from compiler.ir import DType, Graph, Join

Array = np.ndarray[Any, Any]
Names = tuple[str, str]  # of a cache: the input that it comes in by, the output that continues it
DimsOf = Callable[[ValueInfoProto], list[int | str]]
Lower = Callable[[Mapping[str, int], Mapping[str, Array]], Graph]
MASK = "mask"  # in the name of an input that says which rows count
LEAST_RANK = 3  # of a cache: heads, rows, elements


@dataclass(frozen=True)
class Growing:
    """Open dimensions by what they are. ``rows``: of caches. ``totals``: rows and new tokens together. ``masks``: inputs with
    a total, which the lengths of the caches replace."""

    rows: tuple[str, ...]
    totals: tuple[str, ...]
    masks: tuple[str, ...]


@dataclass(frozen=True)
class Cache:
    """One cache: its input, its output and the dimension along which it grows."""

    past: str
    present: str
    axis: int


def with_context(
    inputs: Sequence[ValueInfoProto],
    dims_of: DimsOf,
    given: Mapping[str, int],
    context: int,
    named: Sequence[Names],
    lower: Lower,
) -> Graph:
    """The graph whose caches are variables of ``context`` rows; ``lower`` lowers the model for dimensions and constants."""
    from compiler.frontend.grown import grown
    from compiler.ir.verifier import verify

    shape = growing(inputs, dims_of, given)
    tokens = new_tokens(inputs, dims_of, shape, given)
    if context <= tokens:
        raise ModelError(
            f"A run adds {tokens} tokens, which a context of {context} does not hold with one more. Choose a longer context."
        )
    rows = context - tokens
    another = (
        rows // 2 if rows > 3 else rows + 3
    )  # fewer where they can be: a table of positions may end with the context
    graph, other = (lower(*fixed(shape, inputs, dims_of, given, n, tokens)) for n in (rows, another))
    made = grown(graph, other, found_caches(graph, shape, rows, named), context)
    dims = ", ".join(f"{k}={v}" for k, v in sorted({**given, "context": context}.items()))
    return verify(replace(made, metadata={**made.metadata, "dims": dims}))


def growing(inputs: Sequence[ValueInfoProto], dims_of: DimsOf, given: Mapping[str, int]) -> Growing:
    """Sorts the dimensions that ``given`` leaves open. ``ModelError`` where none of them is of a cache."""
    shapes = {value.name: dims_of(value) for value in inputs}
    floats = [v.name for v in inputs if _is_float(v) and len(shapes[v.name]) >= LEAST_RANK]
    rows = dict.fromkeys(d for name in floats for d in _open(shapes[name][1:], given))
    if not rows:
        raise ModelError(
            "A context is given, but no input has rows that are left open, as a cache has. Leave the context out, or export "
            "the model with its caches as inputs whose number of rows is a named dimension."
        )
    known = {*given, *rows}
    masks = {name: d for name, dims in shapes.items() for d in _open(dims[-1:], known) if MASK in name.lower()}
    return Growing(tuple(rows), tuple(dict.fromkeys(masks.values())), tuple(masks))


def _open(dims: Sequence[int | str], known: Collection[str]) -> list[str]:
    return [d for d in dims if isinstance(d, str) and d not in known]


def _is_float(value: ValueInfoProto) -> bool:
    return ELEMENT_TYPES.get(value.type.tensor_type.elem_type, DType.I64).is_float


def fixed(
    shape: Growing,
    inputs: Sequence[ValueInfoProto],
    dims_of: DimsOf,
    given: Mapping[str, int],
    rows: int,
    tokens: int,
) -> tuple[dict[str, int], dict[str, Array]]:
    """All dimensions for caches of ``rows`` rows, and masks under which every row counts."""
    dims = {**given, **dict.fromkeys(shape.rows, rows), **dict.fromkeys(shape.totals, rows + tokens)}
    constants = {}
    for value in inputs:
        if value.name not in shape.masks:
            continue
        kind = ELEMENT_TYPES.get(value.type.tensor_type.elem_type, DType.F32)
        if kind.is_float:
            raise ModelError(
                f"The mask {value.name!r} holds floats, so nothing says how it marks what counts. Export it with whole "
                "numbers or truth values, 1 for what counts."
            )
        sizes = [dims.get(d, 0) if isinstance(d, str) else d for d in dims_of(value)]
        constants[value.name] = np.ones(sizes, kind.numpy)
    return dims, constants


def new_tokens(
    inputs: Sequence[ValueInfoProto],
    dims_of: DimsOf,
    shape: Growing,
    given: Mapping[str, int],
) -> int:
    """How many tokens one run adds, as the inputs say that are neither caches nor masks: their second dimension, else 1."""
    for value in inputs:
        dims = dims_of(value)
        names = {d for d in dims if isinstance(d, str)}
        if value.name in shape.masks or names & {*shape.rows, *shape.totals} or len(dims) < 2:
            continue
        size = dims[1]
        return given.get(size, 1) if isinstance(size, str) else int(size)
    return 1


def found_caches(graph: Graph, shape: Growing, rows: int, named: Sequence[Names]) -> list[Cache]:
    """Pairs of inputs and outputs in which the output is the input with new rows behind it; ``named``: those alone."""
    inputs = {name for name in graph.inputs if rows in graph.types[name].shape}
    joins = [n for n in graph.nodes if isinstance(n, Join) and n.output in graph.outputs and n.parts[0] in inputs]
    found = [Cache(n.parts[0], n.output, n.axis) for n in joins if len(n.parts) == 2]
    if named:
        return [_named(read, present, found) for read, present in named]
    if not found:
        raise ModelError(
            f"No output is an input with new rows behind it, although {', '.join(map(repr, shape.rows))} is left open. "
            "Export the model with outputs that hold the whole caches, or leave the context out and choose its size.",
            hint=Hint("dims", dict.fromkeys(shape.rows, rows)),
        )
    return found


def _named(past: str, present: str, found: Sequence[Cache]) -> Cache:
    for cache in found:
        if (cache.past, cache.present) == (past, present):
            return cache
    raise ModelError(
        f"The output {present!r} is not {past!r} with new rows behind it. Name pairs in which a Concat makes the output of "
        "the input and the new rows, or none to have them found."
    )
