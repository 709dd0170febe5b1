"""Lowering rules, one table per family of operators."""

from __future__ import annotations

from compiler.frontend.op import Rule
from compiler.frontend.operators import (
    attention,
    bounded,
    contraction,
    control,
    counting,
    elementwise,
    indexing,
    layout,
    ordering,
    quantised,
    recurrent,
    reduction,
    resizing,
    sampling,
    signal,
    spatial,
    suppression,
)

RULES: dict[str, Rule] = {
    **elementwise.TABLE,
    **ordering.TABLE,
    **bounded.TABLE,
    **suppression.TABLE,
    **layout.TABLE,
    **contraction.TABLE,
    **spatial.TABLE,
    **reduction.TABLE,
    **indexing.TABLE,
    **resizing.TABLE,
    **sampling.TABLE,
    **signal.TABLE,
    **quantised.TABLE,
    **recurrent.TABLE,
    **control.TABLE,
    **counting.TABLE,
    **attention.TABLE,
}
