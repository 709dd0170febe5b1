"""If and Loop: what is known at compile time is taken or unrolled, the rest is guarded by what decides it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from compiler.errors import Hint
from compiler.frontend.op import Op, Rule
from compiler.frontend.operators.scan import scan
from compiler.ir import Access, DType, Guard, Operand

_TRIPS = 1 << 14  # trips that are unrolled when it is known that they run
_GUARDED = 1 << 10  # and when every trip asks whether it still does


def _if(op: Op) -> tuple[str | None, ...]:
    op.need(op.b.types[op.x(0)].elements == 1, "its condition is not one truth value.")
    known = op.b.known(op.x(0))
    assert op.body is not None
    if known is not None:
        return op.body(op.graph("then_branch" if bool(known.reshape(-1)[0]) else "else_branch"), {})
    condition, outer = _here(op, op.x(0)), op.b.guard
    guards = Guard(condition), Guard(condition, holds=False)
    sides: list[tuple[str, ...]] = []
    try:
        for guard, name in zip(guards, ("then_branch", "else_branch"), strict=True):
            op.b.guard = guard
            sides.append(op.body(op.graph(name), {}))
    finally:
        op.b.guard = outer
    op.need(len(sides[0]) == len(sides[1]), "its branches do not give the same number of results.")
    merged = []
    for i, pair in enumerate(zip(*sides, strict=True)):
        yes, no = (op.b.types[v] for v in pair)
        if yes != no:
            op.fail(
                f"its result {i + 1} is {yes} in one branch and {no} in the other, and which one is taken depends on the "
                "data. Give both the same shape, or make the condition a constant when compiling."
            )
        merged.append(op.b.merge(list(zip(guards, pair, strict=True))))
    return tuple(merged)


def _here(op: Op, condition: str) -> str:
    """The condition as a value of the branch that we are in, so that what it guards lies inside that branch."""
    return condition if op.b.guards.get(condition) == op.b.guard else op.b.keep(condition)


@dataclass
class _Loop:
    """A loop while it is unrolled. ``parts``: what each carried value is a merge of. ``next``: whether another trip runs,
    surely or as a value says. ``open``: whether a trip so far asked the data."""

    carried: list[str]
    parts: list[list[tuple[Guard | None, str]]]
    scans: list[list[tuple[Guard | None, str]]]
    next: bool | str = True
    trip: int = 0
    open: bool = False


def _loop(op: Op) -> tuple[str | None, ...]:
    """Unrolled trip by trip. A trip that may not run is guarded by the condition that the trip before it left."""
    body = op.graph("body")
    carried = [op.x(i) for i in range(2, len(op.inputs))]
    op.need(
        len(body.input) == len(carried) + 2 and len(body.output) > len(carried),
        "its body does not take and give what it carries.",
    )
    op.need(not op.has(0) or op.b.types[op.x(0)].elements == 1, "its number of trips is not one number.")
    limit, certain = _limit(op)
    scans: list[list[tuple[Guard | None, str]]] = [[] for _ in range(len(body.output) - 1 - len(carried))]
    loop = _Loop(carried, [[(None, v)] for v in carried], scans)
    outer = op.b.guard
    try:
        _decide(op, loop, op.x(1) if op.has(1) else None, limit)
        while loop.trip < limit and loop.next is not False:
            _trip(op, loop, limit)
        last = op.b.guard
    finally:
        op.b.guard = outer
    results = [*(op.b.merge(parts) for parts in loop.parts), *_collected(op, loop)]
    return tuple(_limited(op, loop, last, results) if not certain and loop.next is not False else results)


def _limit(op: Op) -> tuple[int, bool]:
    """Most trips that are unrolled, and whether it is known that the loop makes no more."""
    known = op.b.known(op.x(0)) if op.has(0) else None
    most = max(0, int(known.reshape(-1)[0])) if known is not None else _TRIPS + 1
    stated = op.bound
    if stated is None or stated >= most:
        return most, known is not None
    op.need(stated <= _GUARDED, f"a bound of {stated} trips is more than the {_GUARDED} that are unrolled.")
    return stated, False


def _decide(op: Op, loop: _Loop, condition: str | None, limit: int) -> None:
    """Whether the next trip runs, which is asked only while there may be one."""
    b = op.b
    flags = []
    known = np.ones((), bool) if condition is None else b.known(condition)
    if known is None:
        assert condition is not None
        op.need(b.types[condition].elements == 1, "its condition is not one truth value.")
        flags.append(b.reshape(condition, ()))
    elif not bool(known.reshape(-1)[0]):
        loop.next = False
        return
    if op.has(0) and b.known(op.x(0)) is None:
        flags.append(op.point(lambda trips: trips.op("gt", loop.trip), b.reshape(op.x(0), ())))
    if not flags:
        loop.next = True
        op.need(loop.trip < _TRIPS or loop.trip == limit, f"it runs more than {_TRIPS} times.")
        return
    op.need(
        limit <= _TRIPS,
        "how often it runs depends on the data. Give it a largest number of trips: in the model (its first input), or when "
        "compiling.",
        Hint("bounds", {op.label: 20}),
    )
    op.need(loop.trip < _GUARDED or loop.trip == limit, f"it may stop after any of more than {_GUARDED} trips.")
    loop.next = flags[0] if len(flags) == 1 else op.point(lambda goes, left: goes.op("and", left), *flags)


def _trip(op: Op, loop: _Loop, limit: int) -> None:
    b = op.b
    assert op.body is not None
    body = op.graph("body")
    if isinstance(loop.next, str):
        b.guard = Guard(_here(op, loop.next))
        loop.open = True
    names = [v.name for v in body.input]
    given = [op.const(loop.trip, DType.I64), op.const(np.ones(()), DType.BOOL), *loop.carried]
    results = op.body(body, dict(zip(names, given, strict=True)))
    after, collected = results[1 : 1 + len(loop.carried)], results[1 + len(loop.carried) :]
    for parts, before, value in zip(loop.parts, loop.carried, after, strict=True):
        if loop.open and b.types[value] != b.types[before]:
            op.fail(
                f"it carries {b.types[before]} into a trip and {b.types[value]} out of it, and how often it runs depends on "
                "the data. Carry a tensor of the largest size."
            )
        parts[:] = [*parts, (b.guard, value)] if loop.open else [(None, value)]
    loop.carried = list(after)
    for scans, value in zip(loop.scans, collected, strict=True):
        scans.append((b.guard if loop.open else None, b.reshape(value, (1, *b.shape(value)))))
    loop.trip += 1
    _decide(op, loop, results[0], limit)


def _collected(op: Op, loop: _Loop) -> list[str]:
    """What the trips gave, one behind the other; of trips that may not run zeros, and a length that says how many did."""
    b = op.b
    op.need(all(loop.scans), "collects results but never runs.")
    joined = []
    for scans in loop.scans:
        pieces = []
        for guard, value in scans:
            op.need(b.types[value] == b.types[scans[0][1]], "its trips give results of different shapes.")
            none = op.const(np.zeros(b.shape(value)), b.dtype(value))
            pieces.append(value if guard is None else b.merge([(None, none), (guard, value)]))
        joined.append(b.join(pieces, 0))
    if loop.open and joined:
        ran = [(None, 0), *((guard, n + 1) for n, (guard, _) in enumerate(loop.scans[0]))]
        length = b.merge([(guard, op.const(n, DType.I64)) for guard, n in ran])
        b.lengths.update(dict.fromkeys(joined, (0, length)))
    return joined


def _limited(op: Op, loop: _Loop, last: Guard | None, results: list[str]) -> list[str]:
    """The results; the smallest is read through an index that is outside when the loop would go on: a fault at run time."""
    b = op.b
    op.need(results, "it may go on beyond its bound, and carries nothing by which that would show.")
    going = loop.next if isinstance(loop.next, str) else op.const(np.ones(()), DType.BOOL)
    if last != b.guard:
        going = b.merge([(None, op.const(np.zeros(()), DType.BOOL)), (last, going)])
    at = min(range(len(results)), key=lambda i: b.types[results[i]].elements)
    shape = b.shape(results[at])
    whole = b.reshape(results[at], (1, *shape))
    rows = ((0,) * len(shape), *Access.identity(len(shape)).matrix)
    index = Operand(op.cast(going, DType.I64), Access((), ()))
    source, b.source = b.source, (f"{op.label} makes more trips than its bound", *b.source)  # what the fault will name
    checked = b.gather(whole, shape, Access((0,) * (len(shape) + 1), rows), [index, *(None,) * len(shape)])
    b.source = source
    return [checked if i == at else value for i, value in enumerate(results)]


TABLE: dict[str, Rule] = {"If": _if, "Loop": _loop, "Scan": scan}
