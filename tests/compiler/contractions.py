"""Random chains of contractions of every kind, and a processor so small that they need many passes of few sums each."""

from dataclasses import replace

import numpy as np

from compiler import targets
from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.graph import Operand
from compiler.ir.terms import arg
from compiler.ir.types import DType, TensorType

F32, I8, I32 = DType.F32, DType.I8, DType.I32


def small(depth=8, width=6, lanes=8, alus=2, planes=2, slots=2, name="lpu"):
    """A processor with tiny planes, links of no cost and short latencies: passes, remainders and shared passes decide."""
    target = targets.load(name)
    tiles = dict.fromkeys(target.matrix.tiles, (depth, width))
    free = {"bytes_per_cycle": 1 << 20, "latency": 1}
    return replace(
        target,
        matrix=replace(
            target.matrix, tiles=tiles, alus=alus, instances=planes, accumulator_rows=64, latency=2, slots=slots
        ),
        weights=replace(target.weights, instances=planes, **free),
        vector=replace(target.vector, lanes=lanes, latency=2),
        link_in=replace(target.link_in, **free),
        link_out=replace(target.link_out, **free),
    )


class Maker:
    """Draws contractions from ``rng`` one after another; every tensor is (channels, height, width) of one type."""

    def __init__(self, rng, dtype, most=12):
        self.rng, self.dtype, self.most = rng, dtype, most
        self.b = Builder("contractions")
        self.sums = I32 if dtype == I8 else F32

    def number(self, low, high):
        return int(self.rng.integers(low, high + 1))

    def constant(self, shape):
        if self.dtype == I8:
            return self.b.constant(self.rng.integers(-9, 9, shape).astype(np.int8))
        return self.b.constant(self.rng.standard_normal(shape).astype(np.float32))

    def post(self, loops, values):
        """An epilogue of some length, perhaps with a residual: its expression and the operands that it reads."""
        total = arg(-1, self.sums)
        if self.dtype == F32:
            done = total * 0.5 if self.rng.random() < 0.5 else total
            same = [v for v in values if self.b.shape(v) == loops[:3]]
            if same and self.rng.random() < 0.7:
                return done.op("max", arg(2, F32)) + 1.0, [Operand(same[0], Access.identity(3, len(loops)))]
            return (done.op("sigmoid") if self.rng.random() < 0.3 else done), []
        return total.op("min", 100).op("max", -100).cast(I8), []

    def convolution(self, x, values):
        """Grouped or dense, strided, padded; answers None where the window does not fit."""
        c, h, w = self.b.shape(x)
        window, stride, pad = self.number(1, 3), self.number(1, 2), self.number(0, 1)
        high, wide = ((n + 2 * pad - window) // stride + 1 for n in (h, w))
        if min(high, wide) < 1:
            return None
        fill = 0 if pad else None
        left, right = arg(0, self.dtype), arg(1, self.dtype)
        if self.rng.random() < 0.4:  # a filter of its own for every channel
            weights = self.constant((c, window, window))
            loops = (c, high, wide, window, window)
            image = Access((0, -pad, -pad), ((1, 0, 0, 0, 0), (0, stride, 0, 1, 0), (0, 0, stride, 0, 1)))
            kernel = Access((0, 0, 0), ((1, 0, 0, 0, 0), (0, 0, 0, 1, 0), (0, 0, 0, 0, 1)))
        else:
            filters = self.number(1, self.most)
            weights = self.constant((filters, c, window, window))
            loops = (filters, high, wide, window, window, c)
            image = Access((0, -pad, -pad), ((0, 0, 0, 0, 0, 1), (0, stride, 0, 1, 0, 0), (0, 0, stride, 0, 1, 0)))
            rows = ((1, 0, 0, 0, 0, 0), (0, 0, 0, 0, 0, 1), (0, 0, 0, 1, 0, 0), (0, 0, 0, 0, 1, 0))
            kernel = Access((0, 0, 0, 0), rows)
        post, extra = self.post(loops, values)
        operands = [Operand(x, image, fill), Operand(weights, kernel), *extra]
        return self.b.compute(loops, operands, self.product(left, right), parallel=3, reducer="sum", post=post)

    def product(self, left, right):
        return left.widen("mul", right, I32) if self.dtype == I8 else left * right

    def heads(self, x, other):
        """A batch of products of two run-time values, as attention has them."""
        (c, h, w), n = self.b.shape(x), self.b.shape(other)
        if n[0] != c or n[2] != w:
            return None
        left, right = arg(0, self.dtype), arg(1, self.dtype)
        one = Access((0, 0, 0), ((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 0, 1)))
        two = Access((0, 0, 0), ((1, 0, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)))
        post, _ = self.post((), [])
        operands = [Operand(x, one), Operand(other, two)]
        return self.b.compute(
            (c, h, n[1], w), operands, self.product(left, right), parallel=3, reducer="sum", post=post
        )

    def graph(self, operations):
        b = self.b
        shape = (self.number(1, self.most), self.number(1, self.most), self.number(1, self.most))
        values = [b.input("x", TensorType(self.dtype, shape))]
        for number in range(operations):
            b.source = (f"op{number}",)
            x, other = (values[self.number(0, len(values) - 1)] for _ in range(2))
            made = self.heads(x, other) if self.rng.random() < 0.3 else self.convolution(x, values)
            if made is not None:
                values.append(made)
        b.source = ("out",)
        return b.finish({f"y{n}": v for n, v in enumerate(dict.fromkeys(values[-2:]))}, {}, {})


def contractions(rng, operations, dtype=F32, most=12):
    """A graph of that many contractions at most, of extents up to ``most``."""
    return Maker(rng, dtype, most).graph(operations)
