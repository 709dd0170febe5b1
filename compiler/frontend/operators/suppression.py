"""NonMaxSuppression: the best box left is taken, what overlaps it goes, as often as boxes may be taken."""

from __future__ import annotations

import numpy as np

from compiler.frontend.op import Op, Rule
from compiler.frontend.operators.bounded import Kept
from compiler.frontend.operators.reduction import places_of
from compiler.ir import Access, DType, Operand, Term, index, select

_STEPS = 1 << 10  # boxes taken per class: each is a step of its own in the program


def _suppress(op: Op) -> str:
    batches, classes, count = _shape(op)
    wanted = int(op.known(2, "The most boxes per class").reshape(-1)[0]) if op.has(2) else 0
    steps = min(wanted, count)
    if steps <= 0 or not op.b.types[op.x(1)].elements:
        return op.const(np.zeros((0, 3)), DType.I64)
    op.need(
        steps <= _STEPS,
        f"takes {steps} boxes per class; at most {_STEPS} are offered. Lower max_output_boxes_per_class.",
    )
    sides = _sides(op)
    live = _begin(op)
    taken: list[tuple[str, str]] = []
    for step in range(steps):
        place, found = _best(op, live)
        taken.append((place, found))
        if step + 1 < steps:
            live = _rest(op, live, sides, place)
    shape = (batches, classes, steps)
    flags = op.b.reshape(op.b.join([f for _, f in taken], 2), (batches * classes * steps,))
    chosen = op.b.reshape(op.b.join([p for p, _ in taken], 2), (batches * classes * steps, 1))
    fixed = np.stack(np.unravel_index(np.arange(np.prod(shape)), shape), 1)[:, :2]
    rows = op.b.join([op.const(fixed, DType.I64), chosen], 1)
    return Kept(op, flags).compact(rows)


def _shape(op: Op) -> tuple[int, ...]:
    """The shape of the scores [batches, classes, boxes], which fits that of the boxes."""
    boxes, scores = op.shape(0), op.shape(1)
    fits = len(boxes) == len(scores) == 3 and boxes[2] == 4 and boxes[0] == scores[0] and boxes[1] == scores[2]
    op.need(fits and op.dtype(0).is_float and op.dtype(0) == op.dtype(1), "its scores do not fit its boxes.")
    return scores


def _sides(op: Op) -> tuple[str, str, str, str]:
    """Low and high ends [batches, boxes] of both sides, whichever corners the boxes name."""
    shape = op.shape()[:2]
    a, b, c, d = (op.b.reshape(op.slice(op.x(0), 2, i, 1), shape) for i in range(4))
    if op.whole("center_point_box", 0):  # x centre, y centre, width, height
        half = ((b, d), (a, c))
        low = [op.point(lambda m, s: m - s / 2.0, m, s) for m, s in half]
        high = [op.point(lambda m, s: m + s / 2.0, m, s) for m, s in half]
        return low[0], low[1], high[0], high[1]
    pairs = ((a, c), (b, d))
    low = [op.point(lambda p, q: p.op("min", q), p, q) for p, q in pairs]
    high = [op.point(lambda p, q: p.op("max", q), p, q) for p, q in pairs]
    return low[0], low[1], high[0], high[1]


def _begin(op: Op) -> str:
    """The scores that may be taken; those that may not are minus infinity."""
    if not op.has(4):
        return op.x(1)
    limit = op.b.reshape(op.x(4), ())
    return op.point(lambda s, t: select(s.op("gt", t.cast(s.dtype)), s, -np.inf), op.x(1), limit)


def _best(op: Op, live: str) -> tuple[str, str]:
    """Place of the best score of each class, and whether there is one: [batches, classes, 1] both."""
    best = op.reduce("max", live, (2,))
    place = places_of(op, live, best, 2)
    found = op.point(lambda b: b.op("gt", -np.inf), best)
    held = op.point(lambda p: p.op("min", op.b.shape(live)[2] - 1), place)
    return held, found


def _rest(op: Op, live: str, sides: tuple[str, str, str, str], place: str) -> str:
    """The scores without the box at ``place`` and without what overlaps it by more than the threshold."""
    shape = op.b.shape(live)
    here = _picked(op, sides, place)
    limit = op.b.reshape(op.x(3), ()) if op.has(3) else op.const(0.0, op.dtype())

    def overlap(low: Term, high: Term, other_low: Term, other_high: Term) -> Term:
        return (high.op("min", other_high) - low.op("max", other_low)).op("max", 0.0)

    def wide(value: str) -> str:
        return op.b.reshape(value, (shape[0], 1, shape[2]))

    y = op.point(overlap, *(wide(sides[i]) for i in (0, 2)), here[0], here[2])
    x = op.point(overlap, *(wide(sides[i]) for i in (1, 3)), here[1], here[3])
    own = op.point(lambda a, b, c, d: (c - a) * (d - b), *here)
    area = op.point(lambda a, b, c, d: (c - a) * (d - b), *map(wide, sides))
    share = op.point(
        lambda h, w, a, b: select(
            a.op("gt", 0.0).op("and", b.op("gt", 0.0)).op("and", (h * w).op("gt", 0.0)), h * w / (a + b - h * w), 0.0
        ),
        y,
        x,
        own,
        area,
    )

    def left(s: Term, p: Term, o: Term, t: Term) -> Term:
        return select(p.op("eq", index(2)).op("or", o.op("gt", t.cast(o.dtype))), -np.inf, s)

    return op.point(left, live, place, share, limit)


def _picked(op: Op, sides: tuple[str, str, str, str], place: str) -> list[str]:
    """The four sides of the box at ``place``: [batches, classes, 1] each."""
    shape = op.b.shape(place)
    access = Access((0, 0), ((1, 0, 0), (0, 0, 0)))
    return [op.b.gather(s, shape, access, [None, Operand(place, Access.identity(3))]) for s in sides]


TABLE: dict[str, Rule] = {"NonMaxSuppression": _suppress}
