"""The interval between inferences that a program states, held against what its instructions use."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from compiler.errors import ModelError
from compiler.isa.binary import Binary
from compiler.isa.paths import branches
from compiler.simulator.demand import Demand, Work
from compiler.simulator.forms import Array, Form
from compiler.simulator.hazards import Accesses
from compiler.simulator.occupancy import Bytes
from compiler.simulator.placing import Unclear
from compiler.simulator.prepare import Preparation, Prepared
from compiler.simulator.sequence import sequence
from compiler.simulator.whole import Whole
from compiler.targets import Target

_Columns = list[tuple[Array, ...]]


def demand_of_whole(whole: Whole) -> Demand:
    """What one inference of a program uses that has been checked as a whole."""
    found = whole.watch.accesses(0, len(whole.records))
    touched = _bytes(whole.binary, whole.target, whole.watch.forms)
    return Demand(
        Work(
            whole.binary,
            whole.target.line_bytes,
            *whole.units(),
            whole.beats,
            whole.latency,
            whole.sequence,
            found,
            (found.place & 1).astype(np.bool_),
            touched,
        )
    )


def demand_of_prepared(binary: Binary, target: Target, program: Sequence[Prepared]) -> Demand:
    """What one inference of a program without branches uses."""
    names = tuple(dict.fromkeys(p.unit for p in program))
    places = {name: n for n, name in enumerate(names)}
    beats, latency = (np.array([p.timing[n] for p in program], np.int64) for n in (0, 1))
    table = _Table(binary.memory.constants // target.line_bytes)
    for p in program:
        table.add(p)
    found, altered = table.accesses()
    return Demand(
        Work(
            binary,
            target.line_bytes,
            names,
            np.array([places[p.unit] for p in program], np.int64),
            beats,
            latency,
            sequence(binary, beats, latency),
            found,
            altered,
            _bytes(binary, target, table.forms),
        )
    )


class _Table:
    """Accesses to lines behind the constants, gathered instruction by instruction."""

    def __init__(self, constant_lines: int) -> None:
        self._constant_lines = constant_lines
        self._columns: _Columns = []
        self._rows: dict[int, int] = {}
        self._size = 0
        self.forms: list[tuple[int, Form]] = []

    def add(self, p: Prepared) -> None:
        cycle = p.i.cycle
        for check in p.checks:
            self._note(
                check.lines, 2 * p.number, cycle, (check.begin, check.end), None if check.moved else check.piece.form
            )
        if p.out is not None:
            moved = p.i.gather != 0 and "old" in p.reads
            # What data puts anywhere overwrites nothing for certain: it keeps what is there, as a read does.
            place = 2 * p.number + (not moved)
            self._note(p.out.lines, place, cycle, p.spans["out"], None if moved else p.out.form, altered=True)

    def _note(
        self,
        lines: slice | Array,
        place: int,
        cycle: int,
        span: tuple[Array | int, Array | int],
        form: Form | None,
        *,
        altered: bool = False,
    ) -> None:
        line = np.arange(lines.start, lines.stop) if isinstance(lines, slice) else lines
        if not line.size or int(line[-1]) < self._constant_lines:
            return
        row = np.full(line.size, -1) if form is None else self._row(form) + np.arange(line.size)
        begin, end = (np.broadcast_to(at, line.shape) + cycle for at in span)
        constant = [np.broadcast_to(np.asarray(value), line.shape) for value in (place, altered)]
        self._columns.append((line, constant[0], begin, end, row, constant[1]))

    def _row(self, form: Form) -> int:
        """Where a form's lines begin in the table."""
        if id(form) not in self._rows:
            self._rows[id(form)] = self._size
            self.forms.append((self._size, form))
            self._size += form.lines.size
        return self._rows[id(form)]

    def accesses(self) -> tuple[Accesses, Array]:
        none = tuple(np.empty(0, np.int64) for _ in range(6))
        *found, altered = (np.concatenate(column) for column in zip(none, *self._columns, strict=True))
        return Accesses(*found), altered.astype(np.bool_)


def _bytes(binary: Binary, target: Target, forms: Sequence[tuple[int, Form]]) -> Bytes:
    return Bytes(forms, target.line_bytes, min((stream.size for stream in binary.streams), default=1))


def shortest(binary: Binary, target: Target) -> int:
    """The shortest interval, of those up to the stated one, that a program's instructions allow: the stated one is legal.

    Inferences of a program with branches follow each other.
    """
    if branches(binary.rows) or not len(binary.instructions):
        return binary.interval
    try:
        demand = demand_of_whole(Whole(binary, target))
    except Unclear:
        demand = demand_of_prepared(binary, target, Preparation(binary, target).run())
    return demand.reservations.shorter(binary.interval) or binary.interval


def check_interval(binary: Binary, demand: Demand | None) -> None:
    """``ModelError`` unless the stated interval is legal and, for programs that say so, the shortest that is.

    ``demand``: None for a program with branches, whose inferences follow each other.
    """
    stated = binary.interval
    if demand is None:
        least = max(1, binary.latency)
        if stated < least or (binary.derived and stated > least):
            raise _untrue(stated, f"its inferences follow each other, one every {least}")
        return
    uses = demand.reservations
    if stated < max(1, uses.least):
        raise _untrue(stated, f"each inference needs what the one before leaves, after {uses.least}")
    conflict = uses.conflict(stated)
    if conflict is not None:
        raise _untrue(stated, f"two inferences would then use {demand.name(conflict)} at once")
    if binary.derived and (shorter := uses.shorter(stated)) is not None:
        raise _untrue(stated, f"its instructions allow one every {shorter}")
    if not binary.derived and stated > max(1, binary.latency):
        raise _untrue(stated, f"an inference takes no more than {binary.latency}")


def _untrue(stated: int, why: str) -> ModelError:
    return ModelError(f"the program states an inference every {stated} cycles, but {why}; compile the model again")
