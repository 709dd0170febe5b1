"""What may be done with a value whose length the data decides, and where the length of the result stands.

Behind the length lie zeros (or what was computed from them), which is right to read only by operators that treat every
element by itself, or move whole elements. Everything else is refused.
"""

from __future__ import annotations

from compiler.frontend.op import Op, Rule, tupled
from compiler.frontend.operators.elementwise import TABLE as ELEMENTWISE
from compiler.ir import Access, Operand, arg, index, select

_MOVING = ("Transpose", "Unsqueeze", "Squeeze", "Slice", "Split", "Gather", "GatherND")


def needs_care(op: Op) -> bool:
    """Whether an input's length is decided by the data."""
    return any(v in op.b.lengths for v in op.inputs if v is not None)


def apply(op: Op, rule: Rule) -> tuple[str | None, ...]:
    """The results of ``rule`` with their lengths; ``ModelError`` for an operator that cannot treat such an input."""
    bounded = [i for i, v in enumerate(op.inputs) if v is not None and v in op.b.lengths]
    axis, length = op.b.lengths[op.x(bounded[0])]
    op.need(
        op.kind in ELEMENTWISE or (op.kind in _MOVING and bounded in _followed(op)),
        f"the size of its input {bounded[0] + 1} along axis {axis} depends on the data, which this operator cannot follow. "
        "Make that value an output of the model and go on from there in a second model.",
    )
    picks = op.kind.startswith("Gather") and bounded == [1]
    found = _elementwise(op, bounded) if op.kind in ELEMENTWISE else _moved(op, axis, picks=picks)
    if picks:
        op.inputs = (op.inputs[0], _held(op, op.x(1), axis, length), *op.inputs[2:])
    made = tupled(rule(op))
    for value in made:
        if value is not None:
            op.need(op.b.known(value) is None, "a result is constant, but its size depends on the data.")
            op.b.lengths[value] = (found, length)
    return made


def _followed(op: Op) -> tuple[list[int], ...]:
    """Which inputs may have a length: what is moved, or the places that elements are taken from."""
    return {"Gather": ([0], [1]), "GatherND": ([1],)}.get(op.kind, ([0],))


def _elementwise(op: Op, bounded: list[int]) -> int:
    """The axis of the result; all inputs of another size than 1 there must have the same length."""
    lengths = {op.b.lengths[op.x(i)][1] for i in bounded}
    rank = max(op.rank(i) for i, v in enumerate(op.inputs) if v is not None)
    places = {op.b.lengths[op.x(i)][0] + rank - op.rank(i) for i in bounded}
    op.need(len(lengths) == 1 and len(places) == 1, "its inputs have different lengths, which depend on the data.")
    place = places.pop()
    for i, value in enumerate(op.inputs):
        if value is None or i in bounded:
            continue
        shape = op.shape(i)
        at = place - rank + len(shape)
        op.need(at < 0 or shape[at] == 1, f"its input {i + 1} has no part that the data's length would leave out.")
    return place


def _moved(op: Op, axis: int, *, picks: bool) -> int:
    """The axis of the length behind an operator that moves whole elements; ``picks``: it is the places that have it."""
    if op.kind == "Transpose":
        return op.wholes("perm", list(range(op.rank()))[::-1]).index(axis)
    if op.kind in ("Slice", "Split") or (op.kind == "Gather" and not picks):
        return _beside(op, axis)
    if op.kind == "Gather":
        return op.axis(op.whole("axis", 0), op.rank()) + axis
    if op.kind == "GatherND":
        op.need(axis < op.rank(1) - 1 and axis >= op.whole("batch_dims", 0), "the data decides how deep it reads.")
        return axis
    return _squeezed(op, axis)


def _squeezed(op: Op, axis: int) -> int:
    """The axis of the length behind an operator that adds or drops dimensions of 1."""
    shape = op.shape()
    axes = op.ints("axes", 1, "The axes", [j for j, n in enumerate(shape) if n == 1 and j != axis])
    if op.kind == "Unsqueeze":
        new = sorted(op.axes(axes, len(shape) + len(axes)))
        for a in new:
            axis += a <= axis
        return axis
    gone = op.axes(axes, len(shape))
    op.need(axis not in gone, "the data decides the size of a dimension that is to vanish.")
    return axis - sum(a < axis for a in gone)


def _beside(op: Op, axis: int) -> int:
    """The axis of the length behind an operator that takes parts along other axes."""
    if op.kind == "Slice":
        taken = op.axes(op.ints("axes", 3, "The axes", list(range(len(op.ints("starts", 1, "The starts"))))), op.rank())
    else:
        taken = (op.axis(op.whole("axis", 0), op.rank()),)
    op.need(axis not in taken, "it takes a part of what the data decides the size of.")
    return axis + (op.rank(1) - 1 if op.kind == "Gather" and taken[0] < axis else 0)


def _held(op: Op, value: str, axis: int, length: str) -> str:
    """Indices with 0 behind the length, so that nothing outside is read for what does not count."""
    shape = op.b.shape(value)
    b = op.b
    operands = [Operand(value, Access.identity(len(shape))), Operand(length, Access((), ()))]
    term = select(index(axis).op("lt", arg(1, b.dtype(length))), arg(0, b.dtype(value)), 0)
    return b.compute(shape, operands, term)
