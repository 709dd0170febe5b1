"""Generating with buckets: state moves to a larger program when a sequence outgrows the one that it is in.

The move goes through the host, because two programs are never on a processor at once: the old program's variables leave over
the link, the new program's arrive over it. Along every dimension the old values take the first places, zeros the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from compiler.errors import ModelError
from compiler.simulator import Session

if TYPE_CHECKING:
    from compiler.bundle import Bundle
    from compiler.isa.resources import Counters
    from compiler.program import Program

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Move:
    """What it costs to bring the variables from one program to another: bytes over the link, and cycles one after the other."""

    bytes_out: int
    bytes_in: int
    cycles: int


def move(old: Program, new: Program) -> Move:
    """The cost of moving all variables of ``old`` into ``new``."""
    out = sum(len(slot.initial) for slot in old.binary.states)
    into = sum(len(slot.initial) for slot in new.binary.states)
    sending, taking = old.target.link_out, new.target.link_in
    cycles = -(-out // sending.bytes_per_cycle) + sending.latency + -(-into // taking.bytes_per_cycle) + taking.latency
    return Move(out, into, cycles)


def fitted(array: Array, shape: tuple[int, ...]) -> Array:
    """The array's values in the first places of one of ``shape``, which is nowhere smaller."""
    out = np.zeros(shape, array.dtype)
    out[tuple(slice(0, n) for n in array.shape)] = array
    return out


class BundleSession:
    """Runs the programs of a bundle on one sequence; ``moves`` lists what the changes of program cost.

    Programs that keep the same variables (a prefill and a step of one context) take turns as the sizes ask.
    """

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._place: int | None = None
        self._session: Session | None = None
        self._one_set = len({_variables(program) for program in bundle.programs}) == 1
        self.moves: list[Move] = []

    @property
    def program(self) -> Program | None:
        """The program in use."""
        return None if self._place is None else self._bundle.programs[self._place]

    @property
    def state(self) -> dict[str, Array]:
        """A copy of every variable by name."""
        return {} if self._session is None else self._session.state

    def run(
        self, feed: Mapping[str, Any], length: int | None = None, **sizes: int
    ) -> tuple[dict[str, Array], Counters]:
        """One inference on the smallest program that holds the sizes and everything so far; errors as in ``simulate``."""
        wanted = self._bundle.sizes(length, sizes)
        if self._place is not None and not self._one_set:
            held = self._bundle.dims[self._place]
            wanted = {name: max(size, wanted.get(name, 0)) for name, size in held.items()}
        chosen = self._bundle.programs.index(self._bundle.program_for(**wanted))
        if chosen != self._place or self._session is None:
            self._enter(chosen)
        assert self._session is not None
        return self._session.run(feed)

    def _enter(self, chosen: int) -> None:
        program, before = self._bundle.programs[chosen], self.program
        session = Session(program.to_bytes(), target=program.target)
        if before is not None:
            shapes = {slot.name: slot.shape for slot in program.binary.states}
            kept = self.state
            if list(kept) != list(shapes) or any(len(kept[n].shape) != len(s) for n, s in shapes.items()):
                raise ModelError(
                    "the programs of this bundle do not keep the same variables; compile them from one model"
                )
            session.set_state({name: fitted(array, shapes[name]) for name, array in kept.items()})
        if before is not None and not _in_place(before, program):
            self.moves.append(move(before, program))
        self._place, self._session = chosen, session


def _in_place(before: Program, program: Program) -> bool:
    """Whether the variables of both programs lie at the same addresses."""
    return [(s.name, s.base) for s in before.binary.states] == [(s.name, s.base) for s in program.binary.states]


def _variables(program: Program) -> tuple[tuple[str, str, tuple[int, ...]], ...]:
    return tuple((slot.name, slot.dtype, slot.shape) for slot in program.binary.states)
