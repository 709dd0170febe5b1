"""Instructions that differ only in where they work and when: what holds for all of a kind is found once.

A long program is many tiles of few operations. All of its rules about sizes, types and references depend on fields that a
kind has in common; the others may only not be too large, so the largest of each stands for all.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from compiler.isa.instruction import Instruction, Op

Array = np.ndarray[Any, Any]

# What may differ within a kind: rules ask of these only that they, or they and a count, are below a limit.
FREE: Final = ("unit", "slot", "cycle", "source", "row", "g0", "start1", "start2", "start3")
_FIXED: Final = (int(Op.LOADW), int(Op.BRANCH))  # their ``start3`` is not where a range begins


class Kind(NamedTuple):
    """``members``: positions in the program, ascending. ``first``: the first of them, ``most``: the same with the largest
    value of every free field."""

    members: Array
    first: Instruction
    most: Instruction


def kinds(records: Array) -> list[Kind]:
    """The instructions of a program by kind, in the order of their first members."""
    if not len(records):
        return []
    common = records.copy()
    for name in FREE:
        common[name] = np.where(np.isin(common["opcode"], _FIXED), common[name], 0) if name == "start3" else 0
    raw, size = common.tobytes(), common.dtype.itemsize
    seen: dict[bytes, int] = {}
    code = np.array([seen.setdefault(raw[at : at + size], len(seen)) for at in range(0, len(raw), size)])
    order = np.argsort(code, kind="stable")
    starts = np.searchsorted(code[order], np.arange(len(seen)))
    largest = [np.maximum.reduceat(records[name][order], starts).tolist() for name in FREE]
    firsts = records[order[starts]].tolist()
    found = []
    for members, row, most in zip(np.split(order, starts[1:]), firsts, zip(*largest, strict=True), strict=True):
        first = Instruction(*row)
        found.append(Kind(members, first, first._replace(**dict(zip(FREE, most, strict=True)))))
    return found
