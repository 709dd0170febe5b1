"""The latest starts that leave a schedule's end, and the order on every resource, as they are.

Where a tile can wait without making anything else late says how urgent it is, with everything that contends for units
counted in. Source: the backward pass of forward-backward improvement (Li and Willis 1992, for projects with resources).
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from compiler.scheduling.modulo_scheduler import Placement
from compiler.scheduling.problem import Problem


def alap_times(p: Problem, placed: Placement, pinned: bool = False) -> list[int]:
    """By tile its latest start; tiles that were dropped have -1. ``pinned``: what nobody waits for stays where it is, so
    that what it reads is not kept longer."""
    start = placed.start
    order = sorted((n for n in range(len(start)) if start[n] >= 0), key=lambda n: (-start[n], -n))
    late = [-1] * len(start)
    limits = _limits(p, placed)
    for n in order:
        bound = start[n] if pinned and not p.users[n] else placed.latency - p.end[n]
        for user, lag in p.users[n]:
            if start[user] >= 0 and late[user] - lag < bound:
                bound = late[user] - lag
        for user, gap in limits[n]:
            if late[user] - gap < bound:
                bound = late[user] - gap
        late[n] = bound
    return late


def _limits(p: Problem, placed: Placement) -> list[list[tuple[int, int]]]:
    """Per tile (n) what comes later on a resource, and how many cycles later it has to start at least."""
    start = placed.start
    found: list[list[tuple[int, int]]] = [[] for _ in start]
    lines: dict[tuple[str, int], list[int]] = defaultdict(list)
    used = (n for n in range(len(start)) if start[n] >= 0)
    for n in sorted(used, key=lambda n: (start[n], n)):
        lines[p.unit[n], placed.instance[n]].append(n)
    for sequence in lines.values():
        for n, m in pairwise(sequence):
            found[n].append((m, p.beats[n]))
    _slots(p, placed, found)
    _memory(p, placed, found)
    return found


def _memory(p: Problem, placed: Placement, found: list[list[tuple[int, int]]]) -> None:
    """Writes that wait for other writes or for reads, and products whose weights came with an earlier LOADW."""
    start = placed.start
    for n, output_dependences in p.output_dependences.items():
        for m, _, ahead in output_dependences:
            if 0 <= start[n] < start[m]:
                found[n].append((m, ahead))
    for n, overwriting in p.anti_dependences.items():
        found[n] += overwriting
    for served, serving in placed.serves.items():
        found[serving] += p.users[served]


def _slots(p: Problem, placed: Placement, found: list[list[tuple[int, int]]]) -> None:
    """What comes into a slot next arrives when the products that use what lies there have read it."""
    start = placed.start
    slots: dict[tuple[int, int], list[int]] = defaultdict(list)
    uses: dict[int, list[int]] = defaultdict(list)
    for chain in p.chains:
        for step in chain:
            uses[placed.serves.get(step.load, step.load)] += step.uses
    for load in uses:
        slots[placed.instance[load], placed.slot[load]].append(load)
    for loads in slots.values():
        loads.sort(key=lambda n: start[n])
        for load, following in pairwise(loads):
            for use in uses[load]:
                if start[use] < start[following]:
                    found[use].append((following, p.beats[use] - p.latency[following]))
