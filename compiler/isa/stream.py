"""Streams: how an operand's elements lie in memory, as nests of loops with byte strides.

A stream has three groups of loops: ``g0`` (which matrix of a batch), ``g1`` (rows) and ``g2`` (columns, or the inner
direction). An index into a group counts its points in row-major order, so any consecutive piece of a nest is a tile:
an instruction names a point of ``g0`` and a range of ``g1`` and of ``g2``. A group without loops is not used by the
operand, which is then repeated along it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from compiler.isa.element import SIZE


class Loop(NamedTuple):
    """``extent`` steps of ``stride`` bytes (which may be negative, or 0 to repeat)."""

    extent: int
    stride: int


Nest = tuple[Loop, ...]


def points(nest: Sequence[Loop]) -> int:
    """Points of a nest; 1 when it has no loops."""
    return prod(loop.extent for loop in nest)


@dataclass(frozen=True)
class Guard:
    """Elements with ``offset + sum(coefficient * loop)`` outside ``[0, extent)`` are the stream's ``fill``, not memory.

    ``coefficients``: one per loop of ``g0``, then ``g1``, then ``g2``.
    """

    extent: int
    offset: int
    coefficients: tuple[int, ...]


@dataclass(frozen=True)
class Stream:
    """An operand: element type, byte address of the element at the origin of all loops, loops, guards.

    ``base`` and every stride are multiples of the element's size. ``base`` itself may lie outside memory when guards keep
    the elements that are really read inside. ``fill`` is a value of ``dtype``.
    """

    dtype: str
    base: int
    g0: Nest = ()
    g1: Nest = ()
    g2: Nest = ()
    guards: tuple[Guard, ...] = ()
    fill: int | float = 0

    @property
    def size(self) -> int:
        """Bytes of one element."""
        return SIZE[self.dtype]

    @property
    def loops(self) -> Nest:
        return self.g0 + self.g1 + self.g2


@dataclass(frozen=True)
class GatherAxis:
    """One dimension of a gather's data whose coordinate is itself data.

    ``coordinate = offset + sum(coefficient * loop) + value``, where ``value`` is the element of the stream ``index`` (a
    reference: 1 + position in the table). A negative coordinate counts from ``extent``; one still outside is a fault.
    The coordinate adds ``coordinate * stride`` bytes to the address of the data stream.
    """

    index: int
    extent: int
    stride: int
    offset: int
    coefficients: tuple[int, ...]


@dataclass(frozen=True)
class Gather:
    axes: tuple[GatherAxis, ...]
