"""What one inference of a program uses, as ``compiler.simulator.reservations`` counts it: units, slots, sums, memory lines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from compiler.isa import Flag, Op
from compiler.isa.binary import Binary
from compiler.simulator.forms import Array
from compiler.simulator.hazards import Accesses, distinct
from compiler.simulator.occupancy import Bytes, occupied
from compiler.simulator.reservations import Conflict, Reservations, Uses
from compiler.simulator.sequence import Sequence

_FIRST, _LAST = int(Flag.FIRST), int(Flag.LAST)
_FOREVER = 1 << 40  # cycles: longer than any program takes


@dataclass(frozen=True)
class Work:
    """The instructions of a program in time. ``unit``: by instruction the number of its unit among ``units``; ``beats`` and
    ``latency`` in cycles. ``accesses``: to lines that may be written; ``altered``: which of them may change their line."""

    binary: Binary
    line_bytes: int
    units: tuple[str, ...]
    unit: Array
    beats: Array
    latency: Array
    sequence: Sequence
    accesses: Accesses
    altered: Array
    touched: Bytes

    @property
    def cycle(self) -> Array:
        """By instruction when it issues."""
        return np.asarray(self.binary.instructions["cycle"].astype(np.int64))


class Demand:
    """The reservations of one inference; ``name`` says what a resource is."""

    def __init__(self, work: Work) -> None:
        m, line = work.binary.memory, work.line_bytes
        first, last = (m.constants + m.state) // line, (m.total - m.scratch) // line
        at = work.accesses.line
        arena = (at >= first) & (at < last)
        parts = [_units(work), _slots(work), _sums(work), _lines(work, at >= last)]
        self._names = ["the unit", "a weight slot", "accumulator rows", "a line of memory"]
        self._units = work.units
        self._starts = np.cumsum([0, *(int(part.resource.max(initial=-1)) + 1 for part in parts)])
        fixed = [
            part._replace(resource=part.resource + start) for part, start in zip(parts, self._starts, strict=False)
        ]
        self.reservations = Reservations(
            Uses(*(np.concatenate(column) for column in zip(*fixed, strict=True))),
            _lines(work, arena),
            m.copies,
            _least(work, at < first),
            int((work.cycle + work.latency + work.beats).max()),
        )

    def name(self, conflict: Conflict) -> str:
        """What two inferences would use at once."""
        if conflict.arena:
            return "a line of an arena"
        part = int(np.searchsorted(self._starts, conflict.resource, "right")) - 1
        return self._names[part] + (f" {self._units[conflict.resource]}" if part == 0 else "")


def _units(work: Work) -> Uses:
    return Uses(work.unit, work.cycle, work.cycle + work.beats)


def _slots(work: Work) -> Uses:
    """A weight slot is in use from the cycle in which a load changes it until the last product has read it."""
    records, cycle = work.binary.instructions, work.cycle
    loads = np.flatnonzero(records["opcode"] == Op.LOADW)
    begin = cycle + work.latency
    end = begin + work.beats
    using = np.flatnonzero(work.sequence.weights >= 0)
    np.maximum.at(end, work.sequence.weights[using], (cycle + work.beats)[using])
    place = records["unit"].astype(np.int64) << 8 | records["slot"]
    return Uses(place[loads], begin[loads], end[loads])


def _sums(work: Work) -> Uses:
    """Accumulator rows are taken from the issue of the product that starts sums to that of the one that completes them."""
    records, cycle = work.binary.instructions, work.cycle
    products = np.flatnonzero(records["opcode"] == Op.MATMUL)
    flags = records["flags"][products]
    if ((flags & (_FIRST | _LAST)) == (_FIRST | _LAST)).all():
        return Uses(*[np.empty(0, np.int64)] * 3)  # then none outlives its product, and the unit is taken for longer
    start = _chain_starts(work.sequence.before)[products]
    end = np.full(len(records), -1, np.int64)
    np.maximum.at(end, start, np.where(flags & _LAST, cycle[products] + 1, -1))
    first = products[(flags & _FIRST) != 0]
    ends = np.where(end[first] < 0, _FOREVER, end[first])
    low = records["row"][first].astype(np.int64)
    high = low + records["count1"][first]
    borders = distinct(np.concatenate([low, high]))
    low, high = np.searchsorted(borders, low), np.searchsorted(borders, high)
    count = high - low
    behind = np.repeat(np.cumsum(count) - count - low, count)
    row = np.arange(int(count.sum())) - behind
    plane = np.repeat(records["unit"][first].astype(np.int64), count)
    return Uses(plane * borders.size + row, np.repeat(cycle[first], count), np.repeat(ends, count))


def _chain_starts(before: Array) -> Array:
    """By instruction the first product of those whose sums it continues."""
    found, ahead = np.arange(before.size), before
    while (more := ahead >= 0).any():
        found = np.where(more, found[ahead], found)
        ahead = np.where(more, ahead[ahead], -1)
    return found


def _lines(work: Work, chosen: Array) -> Uses:
    """The uses of some lines, numbered from 0 on without gaps."""
    there = work.accesses if chosen.all() else Accesses(*(column[chosen] for column in work.accesses))  # there are many
    uses = occupied(there, work.cycle, work.touched)
    if not uses.resource.size:
        return uses
    return uses._replace(resource=np.cumsum(np.append(0, np.diff(uses.resource) != 0)))


def _least(work: Work, state: Array) -> int:
    """Cycles between inferences at which each meets states as the one before has left them: what may change a line comes
    behind all that the one before does there, and everything behind what the one before changed.

    Programs of the format before may be from a compiler that overlooked reads of the next value where it was written.
    """
    found = Accesses(*(column[state] for column in work.accesses))
    order = np.argsort(found.line, kind="stable")
    found, altered = Accesses(*(column[order] for column in found)), work.altered[state][order]
    issue = work.cycle[found.place >> 1]
    if not work.binary.derived:
        number = np.cumsum(np.append(0, np.diff(found.line) != 0))[: order.size]
        changed = np.full(order.size, -1, np.int64)
        np.maximum.at(changed, number, np.where(altered, issue, -1))
        kept = issue <= changed[number]
        found, altered, issue = Accesses(*(column[kept] for column in found)), altered[kept], issue[kept]
    if not altered.any():
        return 0
    starts = np.flatnonzero(np.append(True, np.diff(found.line) != 0))
    least = 0
    for begin, end in ((found.begin, found.end), (issue, issue)):
        late, early = np.where(altered, end, -_FOREVER), np.where(altered, begin, _FOREVER)
        for last, first in ((late, begin), (end, early)):
            apart = np.maximum.reduceat(last, starts) - np.minimum.reduceat(first, starts)
            least = max(least, int(apart.max()))
    return least
