"""The latest starts that leave a schedule's end, and the order on every resource, as they are.

Where a tile can wait without making anything else late says how urgent it is, with everything that contends for units
counted in. Source: the backward pass of forward-backward improvement (Li and Willis 1992, for projects with resources).
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from compiler.schedule.insert import Placement
    from compiler.schedule.problem import Problem


def latest(p: Problem, placed: Placement, pinned: bool = False) -> list[int]:
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
    slots: dict[tuple[int, int], list[int]] = defaultdict(list)
    used = (n for n in range(len(start)) if start[n] >= 0)
    for n in sorted(used, key=lambda n: (start[n], p.unit[n] == "matrix", n)):
        lines[p.unit[n], placed.instance[n]].append(n)
        if n in placed.slot:
            slots[placed.instance[n], placed.slot[n]].append(n)
    for sequence in lines.values():
        for n, m in pairwise(sequence):
            found[n].append((m, p.beats[n]))
    for sequence in slots.values():
        _slot(p, sequence, found)
    _memory(p, placed, found)
    return found


def _memory(p: Problem, placed: Placement, found: list[list[tuple[int, int]]]) -> None:
    """Writes that wait for other writes or for reads, and products whose weights came with an earlier LOADW."""
    start = placed.start
    for n, mates in p.mates.items():
        for m, _, ahead in mates:
            if 0 <= start[n] < start[m]:
                found[n].append((m, ahead))
    for n, overwriting in p.held.items():
        found[n] += overwriting
    for served, serving in placed.serves.items():
        found[serving] += p.users[served]


def _slot(p: Problem, sequence: list[int], found: list[list[tuple[int, int]]]) -> None:
    """A LOADW waits for the products that use what lies in its slot."""
    load = -1
    for n in reversed(sequence):
        if p.unit[n] == "weights":
            load = n
        elif load >= 0:
            found[n].append((load, max(1, p.beats[n] - p.latency[load])))
