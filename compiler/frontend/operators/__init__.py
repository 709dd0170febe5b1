"""Lowering rules, one table per family of operators."""

from __future__ import annotations

from compiler.frontend.op import Rule
from compiler.frontend.operators import (
    attention,
    bounded,
    contraction,
    control,
    counting,
    dequantised,
    elementwise,
    indexing,
    layout,
    learners,
    microsoft,
    microsoft_attention,
    microsoft_codes,
    microsoft_images,
    microsoft_weights,
    ordering,
    quantised,
    recurrent,
    reduction,
    resizing,
    sampling,
    signal,
    spatial,
    support,
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
    **dequantised.TABLE,
    **recurrent.TABLE,
    **control.TABLE,
    **counting.TABLE,
    **attention.TABLE,
}

MICROSOFT: dict[str, Rule] = {
    **microsoft.TABLE,
    **microsoft_attention.TABLE,
    **microsoft_codes.TABLE,
    **microsoft_images.TABLE,
    **microsoft_weights.TABLE,
}
"""Operators of the domain ``com.microsoft`` that optimised and quantised models carry."""

OTHERS: dict[str, dict[str, Rule]] = {"com.microsoft": MICROSOFT, "ai.onnx.ml": {**learners.TABLE, **support.TABLE}}
"""Operators of other domains than the standard's."""
