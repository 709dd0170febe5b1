"""The planes' weight slots and accumulators over a whole program: which LOADW and which earlier product each product uses.

The same rules as ``Processor`` applies product by product; here no values are needed, so they are followed first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from compiler.isa import Flag, Op
from compiler.isa.alike import Array
from compiler.isa.binary import Binary
from compiler.isa.meaning import accumulator
from compiler.isa.numbering import numbered
from compiler.simulator.placing import Unclear

_FIRST, _LAST = int(Flag.FIRST), int(Flag.LAST)


class Sequence(NamedTuple):
    """By instruction: ``weights``, the LOADW that a product uses; ``before``, the product that it continues (-1: none)."""

    weights: Array
    before: Array


def sequence(binary: Binary, beats: Array, latency: Array) -> Sequence:
    """What products use, by the positions of instructions; ``Unclear`` when a slot or a sum is not what they need."""
    records = binary.instructions
    weights = np.full(len(records), -1, np.int64)
    cycle = records["cycle"].astype(np.int64)
    place = records["unit"].astype(np.int64) << 8 | records["slot"]
    loads, products = (np.flatnonzero(records["opcode"] == op) for op in (Op.LOADW, Op.MATMUL))
    for number in np.flatnonzero(np.bincount(place[products])).tolist():
        mine, using = loads[place[loads] == number], products[place[products] == number]
        begin, until = cycle[mine] + latency[mine], cycle[using] + beats[using]
        at = np.minimum(np.searchsorted(mine, using), np.searchsorted(begin, cycle[using], "right")) - 1
        if int(at.min()) < 0:
            raise Unclear
        ready = begin + beats[mine]
        following = np.append(begin[1:], 1 << 62)  # when the slot is overwritten
        if (ready[at] > cycle[using]).any() or (until > following[at]).any() or (ready > following).any():
            raise Unclear
        weights[using] = mine[at]
    unused = loads[~np.isin(place[loads], place[products])]
    order = unused[np.argsort(place[unused], kind="stable")]
    same = np.diff(place[order]) == 0
    if (same & ((cycle + latency + beats)[order][:-1] > (cycle + latency)[order][1:])).any():
        raise Unclear
    _check_tiles(binary, products, weights[products])
    return Sequence(weights, _continued(binary, products))


def _check_tiles(binary: Binary, products: Array, loads: Array) -> None:
    """What the slot holds is of the size and the type that the product needs."""
    made, used = binary.instructions[loads], binary.instructions[products]
    types = np.array(["", *(stream.dtype for stream in binary.streams)])
    mine, others = types[used["a"]], types[made["a"]]
    same = (mine == others) | (np.isin(mine, ("i8", "u8")) & np.isin(others, ("i8", "u8")))
    for name in ("blocks", "offset"):
        same &= made[name] == used[name]
    same &= made["count1"] == used["count2"]
    same &= made["count2"] == used["count3"] // np.maximum(1, used["blocks"])
    if not same.all():
        raise Unclear


def _continued(binary: Binary, products: Array) -> Array:
    """By instruction the product whose sums it continues."""
    before = np.full(len(binary.instructions), -1, np.int64)
    records = binary.instructions[products]
    whole = (records["flags"] & (_FIRST | _LAST)) == (_FIRST | _LAST)
    types = [accumulator(stream.dtype) for stream in binary.streams]
    for unit in np.flatnonzero(np.bincount(records["unit"][~whole])).tolist():
        mine = records["unit"] == unit
        columns = [products[mine], *(records[name][mine] for name in ("flags", "row", "count1", "count3", "a"))]
        sums: dict[int, tuple[int, tuple[int, int, str]]] = {}
        for number, flags, row, rows, columns_, a in zip(*(column.tolist() for column in columns), strict=True):
            kind = (rows, columns_, types[a - 1])
            if not flags & _FIRST:
                last = sums.pop(row, (-1, None))
                if last[1] != kind:
                    raise Unclear
                before[number] = last[0]
            elif any(at < row + rows and row < at + held[0] for at, (_, held) in sums.items()):
                raise Unclear
            if not flags & _LAST:
                sums[row] = (number, kind)
    return before


def chained(sort: Array, before: Array) -> Array:
    """By instruction a number that two share whose ``sort`` is equal, and that of all that they continue, one by one.

    Every round tells apart twice as long stretches: a number stands for all that the rounds before have looked at.
    """
    found = sort
    while (more := before >= 0).any():
        _, found = numbered([found, np.where(more, found[before], -1)])
        before = np.where(more, before[before], -1)
    return found


def terms(own: Array, before: Array) -> Array:
    """By instruction how many products its sums have, with those of all that it continues (``own``: those of each)."""
    found = own.astype(np.int64)
    while (more := before >= 0).any():
        found[more] += found[before[more]]
        before = np.where(more, before[before], -1)
    return found
