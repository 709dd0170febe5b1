"""Operators that are other operators with some inputs and attributes changed."""

from __future__ import annotations

import copy
from typing import Any

from onnx import helper

from compiler.frontend.op import Lowered, Op, tupled


def derived(op: Op, kind: str, *inputs: str | None, **attributes: Any) -> Lowered:
    """A standard operator's result with this operation's attributes, some of them changed."""
    from compiler.frontend.operators import RULES

    other = copy.copy(op)
    other.kind, other.inputs = kind, tuple(inputs)
    made = {name: helper.make_attribute(name, value) for name, value in attributes.items()}
    other.attributes = {**op.attributes, **made}
    return RULES[kind](other)


def single(result: Lowered) -> str:
    """The first result."""
    first = tupled(result)[0]
    assert first is not None
    return first
