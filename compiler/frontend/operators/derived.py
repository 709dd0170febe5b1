"""Operators that are other operators with some inputs and attributes changed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from onnx import helper

from compiler.frontend.op import Lowered, Op, tupled


def derived(op: Op, kind: str, *inputs: str | None, **attributes: Any) -> Lowered:
    """A standard operator's result with this operation's attributes, some of them changed."""
    return _applied(op, kind, inputs, attributes, alone=False)


def plain(op: Op, kind: str, *inputs: str | None, **attributes: Any) -> str:
    """A standard operator's first result with these attributes alone."""
    return single(_applied(op, kind, inputs, attributes, alone=True))


def _applied(
    op: Op, kind: str, inputs: tuple[str | None, ...], attributes: Mapping[str, Any], *, alone: bool
) -> Lowered:
    from compiler.frontend.operators import RULES

    other = copy.copy(op)
    other.kind, other.inputs = kind, inputs
    made = {name: helper.make_attribute(name, value) for name, value in attributes.items()}
    other.attributes = op.attributes.changed(made, alone=alone)
    return RULES[kind](other)


def other_inputs(op: Op, *inputs: str | None) -> Op:
    """The same operation of other values."""
    other = copy.copy(op)
    other.inputs = inputs
    return other


def last_to_first(op: Op, make: Callable[[str], str], value: str) -> str:
    """``make`` of a value whose channels come last, as if they came second; the result's come last again."""
    rank = len(op.b.shape(value))
    op.need(rank > 2, "has no dimensions beside batch and channels.")
    done = make(op.transpose(value, (0, rank - 1, *range(1, rank - 1))))
    return op.transpose(done, (0, *range(2, rank), 1))


def single(result: Lowered) -> str:
    """The first result."""
    first = tupled(result)[0]
    assert first is not None
    return first
