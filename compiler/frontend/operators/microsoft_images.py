"""Operators of ``com.microsoft`` on pictures: channels last, and the groups and gates of diffusion models.

Their meaning is that of ONNX Runtime's contrib operators (its document ContribOperators).
"""

from __future__ import annotations

from compiler.frontend.op import Op, Rule
from compiler.frontend.operators.derived import derived, last_to_first, plain, single
from compiler.frontend.operators.elementwise import gelu
from compiler.frontend.operators.microsoft import activated


def _conv(op: Op) -> str:
    """A convolution of channels last, perhaps with something added and an activation; the filter is the standard's."""
    done = last_to_first(op, lambda x: single(derived(op, "Conv", x, *op.inputs[1:3])), op.x())
    if op.has(3):
        done = op.point(lambda x, z: x + z, done, op.x(3))
    return activated(op, done, op.reals("activation_params"))


def _max_pool(op: Op) -> str:
    return last_to_first(op, lambda x: single(derived(op, "MaxPool", x)), op.x())


def _group_norm(op: Op) -> str:
    return _grouped(op, op.x())


def _grouped(op: Op, value: str) -> str:
    """Normalised by groups of channels, scaled and moved per channel, perhaps with SiLU behind."""
    op.need(op.whole("activation", 0) in (0, 1), f"ends in the activation {op.whole('activation', 0)}.")
    groups, epsilon = op.whole("groups"), op.real("epsilon", 1e-5)

    def made(x: str) -> str:
        return plain(op, "GroupNormalization", x, op.x(1), op.x(2), num_groups=groups, epsilon=epsilon)

    done = last_to_first(op, made, value) if op.whole("channels_last", 1) else made(value)
    return op.point(lambda x: x * x.op("sigmoid"), done) if op.whole("activation", 0) else done


def _skip_group_norm(op: Op) -> tuple[str | None, ...]:
    """Input, what skips ahead and a bias, added up and normalised; the sum."""
    batch, channels = op.shape()[0], op.shape(1)[0]
    op.need(op.whole("channels_last", 1), "has its channels second. Export it with channels last.")
    skip = op.x(3)
    if op.rank(3) == 2:
        skip = op.b.reshape(skip, (batch, *([1] * (op.rank() - 2)), channels))
    total = op.point(lambda x, s: x + s, op.x(), skip)
    if op.has(4):
        total = op.point(lambda x, b: x + b, total, op.x(4))
    return _grouped(op, total), total


def _bias_split_gelu(op: Op) -> str:
    """The left half of input + bias times the Gelu of the right half."""
    total = op.point(lambda x, b: x + b, op.x(0), op.x(1))
    axis, half = op.rank() - 1, op.shape()[-1] // 2
    op.need(2 * half == op.shape()[-1], "has an odd number of elements.")
    left, right = (op.slice(total, axis, i * half, half) for i in (0, 1))
    return op.point(lambda x, y: x * gelu(y), left, right)


TABLE: dict[str, Rule] = {
    "NhwcConv": _conv,
    "NhwcFusedConv": _conv,
    "NhwcMaxPool": _max_pool,
    "GroupNorm": _group_norm,
    "SkipGroupNorm": _skip_group_norm,
    "BiasSplitGelu": _bias_split_gelu,
    "BiasAdd": lambda op: op.point(lambda x, b, s: x + b + s, op.x(0), op.x(1), op.x(2)),
}
