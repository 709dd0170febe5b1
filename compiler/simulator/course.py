"""The course of inferences through a program: when each instruction issues, and what branches skip."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from itertools import accumulate

from compiler.errors import ModelError
from compiler.isa import Op
from compiler.isa.binary import Binary
from compiler.isa.paths import longest
from compiler.simulator.prepare import Preparation, Prepared

Issue = Callable[[Prepared, int, int], bool]


def follow(program: Sequence[Prepared], starts: Sequence[int], issue: Issue) -> None:
    """Issue the instructions of all inferences in the order of their cycles; within a cycle the older inference first.

    ``starts``: the cycle at which each inference begins, ascending. ``issue(instruction, cycle, inference)`` executes one and
    answers whether it skips what it is a branch over; then everything behind comes that much earlier.
    """
    if not program:
        return
    early = [0] * len(starts)
    heap: list[tuple[int, int, int]] = []
    begun = 0
    first = program[0].i.cycle
    while heap or begun < len(starts):
        while begun < len(starts) and (not heap or starts[begun] + first <= heap[0][0]):
            heapq.heappush(heap, (starts[begun] + first, begun, 0))
            begun += 1
        cycle, inference, number = heapq.heappop(heap)
        p = program[number]
        number += 1
        if issue(p, cycle, inference):
            number += p.i.count3
            early[inference] += p.i.start3
        if number < len(program):
            heapq.heappush(heap, (starts[inference] + program[number].i.cycle - early[inference], inference, number))


def check_branches(preparation: Preparation, program: Sequence[Prepared]) -> None:
    """Nothing is under way at a branch and where it lands, and inferences of a program with branches do not overlap.

    Then every way through the program is as legal as the way that skips nothing: distances change only where the machine
    is idle. ``SimulationError`` names the branch.
    """
    rows = [p.i for p in program]
    places = [n for n, i in enumerate(rows) if i.opcode == Op.BRANCH]
    if not places:
        return
    ends = [p.i.cycle + p.timing.end for p in program]
    latest = list(accumulate(ends, max, initial=0))
    for n in places:
        p = program[n]
        decided = p.i.cycle + p.timing.end
        landing = n + 1 + p.i.count3
        for position, cycle, where in (
            (n, p.i.cycle, "when it issues"),
            (n + 1, decided, "before it has decided"),
            (landing, decided + p.i.start3, "where it lands"),
        ):
            after = rows[position].cycle if position < len(rows) else cycle
            if latest[position] > cycle or after < cycle:
                raise preparation.error(n, p.i, f"something is under way {where}")
    bound, _ = longest(rows, ends)
    if preparation.binary.interval < bound:
        said = f"the next inference begins before the {bound} cycles that it may take"
        raise preparation.error(places[0], rows[places[0]], said)


def check_latency(binary: Binary, program: Sequence[Prepared]) -> None:
    """``ModelError`` unless the latency that the program states is when its last instruction ends, on the longest way."""
    ends, _ = longest([p.i for p in program], [p.i.cycle + p.timing.end for p in program])
    if ends != binary.latency:
        raise ModelError(
            f"the program states a latency of {binary.latency} cycles, its instructions take {ends}; compile the model again"
        )
