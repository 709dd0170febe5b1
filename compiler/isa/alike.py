"""Instructions that differ only in where they work and when: what holds for all of a kind is found once.

A long program is many tiles of few operations. All of its rules about sizes, types and references depend on fields that a
kind has in common; the others may only not be too large, so the largest of each stands for all.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from compiler.isa.element import SIZE
from compiler.isa.instruction import Instruction, Op
from compiler.isa.numbering import numbered

Array = np.ndarray[Any, Any]

# What may differ within a kind: rules ask of these only that they, or they and a count, are below a limit.
FREE: Final = ("unit", "slot", "cycle", "source", "row", "g0", "start1", "start2", "start3", "offset")
_FIXED: Final = (int(Op.LOADW), int(Op.BRANCH))  # their ``start3`` is not where a range begins
_TRANSFERS: Final = (
    int(Op.RECV),
    int(Op.SEND),
    int(Op.FETCH),
)  # only their ``offset`` is a place: that of whole elements
_ELEMENT: Final = max(SIZE.values())  # bytes; smaller elements divide it


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
    firsts, code = numbered([_common(records, name) for name in records.dtype.names])
    place = np.argsort(np.argsort(firsts))
    order = np.argsort(place[code], kind="stable")
    starts = np.append(0, np.cumsum(np.bincount(place[code]))[:-1])
    largest = [np.maximum.reduceat(records[name][order], starts).tolist() for name in FREE]
    firsts = records[order[starts]].tolist()
    found = []
    for members, row, most in zip(np.split(order, starts[1:]), firsts, zip(*largest, strict=True), strict=True):
        first = Instruction(*row)
        found.append(Kind(members, first, first._replace(**dict(zip(FREE, most, strict=True)))))
    return found


def _common(records: Array, name: str) -> Array:
    """What members of a kind have in common of a field."""
    column, operation = records[name].astype(np.int64), records["opcode"]
    if name not in FREE:
        return column
    if name == "start3":
        return np.where(np.isin(operation, _FIXED), column, 0)
    if name == "offset":
        return np.where(np.isin(operation, _TRANSFERS), column % _ELEMENT, column)
    return np.zeros(1, np.int64)
