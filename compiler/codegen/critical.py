"""Whose the cycles of the latency are: the chain of instructions that the end waited for, and nobody's slack.

Every instruction has a cycle before which it cannot begin, whatever the schedule does with time that it has to spare: behind

- the results that it uses, line by line, and the weights that its products use;
- the instruction before it on its unit;
- who reads, or also writes, what it overwrites; for a load, the products that use what lies in its slot;
- another inference that holds its unit, where inferences overlap. (Not for loads of weights: they are placed backwards
  from their products, beside another one's or not.)

The chain goes from the last byte that is written to what keeps each of its instructions from beginning earlier still, down
to cycle 0: the longest way of an activity network whose resources have a given order. A load that was issued just in time,
a part of an image that was received no earlier than needed, any instruction with slack is therefore not on it for that.
Source: critical chains of projects with resources (Wiest, "Some properties of schedules for large projects with limited
resources", 1964).
"""

from __future__ import annotations

from collections import defaultdict

from compiler.scheduling.build import Plan

SUPPLIES = ("weights", "external", "link_in")  # their work uses no results: when it is done is a matter of choice
ABSENT = -(1 << 60)  # begin of an instruction that is not on the way


def critical_path(plan: Plan) -> list[int]:
    """Cycles of the latency by source operation; their sum is the latency. With branches: of the longest way.

    An instruction of the chain has the cycles from when it could begin to when the next one could. So what it waits for
    besides (a line, a slot, another inference) is its own time; where a supply came later than it could have, that is
    the time of those who use it.
    """
    share = [0] * len(plan.names)
    if not plan.tiles:
        return share
    tiles = plan.tiles
    start = {n: plan.start[n] - skipped for n, skipped in plan.way or ((n, 0) for n in range(len(tiles)))}
    earliest, reached, cause = _earliest(plan, start, _held(plan, start))
    chain = [max(start, key=lambda n: (start[n] + tiles[n].end, earliest[n] - start[n], -n))]
    while cause[chain[-1]] >= 0:
        chain.append(cause[chain[-1]])
    late, since = 0, []  # by how much the chain is later than it could be, and when each of it could begin then
    for n in reversed(chain):
        since.append(reached[n] + late)
        own = start[n] - earliest[n]
        late = min(late, own) if tiles[n].unit[0] in SUPPLIES else own
    until = plan.latency
    for n, at in zip(chain, reversed(since), strict=True):
        begun = min(at, until)  # a load may be on its way before the products whose slot it takes begin
        share[tiles[n].instruction.source] += until - begun
        until = begun
    return share


def _earliest(plan: Plan, start: dict[int, int], held: dict[int, int]) -> tuple[list[int], list[int], list[int]]:
    """By tile when it could begin, when as far as its own inference goes, and the tile that keeps it until then (-1: none).

    Tiles are gone through as they begin, loads as they arrive: behind all that they wait for. (Only who overwrites what a
    load reads may come before the load's arrival; he waits for the tile that made it, too.)
    """
    tiles, data, holds = plan.tiles, plan.needs.data, plan.needs.anti_dependences
    earliest, reached, cause = [ABSENT] * len(tiles), [0] * len(tiles), [-1] * len(tiles)
    before: dict[tuple[str, int], tuple[int, int]] = {}  # by unit its last tile, and when it could leave
    used: dict[tuple[int, int], tuple[int, int]] = {}  # by plane and slot likewise the last product
    arrival = {n: s + tiles[n].latency if tiles[n].unit[0] == "weights" else s for n, s in start.items()}
    for n in sorted(start, key=arrival.__getitem__):
        tile = tiles[n]
        unit = tile.unit
        at, why = before.get(unit, (0, -1))
        if unit[0] == "weights":
            left, product = used.get((unit[1], tile.instruction.slot), (0, -1))
            at, why = max((at, why), (left - tile.latency, product))
        for b, lag in data[n].items():
            there = earliest[b] + lag
            if there > at or (there == at and b > why):
                at, why = there, b
        for b, lag in holds[n].items():
            at, why = max((at, why), (earliest[b] + lag, b))
        reached[n], cause[n] = at, why
        earliest[n] = at = max(at, held.get(n, 0))
        before[unit] = at + tile.beats, n
        if unit[0] == "matrix":
            used[unit[1], tile.instruction.slot] = before[unit]
    return earliest, reached, cause


def _held(plan: Plan, start: dict[int, int]) -> dict[int, int]:
    """Until when another inference holds the unit of a tile, of those that follow one there."""
    period = plan.interval
    if period >= plan.latency:
        return {}
    units: dict[tuple[str, int], list[tuple[int, int, int]]] = defaultdict(list)
    for n, s in start.items():
        if plan.tiles[n].unit[0] != "weights":
            turn, cycle = divmod(s, period)
            units[plan.tiles[n].unit].append((cycle, n, turn))
    found = {}
    for sequence in units.values():
        sequence.sort()
        cycle, b, turn = sequence[-1]
        cycle, turn = cycle - period, turn + 1
        for at, n, own in sequence:
            if turn != own:
                found[n] = max(0, start[n] - at + cycle + plan.tiles[b].beats)
            cycle, b, turn = at, n, own
    return found
