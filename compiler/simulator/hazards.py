"""Every access of a stretch of a program to every memory line, checked at once, and what it says about order.

Accesses are sorted by line and position in the program. What each finds in its line is then what the last write before it
and the longest read before it left: the same rules as ``Window`` applies one after the other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from compiler.isa.alike import Array
from compiler.simulator.memory import NEVER
from compiler.simulator.placing import Unclear


class Accesses(NamedTuple):
    """Accesses to lines, in the order of ``place``: twice the position of the instruction, and one more for a write.
    ``begin``, ``end``: the cycles between which it works on the line. ``row``: of the table of forms' lines
    (``compiler.simulator.watch``), which of its bytes."""

    line: Array
    place: Array
    begin: Array
    end: Array
    row: Array


def checked(found: Accesses, ready: Array, read_end: Array) -> Array:
    """Pairs of instructions that one has to run before the other, as (later << 32 | earlier), each once.

    ``ready``, ``read_end``: by line when it can be read and until when it is read, at the beginning; brought up to the end.
    ``Unclear`` when an access is too early.
    """
    if not found.line.size:
        return np.empty(0, np.int64)
    order = ascending(found.line - int(found.line.min()))
    line, place, begin, end = (column[order] for column in found[:4])
    write = (place & 1).astype(np.bool_)
    position = np.arange(len(line))
    new = np.append(True, line[1:] != line[:-1])
    starts = np.flatnonzero(new)
    segment = np.cumsum(new) - 1
    start = starts[segment]
    last = np.maximum.accumulate(np.where(write, position, -1))
    before = np.append(-1, last[:-1])
    written = before >= start
    there = np.where(written, end[before], ready[line])
    until = longest(np.where(write, 0, end), segment, starts, read_end[line[starts]])
    late = there > begin
    if (late & ~(write & (there == NEVER))).any() or (write & (until > begin)).any():
        raise Unclear
    stops = np.append(starts[1:], len(line)) - 1
    read_end[line[stops]] = until[stops]
    done = stops[last[stops] >= starts]
    ready[line[done]] = end[last[done]]
    number = place >> 1
    following = np.minimum.accumulate(np.where(write, position, len(line))[::-1])[::-1]
    read = ~write & (following <= stops[segment])
    pairs = np.concatenate(
        (number[written] << 32 | number[before[written]], number[following[read]] << 32 | number[read])
    )
    return distinct(pairs[pairs >> 32 != pairs & 0xFFFFFFFF])


def ascending(key: Array) -> Array:
    """Positions of whole numbers from 0 on in their order, equal ones in that of their positions. (By 16 bits at a time,
    which NumPy counts: a sort of all 64 compares.)"""
    order = np.argsort(key.astype(np.uint16), kind="stable")
    for shift in range(16, int(key.max(initial=0)).bit_length(), 16):
        digit = (key >> shift).astype(np.uint16)
        if digit.any():
            order = order[np.argsort(digit[order], kind="stable")]
    return order


def distinct(pairs: Array) -> Array:
    """In ascending order, each once. (``np.unique`` goes through a hash table, which takes several times as long.)"""
    pairs = pairs[ascending(pairs)]
    return pairs[np.append(True, pairs[1:] != pairs[:-1])] if pairs.size else pairs


def longest(end: Array, segment: Array, starts: Array, given: Array) -> Array:
    """The largest of ``end`` so far in each segment, and of what was ``given`` to it."""
    end[starts] = np.maximum(end[starts], given)
    above = segment * (int(end.max()) + 1)
    return np.asarray(np.maximum.accumulate(end + above) - above)
