"""What all tilings share: the space, the tiles made so far, relayouts, and small helpers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from math import gcd
from typing import Any

import numpy as np

from compiler.ir import Access, Expr, Graph, Guard, Operand
from compiler.isa import Instruction, Op, Program, Step
from compiler.passes.rewriter import fresh
from compiler.targets import Target
from compiler.tiling import chains, uses
from compiler.tiling import place as pl
from compiler.tiling.budget import Tiles
from compiler.tiling.cut import Cut
from compiler.tiling.layout import Layout
from compiler.tiling.space import Space

COPIED = 8  # values that may be copied are at most this part of memory

Groups = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


@dataclass
class Tiler:
    """``chains``: the contractions' work, not yet given to planes. ``copies``, ``packed``: made once, by what they are of."""

    graph: Graph
    target: Target
    layout: Layout
    space: Space
    tiles: Tiles = field(default_factory=Tiles)
    chains: list[list[chains.Step]] = field(default_factory=list)
    copies: dict[tuple[str, tuple[int, ...], str], str] = field(default_factory=dict)
    packed: dict[object, str] = field(default_factory=dict)
    drafts: dict[tuple[str, int, str], str] = field(default_factory=dict)  # buffers of copies that may yet be made
    cuts: dict[object, Cut] = field(default_factory=dict)  # of contractions, by their form
    sparing: bool = False  # memory is short: no copy is made for the sake of cycles alone
    once: frozenset[str] = frozenset()  # constants that there is no room for a second time, packed for the planes
    low_latency: bool = True  # latency counts, not the interval alone
    slotted: bool = False  # chains go round the planes so that one's products hide another's loads
    spare: int = 0  # cycles of work that a vector unit can take on without being what the interval waits for
    coming: int = 0  # cycles for which the inputs come in
    elsewhere: dict[str, bool] = field(
        default_factory=dict
    )  # whether contractions are on a vector unit, all strips alike
    source: int = 0
    guard: Guard | None = None  # of the node whose tiles are made

    @cached_property
    def used(self) -> Counter[str]:
        """By value how many contractions it is a factor of."""
        return uses.factors(self.graph)

    @property
    def branch(self) -> str:
        """What sets names made in a branch apart from those outside, where nothing made in the branch is there."""
        return "" if self.guard is None else f"{'?' if self.guard.holds else '!'}{self.guard.value}"

    def instruction(self, op: Op, rows: pl.Range, inner: pl.Range, **fields: int) -> Instruction:
        """An instruction of the operation at hand over some rows and inner points; ``fields``: its references."""
        spans = {"start1": rows[0], "count1": rows[1], "start2": inner[0], "count2": inner[1]}
        return Instruction(op, 0, source=self.source, **spans, **fields)

    def may_copy(self, value: str) -> bool:
        """Whether there is room for a value a second time, where a copy of it would save cycles."""
        size = self.graph.types[value].bytes
        return not self.sparing and size * COPIED <= self.target.memory_bytes and self.target.move.instances > 0

    def place(self, value: str) -> pl.Place:
        return self.layout.places[value]

    def is_constant(self, value: str) -> bool:
        return value in self.graph.constants

    def read(self, operand: Operand, extents: tuple[int, ...], groups: Groups, place: pl.Place | None = None) -> int:
        """Reference of the stream of an operand."""
        home = place or self.place(operand.value)
        self.whole(home)
        return self.space.stream(pl.stream(home, operand.access, extents, groups, operand.fill))

    def write(self, value: str, extents: tuple[int, ...], parallel: int, groups: Groups) -> int:
        """Reference of the stream that writes a value whose dimensions are the first ``parallel`` loops."""
        home = self.place(value)
        return self.space.stream(pl.stream(home, Access.identity(parallel, len(extents)), extents, groups))

    def fresh(self, base: str) -> str:
        """A name for a buffer or a value that neither the graph nor anything made so far has, called after ``base``."""
        return fresh(base, self.graph.types, self.space.buffers, self.layout.roots)

    def store(self, key: object, base: str, make: Callable[[], np.ndarray[Any, Any]], size: int | None = None) -> str:
        """The buffer of what ``make`` makes of the constant ``base``, stored once for each ``key``. With its ``size`` in bytes it
        is made when the program is written: there are as many of them as the model has weights."""
        if key not in self.packed:
            name = self.packed[key] = self.fresh(f"{base}:{len(self.packed)}")
            if size is None:
                self.space.constant(name, make())
            else:
                self.space.buffer(name, "constant", size, make)
        return self.packed[key]

    def whole(self, place: pl.Place) -> None:
        """Make sure that a constant read as it stands in the model is in memory."""
        if place.buffer in self.graph.constants and place.buffer not in self.space.buffers:
            self.space.constant(place.buffer, self.graph.constants[place.buffer])

    def storage_order(self, value: str, loops: list[int]) -> list[int]:
        """Parallel loops (= dimensions of ``value``) from the outermost in memory to the innermost."""
        strides = self.place(value).strides
        return sorted(loops, key=lambda i: (-abs(strides[i]), i))


def program(expr: Expr, places: dict[int, int], loops: dict[int, int]) -> Program:
    """An expression as a program: operand positions and loop numbers renamed."""
    steps = []
    for s in expr.steps:
        imm = s.imm
        if s.op == "arg" and imm != -1:
            imm = places[int(imm or 0)]
        elif s.op == "index":
            imm = loops[int(imm or 0)]
        steps.append(Step(s.op, s.args, s.dtype.value, imm))
    return Program(tuple(steps))


def aligned(rows: int, pitch: int, line: int) -> int:
    """The nearest number of rows (at least one step) whose end falls on a line, for a row pitch in bytes."""
    step = line // gcd(abs(pitch), line) if pitch else 1
    return max(step, round(rows / step) * step)


def pieces(total: int, size: int) -> list[pl.Range]:
    """``total`` cut into runs of ``size``; the last may be shorter."""
    return [(at, min(size, total - at)) for at in range(0, total, size)]
